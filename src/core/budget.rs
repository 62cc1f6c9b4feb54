//! The restart budget of a target.

use std::collections::VecDeque;

use crate::clock::Moment;
use crate::config;

/// The restarts of a rule's target that the budget still counts.
#[derive(Debug, Default)]
pub(super) struct Budget {
    restarts: VecDeque<Moment>,
}

impl Budget {
    /// Counts a restart of the target.
    pub(super) fn restarted(&mut self, now: Moment, limit: config::Restart) {
        while self.restarts.front().is_some_and(|at| at.after(limit.within) <= now) {
            self.restarts.pop_front();
        }
        self.restarts.push_back(now);
    }

    /// The earliest time, from `now` on, at which the budget allows a restart.
    pub(super) fn next(&self, now: Moment, limit: config::Restart) -> Moment {
        let counted = self.restarts.iter().filter(|at| at.after(limit.within) > now);
        let most = usize::try_from(limit.most).unwrap_or(usize::MAX);
        let room_after = counted.rev().nth(most.saturating_sub(1));
        room_after.map_or(now, |at| at.after(limit.within))
    }
}
