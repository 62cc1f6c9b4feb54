//! The eviction of podnudge's own pod. It ends this podnudge; the next pod reads the content at its start.

use std::time::Duration;

use super::failures::Failure;
use super::progress::{Context, Effect, Outcome, Progress};
use super::{Rollout, TargetRestart, WaitFor};
use crate::backoff;
use crate::fact::Fact;
use crate::reason::Reason;
use crate::status::State;

/// The wait after the first attempt that must not be made now.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

impl Rollout {
    /// The pod is being deleted: podnudge waits to be ended with it.
    pub(super) fn evicted(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        progress.report(Fact::Evicted(self.digest()));
        progress.effect(Effect::Interrupted);
        progress.effect(Effect::Delivered);
        self.refusals = 0;
        let until = ctx.now.mono.after(ctx.policy.rollout.evict_wait.unwrap_or_default());
        self.wait(
            WaitFor::Deletion,
            until,
            Reason::new("the pod was evicted, and waits for its end"),
        );
    }

    /// Whether the pod was replaced by this one since the rollout began: its application has read the content.
    pub(crate) fn is_in_new_pod(&self) -> bool {
        self.target_restart == Some(TargetRestart::PodReplaced)
    }

    /// It must not be evicted now, or it is not known whether it was (`what`). That changes without new content,
    /// however long it takes.
    pub(super) fn await_eviction(
        &mut self,
        what: WaitFor,
        reason: Reason,
        pause: Duration,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let wait =
            backoff::doubled(FIRST_PAUSE, self.refusals, ctx.policy.rollout.retry.max).max(pause);
        self.refusals = self.refusals.saturating_add(1);
        if !self.has_reported(State::Held, &reason) {
            progress.report(Fact::Held(reason.clone(), Some(wait)));
            self.reported = Some((State::Held, reason.message.clone()));
        }
        self.wait(what, ctx.now.mono.after(wait), reason);
    }

    /// The pod was evicted, and still runs. That is no evidence against the content.
    pub(super) fn not_deleted(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let wait = humantime::format_duration(ctx.policy.rollout.evict_wait.unwrap_or_default());
        let message = format!("the pod was evicted, and has not ended within {wait}");
        let hint = "look for finalizers of the pod, and set `wait` of `[rule.evict]` to more than its terminationGracePeriodSeconds";
        let reason = Reason::new(message).hint(hint);
        progress.effect(Effect::Failed);
        if self.attempt >= ctx.policy.rollout.retry.attempts {
            return progress.end(Outcome::Ineffective(reason));
        }
        let wait = backoff::wait_after(self.attempt, ctx.policy.rollout.retry);
        progress.report(self.retrying(Failure::Undelivered, reason.clone(), wait, ctx));
        self.wait(WaitFor::Retry, ctx.now.mono.after(wait), reason);
    }
}
