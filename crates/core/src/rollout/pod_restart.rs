//! A restart of the whole pod in place: podnudge ends with an exit code for which the kubelet restarts all
//! containers, and the next podnudge finds out whether it did.

use std::time::Duration;

use super::failures::Failure;
use super::progress::{Context, Effect, Outcome, Progress};
use super::{Rollout, Step, TargetRestart};
use crate::clock::Moment;
use crate::evidence::Evidence;
use crate::reason::Reason;

/// So many ends of podnudge without a restart of the pod show that the kubelet has no rule for its exit code. After
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
        self.target_restart.and_then(TargetRestart::began)
    }

    /// podnudge could not save what precedes its end, and goes on.
    pub(super) fn take_back_end(&mut self) {
        self.target_restart = self.target_restart.map(TargetRestart::without_pod_end);
    }

    /// Whether an earlier podnudge has ended for it, or its pod: first find out what became of that.
    pub(super) fn looks_for_pod_restart(&self) -> bool {
        let restart = self.target_restart;
        matches!(restart, Some(TargetRestart::PodEnded { .. } | TargetRestart::PodReplaced))
    }

    /// An earlier podnudge has ended for a restart of the pod, and nothing says that there was none.
    pub(super) fn count_pod_restart(&self, progress: &mut Progress) {
        if matches!(self.target_restart, Some(TargetRestart::PodEnded { .. })) {
            progress.effect(Effect::PodRestarted);
        }
    }

    /// These processes still run: the kubelet has restarted podnudge's own container only.
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
        self.has_seen_restart();
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
        self.has_seen_restart();
        self.delivered(Evidence::Delivered, ctx, progress);
        if let Step::Verifying(verification) = &mut self.step {
            verification.extend_deadline(ctx.now.mono, ctx.policy);
        }
    }
}
