//! How far a rollout is from its action: the pod leaves its Services before it, and comes back after it.

use std::time::Duration;

use super::limit::Limit;
use super::missing::FoundBy;
use super::progress::{Context, Effect, Progress};
use super::{Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::core::command::Extent;
use crate::core::fact::Fact;
use crate::reason::Reason;

impl Rollout {
    /// Runs the actions. Where the pod has to leave its Services first, or the other replicas do not permit
    /// it yet, only finds out whether the action can be sent, or waits for the end of the drain.
    pub(super) fn act(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let acts = self.tripped.is_none() && !self.looks_for_pod_restart();
        let drain = self.drain_time(ctx).filter(|_| acts);
        let is_limited = acts && self.is_limited(ctx);
        if let (Some(wait), Some(since)) = (drain, ctx.drained_since)
            && ctx.now.mono < since.after(wait)
            && !is_limited
        {
            return self.drain(wait, since.after(wait));
        }
        let drains_first = drain.is_some() && ctx.drained_since.is_none();
        let is_unprepared = ctx.policy.slot.is_some() && self.is_absence_unprepared();
        let prepares = drains_first || is_limited || is_unprepared;
        self.step = Step::Acting { prepares };
        progress.effect(Effect::Act);
    }

    /// The action can be sent, as soon as the other replicas permit it, and the pod has left its Services.
    pub(super) fn prepared(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        self.absent.iter_mut().for_each(|absent| absent.found_by = FoundBy::Poll);
        if self.is_limited(ctx) {
            return self.wait_for_others(ctx, progress);
        }
        let Some(wait) = self.drain_time(ctx).filter(|_| ctx.drained_since.is_none()) else {
            return self.act(ctx, progress);
        };
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

    /// Whether it waits for the pod to leave its Services, and may be kept from acting after that.
    pub(in crate::core) fn is_draining(&self) -> bool {
        self.limit != Limit::None && matches!(self.step, Step::Waiting { what: WaitFor::Drain, .. })
    }

    /// Whether an earlier podnudge began it, and this one has not continued it.
    pub(in crate::core) fn is_resumed(&self) -> bool {
        matches!(self.step, Step::Waiting { what: WaitFor::Start, .. })
    }

    /// How far the current action goes.
    pub(in crate::core) fn extent(&self) -> Extent {
        match self.step {
            _ if self.has_tripped() => Extent::LookForFresh,
            _ if self.looks_for_pod_restart() => Extent::LookForRestart,
            Step::Acting { prepares: true } => Extent::Prepare,
            _ => Extent::Send,
        }
    }
}
