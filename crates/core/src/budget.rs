//! The restart budget of a target.

use std::collections::VecDeque;
use std::time::Duration;

use super::memory::Memory;
use crate::clock::Moment;

/// How often the target may be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartBudget {
    /// How many restarts are allowed within `within`.
    pub most: u32,
    /// The time for which restarts count.
    pub within: Duration,
}

/// The restarts of a rule's target that the budget still counts, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget {
    restarts: VecDeque<Moment>,
}

impl Budget {
    /// Counts the restarts that an earlier podnudge has counted, and one that had begun, as it may have taken place. A
    /// later time than now, after a change of the clock, counts as now: the budget is not exceeded, and no restart waits
    /// longer than `within`.
    pub(super) fn restored(memory: &Memory, now: Moment) -> Self {
        let saved = memory.rollout.as_ref().filter(|saved| !saved.is_after_restart());
        let began = saved.and_then(|saved| saved.restart_began);
        let is_counted = |began: &Moment| memory.restarts.iter().any(|at| at >= began);
        let uncounted = began.filter(|began| !is_counted(began));
        let all = memory.restarts.iter().copied().chain(uncounted);
        let mut restarts: Vec<Moment> = all.map(|at| at.min(now)).collect();
        restarts.sort_unstable();
        Self { restarts: restarts.into() }
    }

    /// Counts a restart that began at `began`, unless it counts already.
    pub(super) fn count_once(&mut self, now: Moment, began: Option<Moment>, limit: RestartBudget) {
        if !began.is_some_and(|began| self.restarts().any(|at| at >= began)) {
            self.count(now, limit);
        }
    }

    /// Counts a restart of the target.
    pub(super) fn count(&mut self, now: Moment, limit: RestartBudget) {
        while self.restarts.front().is_some_and(|at| at.after(limit.within) <= now) {
            self.restarts.pop_front();
        }
        self.restarts.push_back(now);
        let surplus = self.restarts.len().saturating_sub(Memory::MOST_RESTARTS);
        self.restarts.drain(..surplus);
    }

    /// The restarts, to be remembered.
    pub(super) fn restarts(&self) -> impl Iterator<Item = Moment> {
        self.restarts.iter().copied()
    }

    /// The earliest time, from `now` on, at which the budget allows a restart.
    pub(super) fn next(&self, now: Moment, limit: RestartBudget) -> Moment {
        let counted = self.restarts.iter().filter(|at| at.after(limit.within) > now);
        let most = usize::try_from(limit.most).unwrap_or(usize::MAX);
        let room_after = counted.rev().nth(most.saturating_sub(1));
        room_after.map_or(now, |at| at.after(limit.within))
    }
}
