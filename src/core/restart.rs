//! Restarting the target: as the rule's action, or where its actions do not help; and how often.

use std::collections::VecDeque;

use super::delivery::Attempt;
use super::event::Command;
use super::fact::Fact;
use super::rule::Rule;
use crate::clock::{Moment, Now};
use crate::reason::Reason;

impl Rule {
    /// Restarts the target instead, once for an attempt and within the budget. Says whether.
    pub(super) fn restart_instead(
        &mut self,
        now: Now,
        attempt: &Attempt,
        reason: &Reason,
        out: &mut VecDeque<Command>,
    ) -> bool {
        let may = !attempt.restart && !self.stopping;
        // Taking back what a restart has brought is part of that one.
        let in_budget = attempt.after_restart || self.next_restart(now.mono) <= now.mono;
        if !may || !in_budget {
            return false;
        }
        self.say(Fact::Escalating(attempt.digest(), reason.clone()), out);
        let attempt = Attempt { restart: true, number: 1, ..attempt.clone() };
        self.act(now, attempt, out);
        true
    }

    /// The target was restarted. Taking back what a restart has brought is part of that one.
    pub(super) fn restarted(&mut self, now: Moment, attempt: &Attempt) {
        self.counters.restarts += 1;
        if !attempt.after_restart {
            self.restarts.push_back(now);
        }
    }

    /// The first moment from now on at which the budget allows a restart.
    pub(super) fn next_restart(&mut self, now: Moment) -> Moment {
        let budget = self.policy.restarts;
        while self.restarts.front().is_some_and(|at| at.after(budget.within) <= now) {
            self.restarts.pop_front();
        }
        let most = usize::try_from(budget.most).unwrap_or(usize::MAX);
        let surplus = self.restarts.len().saturating_sub(most.saturating_sub(1));
        let last = surplus.checked_sub(1).and_then(|index| self.restarts.get(index));
        last.map_or(now, |at| at.after(budget.within).max(now))
    }
}
