//! What the status says of a rollout.

use super::progress::Context;
use super::{Direction, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::reason::Reason;
use crate::status::State;

impl Rollout {
    /// The time of the next action.
    pub(crate) fn next_attempt(&self, ctx: &Context<'_>) -> Option<Moment> {
        let Step::Waiting { what, at, .. } = &self.step else { return None };
        if *what == WaitFor::Services {
            return None;
        }
        let is_held = self.needs_budget(*what, ctx) && ctx.roll_back_to.is_none();
        Some(if is_held { *at.max(&ctx.restart_at) } else { *at })
    }

    pub(crate) fn state(&self) -> State {
        match (&self.step, self.direction) {
            (Step::Tripped { .. }, _) => State::Tripped,
            (Step::Waiting { what: WaitFor::Refusal, .. }, _) => State::Refused,
            (
                Step::Waiting {
                    what: WaitFor::Budget | WaitFor::Slot | WaitFor::Disruption | WaitFor::Eviction,
                    ..
                },
                _,
            ) => State::Held,
            (Step::Waiting { what: WaitFor::Drain | WaitFor::Services, .. }, _) => State::Draining,
            (_, Direction::Back { .. }) => State::RollingBack,
            (Step::Waiting { what: WaitFor::Start, .. }, _) => State::Waiting,
            (Step::Publishing { .. }, _) => State::Publishing,
            (
                Step::Acting(_)
                | Step::EndingPod { .. }
                | Step::Waiting { what: WaitFor::Deletion, .. },
                _,
            ) => State::Acting,
            (Step::Verifying(_), _) => State::Verifying,
            (Step::Waiting { what: WaitFor::Target, .. }, _) => State::WaitingForTarget,
            (Step::Waiting { what: WaitFor::Retry | WaitFor::Restart, .. }, _) => State::Backoff,
        }
    }

    pub(crate) fn reason(&self) -> Option<&Reason> {
        match &self.step {
            Step::Waiting { reason, .. } | Step::Tripped { reason, .. } => Some(reason),
            Step::Verifying(verification) => verification.reason(),
            Step::Publishing { .. } | Step::Acting(_) | Step::EndingPod { .. } => None,
        }
    }
}
