//! The actions that end podnudge itself, with its pod. The next podnudge finds out what became of that.
//!
//! For a restart of the whole pod in place, podnudge ends with an exit code for which the kubelet restarts all
//! containers. The action only finds out whether that is needed (`action/pod_end.rs`). Then the rollout waits until no
//! other rule is busy (`Step::EndingPod`), saves how often podnudge has ended for it, and `Command::EndPod` ends the
//! event loop after all that is queued for writing. If podnudge must not end then, what was counted for its end does
//! not count (`rule/pod_end.rs`). The next podnudge continues the saved rollout with a look at what became of it
//! (`Extent::LookForRestart`). A kill can come between the saving and the end: so one end without effect is no evidence
//! that the pod lacks its rule, and two are.
//!
//! An eviction deletes the pod, and the application of the next one reads the content at its start. The action finds
//! out by the same code whether it is needed, and `run/api/evict.rs` reads the own Pod and sends the request. What must not
//! be done now (`Acted::Postponed`) waits in `WaitFor::Disruption`, and what has got no answer (`Acted::Unanswered`) in
//! `WaitFor::Eviction`, as long as it takes. After an eviction the rollout waits for the end of podnudge itself
//! (`WaitFor::Deletion`). What is saved has the UID of the pod. In another pod, the rollout, the slot and what limits
//! actions still count (`Memory::in_new_pod`): the rollout only verifies that pod, or ends if the first scan finds
//! other content.

use std::time::Duration;

use super::failures::Failure;
use super::progress::{Context, Effect, Outcome, Progress};
use super::{Rollout, Step, TargetRestart, WaitFor};
use crate::backoff;
use crate::clock::Moment;
use crate::evidence::Evidence;
use crate::fact::Fact;
use crate::reason::Reason;
use crate::status::State;

/// The wait after the first eviction that must not be made now.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How many ends of podnudge without a restart of the pod show that the kubelet has no rule for its exit code. After
/// the first one, podnudge may have been killed just before it ended by itself.
const ENDS_WITHOUT_EFFECT: u32 = 2;

impl Rollout {
    /// podnudge ends as soon as it may.
    pub(super) fn await_end(&mut self, now: Moment) {
        self.step = Step::EndingPod { since: now, is_sent: false };
    }

    /// Whether podnudge is to end for it.
    pub(crate) fn ends_pod(&self) -> bool {
        matches!(self.step, Step::EndingPod { .. })
    }

    /// Whether podnudge is to end for it, and was not told so.
    pub(crate) fn waits_to_end_pod(&self) -> bool {
        matches!(self.step, Step::EndingPod { is_sent: false, .. })
    }

    /// podnudge ends now. Returns when the restart began, which it may have ended for before.
    pub(crate) fn end_pod(&mut self, now: Moment) -> Option<Moment> {
        self.step = Step::EndingPod { since: now, is_sent: true };
        self.target_restart = self.target_restart.map(TargetRestart::with_pod_end);
        self.restart_began()
    }

    /// podnudge could not save what precedes its end, and goes on.
    pub(super) fn take_back_end(&mut self) {
        self.target_restart = self.target_restart.map(TargetRestart::without_pod_end);
    }

    /// Handles processes that still run: the kubelet has restarted podnudge's own container only.
    pub(super) fn pod_not_restarted(
        &mut self,
        processes: &str,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let code = ctx.policy.rollout.pod_exit_code.unwrap_or_default();
        let message = format!(
            "podnudge ended with exit code {code}, and the kubelet restarted only its container: {processes} still runs"
        );
        let reason = Reason::new(message).hint(format!(
            "give podnudge's container `restartPolicy: Always` and `restartPolicyRules: [{{action: RestartAllContainers, exitCodes: {{operator: In, values: [{code}]}}}}]`; that takes Kubernetes 1.36 on the node"
        ));
        let ends = self.target_restart.map_or(0, TargetRestart::pod_ends);
        self.restart_seen();
        if ends < ENDS_WITHOUT_EFFECT {
            progress.report(self.retrying(Failure::Undelivered, reason, Duration::ZERO, ctx));
            return self.act(ctx, progress);
        }
        progress.effect(Effect::Failed);
        progress.end(Outcome::Ineffective(reason));
    }

    /// The application cannot be seen: its proof decides.
    pub(super) fn pod_restart_unseen(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        self.count_pod_restart(progress);
        self.restart_seen();
        self.delivered_by_restart(Evidence::Delivered, ctx, progress);
    }
}

/// The eviction of the pod.
impl Rollout {
    /// The pod is being deleted: podnudge waits to be ended with it.
    pub(super) fn evicted(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        progress.report(Fact::Evicted(self.digest()));
        self.count_as_delivered(progress);
        let until = ctx.now.mono.after(ctx.policy.rollout.evict_wait.unwrap_or_default());
        self.wait(
            WaitFor::Deletion,
            until,
            Reason::new("the pod was evicted, and waits for its end"),
        );
    }

    /// Waits: the pod must not be evicted now, or whether it was is not known (`what`). That changes without new content,
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
        if self.record_news(State::Held, &reason) {
            progress.report(Fact::Held(reason.clone(), Some(wait)));
        }
        self.wait(what, ctx.now.mono.after(wait), reason);
    }

    /// The pod was evicted, and still runs. That is no evidence against the content.
    pub(super) fn not_deleted(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let wait = humantime::format_duration(ctx.policy.rollout.evict_wait.unwrap_or_default());
        let message = format!("the pod was evicted, and has not ended within {wait}");
        let hint = "look for finalizers of the pod, and set `grace` of `[rule.restart]` to more than its terminationGracePeriodSeconds";
        let reason = Reason::new(message).hint(hint);
        if self.attempt >= ctx.policy.rollout.retry.attempts {
            progress.effect(Effect::Failed);
            return progress.end(Outcome::Ineffective(reason));
        }
        progress.effect(Effect::Retried);
        let wait = backoff::wait_after(self.attempt, ctx.policy.rollout.retry);
        progress.report(self.retrying(Failure::Undelivered, reason.clone(), wait, ctx));
        self.wait(WaitFor::Retry, ctx.now.mono.after(wait), reason);
    }
}
