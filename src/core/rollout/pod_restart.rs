//! A restart of the whole pod in place: podnudge ends with an exit code for which the kubelet restarts all
//! containers, and the next podnudge finds out whether it did.

use std::time::Duration;

use super::progress::{Context, Effect, Outcome, Progress};
use super::{Rollout, Step};
use crate::clock::Moment;
use crate::core::evidence::Evidence;
use crate::core::fact::Fact;
use crate::reason::Reason;

/// So many ends of podnudge without a restart of the pod show that the kubelet has no rule for its exit code. After
/// the first one, podnudge may have been killed just before it ended by itself.
const ENDS_WITHOUT_EFFECT: u32 = 2;

impl Rollout {
    /// podnudge ends as soon as it may.
    pub(super) fn await_end(&mut self) {
        self.step = Step::EndingPod { is_sent: false };
    }

    /// Whether podnudge is to end for it.
    pub(in crate::core) fn ends_pod(&self) -> bool {
        matches!(self.step, Step::EndingPod { .. })
    }

    /// Whether podnudge is to end for it, and was not told so.
    pub(in crate::core) fn waits_to_end_pod(&self) -> bool {
        matches!(self.step, Step::EndingPod { is_sent: false })
    }

    /// podnudge ends now. Returns when the restart began, which it may have ended for before.
    pub(in crate::core) fn end_pod(&mut self) -> Option<Moment> {
        self.step = Step::EndingPod { is_sent: true };
        let restart = self.target_restart.as_mut()?;
        restart.pod_ends = restart.pod_ends.saturating_add(1);
        Some(restart.began)
    }

    /// podnudge could not save what precedes its end, and goes on.
    pub(super) fn take_back_end(&mut self) {
        if let Some(restart) = &mut self.target_restart {
            restart.pod_ends = restart.pod_ends.saturating_sub(1);
        }
    }

    /// Whether an earlier podnudge has ended for it: first find out what became of that.
    pub(super) fn looks_for_pod_restart(&self) -> bool {
        self.target_restart.is_some_and(|restart| restart.by_earlier && restart.pod_ends > 0)
    }

    /// These processes still run: the kubelet has restarted podnudge's own container only.
    pub(super) fn pod_not_restarted(
        &mut self,
        processes: &str,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let code = ctx.policy.pod_exit_code.unwrap_or_default();
        let message = format!(
            "podnudge ended with exit code {code}, and the kubelet restarted only its container: {processes} still runs"
        );
        let reason = Reason::new(message).hint(format!(
            "give podnudge's container `restartPolicy: Always` and `restartPolicyRules: [{{action: RestartAllContainers, exitCodes: {{operator: In, values: [{code}]}}}}]`; that takes Kubernetes 1.36 on the node"
        ));
        let ends = self.target_restart.map_or(0, |restart| restart.pod_ends);
        self.has_seen_restart();
        if ends < ENDS_WITHOUT_EFFECT {
            progress.report(Fact::Retrying(reason, self.attempt, Duration::ZERO));
            return self.act(ctx, progress);
        }
        progress.effect(Effect::Failed);
        progress.end(Outcome::Ineffective(reason));
    }

    /// The application cannot be seen: its proof decides.
    pub(super) fn pod_restart_unseen(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        self.has_seen_restart();
        self.delivered(Evidence::Delivered, ctx, progress);
        if let Step::Verifying(verification) = &mut self.step {
            verification.extend_deadline(ctx.now.mono, ctx.policy);
        }
    }
}
