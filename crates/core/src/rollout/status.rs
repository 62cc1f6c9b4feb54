//! What the status says of a rollout.

use super::progress::Context;
use super::{Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::reason::Reason;

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

    pub(crate) fn reason(&self) -> Option<&Reason> {
        match &self.step {
            Step::Waiting { reason, .. } | Step::Tripped { reason, .. } => Some(reason),
            Step::Verifying(verification) => verification.reason(),
            Step::Publishing { .. } | Step::Acting(_) | Step::EndingPod { .. } => None,
        }
    }
}
