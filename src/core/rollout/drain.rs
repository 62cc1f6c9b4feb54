//! How far a rollout is from its action: the pod leaves its Services before it, and comes back after it.

use std::time::Duration;

use super::progress::{Context, Effect, Progress};
use super::{Direction, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::core::command::Extent;
use crate::core::fact::Fact;
use crate::reason::Reason;

impl Rollout {
    /// Runs the actions. Where the pod has to leave its Services first, only finds out whether that
    /// would be of use, or waits for the end of the drain.
    pub(super) fn act(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let drain = self.drain_time(ctx).filter(|_| self.tripped.is_none());
        if let (Some(wait), Some(since)) = (drain, ctx.drained_since)
            && ctx.now.mono < since.after(wait)
        {
            return self.drain(wait, since.after(wait));
        }
        self.step = Step::Acting { prepares: drain.is_some() && ctx.drained_since.is_none() };
        progress.effect(Effect::Act);
    }

    /// The action can be sent, and the pod leaves its Services first.
    pub(super) fn prepared(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let wait = self.drain_time(ctx).unwrap_or_default();
        progress.report(Fact::Draining(self.digest(), wait));
        progress.effect(Effect::Drain);
        self.drain(wait, ctx.now.mono.after(wait));
    }

    /// How long the pod is out of its Services before this action; `None` if it stays in.
    fn drain_time(&self, ctx: &Context<'_>) -> Option<Duration> {
        ctx.policy.drain_before(self.is_restart || ctx.policy.is_restart)
    }

    /// Waits until the pod has left its Services.
    fn drain(&mut self, wait: Duration, until: Moment) {
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
