//! How often the application may be acted on: the minimum time between two actions, and the restart budget. Beside
//! them, how often the kubelet has started the application's container again, because that delays the next start.

use std::time::Duration;

use crate::budget::Budget;
use crate::clock::Moment;
use crate::event::{Acted, Alive, Verified};
use crate::kubelet::{self, Ends, StartDelay};
use crate::memory::Memory;
use crate::policy::Policy;
use crate::rollout::{Input, Rollout};

/// What was done to the application so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rate {
    budget: Budget,
    last_action: Option<Moment>,
    /// Whether the target was the main process of a container, which the kubelet starts.
    is_container: bool,
    /// How often that container has ended.
    ends: Ends,
}

impl Rate {
    /// Takes what an earlier podnudge has saved. Times after `now` count as now.
    pub(crate) fn restored(now: Moment, memory: &Memory) -> Self {
        let began = memory.rollout.as_ref().and_then(|saved| saved.restart_began);
        let ends = memory.ends.as_of(now);
        Self {
            budget: Budget::restored(memory, now),
            last_action: memory.last_action.max(began).map(|at| at.min(now)),
            is_container: ends.count > 0,
            ends,
        }
    }

    /// What was counted since `before` does not count: podnudge has not acted after all.
    pub(crate) fn take_back(&mut self, before: &Self) {
        self.budget.clone_from(&before.budget);
        self.last_action = before.last_action;
    }

    /// An action took place.
    pub(crate) fn acted(&mut self, now: Moment) {
        self.last_action = Some(now);
    }

    /// The target was restarted for this rollout. The rollback of a restart is part of that restart.
    pub(crate) fn restarted(&mut self, now: Moment, rollout: &Rollout, policy: &Policy) {
        if !rollout.is_after_restart() {
            self.budget.count(now, policy.application.restarts);
        }
    }

    /// podnudge ends for a restart of the pod, which began at `began`. It may have ended for it before.
    pub(crate) fn ends_pod(
        &mut self,
        now: Moment,
        began: Option<Moment>,
        rollout: &Rollout,
        policy: &Policy,
    ) {
        if !rollout.is_after_restart() {
            self.budget.count_once(now, began, policy.application.restarts);
        }
        self.acted(now);
    }

    /// The target is the main process of a container, or is not.
    pub(crate) fn found_container(&mut self, is_container: bool) {
        self.is_container = is_container;
    }

    /// Counts the end of the container, if the input tells of one.
    pub(crate) fn observe(&mut self, now: Moment, input: &Input) {
        if !self.is_container {
            return;
        }
        self.ends = match input {
            Input::Acted(Acted::Restarted(_)) => self.ends.ended(now),
            Input::Ended | Input::Verified(Verified { alive: Alive::Gone(_), .. }) => {
                self.ends.observed(now)
            }
            _ => self.ends,
        };
    }

    /// When the minimum time since the last action is over.
    pub(crate) fn next_action(&self, policy: &Policy) -> Option<Moment> {
        self.last_action.map(|last| last.after(self.min_interval(policy)))
    }

    /// The minimum time between two actions. Restarts of a container are spread.
    pub(crate) fn min_interval(&self, policy: &Policy) -> Duration {
        let spreads = policy.rollout.is_restart && !policy.gate.is_min_interval_set;
        match (spreads, self.is_container) {
            (true, true) => kubelet::MIN_INTERVAL,
            (true, false) => Duration::ZERO,
            (false, _) => policy.gate.min_interval,
        }
    }

    /// When the budget allows the next restart.
    pub(crate) fn next_restart(&self, now: Moment, policy: &Policy) -> Moment {
        self.budget.next(now, policy.application.restarts)
    }

    /// The delay of the last start by the kubelet.
    pub(crate) fn last_delay(&self) -> Option<StartDelay> {
        self.ends.last_delay()
    }

    /// The restarts, the last action and the ends of the container, to be saved.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = Moment> {
        self.budget.restarts()
    }

    pub(crate) fn last_action(&self) -> Option<Moment> {
        self.last_action
    }

    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }
}
