//! How far a rollout is from its action: the pod leaves its Services before it, and comes back after it.

use std::time::Duration;

use super::progress::{Context, Effect, Progress};
use super::{Direction, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::core::command::Extent;
use crate::reason::Reason;

impl Rollout {
    /// Runs the actions. Where the pod has to leave its Services first, only finds out whether that
    /// would be of use, or waits for the end of the drain.
    pub(super) fn act(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let is_restart = self.is_restart || ctx.policy.is_restart;
        let drain = ctx.policy.drain_before(is_restart).filter(|_| self.tripped.is_none());
        let drained_at = drain.and_then(|wait| Some(ctx.drained_since?.after(wait)));
        match (drain, drained_at) {
            (Some(wait), Some(at)) if at > ctx.now.mono => self.drain(wait, at),
            (drain, drained_at) => {
                let prepares = drain.is_some() && drained_at.is_none();
                self.step = Step::Acting { prepares };
                progress.effect(Effect::Act);
            }
        }
    }

    /// Waits until the pod has left its Services.
    pub(super) fn drain(&mut self, wait: Duration, until: Moment) {
        let wait = humantime::format_duration(wait);
        let reason = Reason::new(format!("`/serving` answers 503 for {wait} before the action"));
        self.wait(WaitFor::Drain, until, reason);
    }

    /// Whether the pod stays out of its Services, if it is: the action is near, or its effect.
    pub(in crate::core) fn is_near_action(&self) -> bool {
        let is_near = |what| matches!(what, WaitFor::Drain | WaitFor::Target);
        self.is_busy() || matches!(self.step, Step::Waiting { what, .. } if is_near(what))
    }

    /// Whether its next action has not begun: it can go back to the gate.
    pub(in crate::core) fn is_before_action(&self) -> bool {
        let is_before = |what| !matches!(what, WaitFor::Target);
        self.direction == Direction::Forward
            && matches!(self.step, Step::Waiting { what, .. } if is_before(what))
    }

    /// How far the current action goes.
    pub(in crate::core) fn extent(&self) -> Extent {
        match self.step {
            _ if self.has_tripped() => Extent::LookForFresh,
            Step::Acting { prepares: true } => Extent::Prepare,
            _ => Extent::Send,
        }
    }
}
