//! After an action, or the start of a process that has read the content: the rollout waits for the proof.

use super::progress::{Context, Effect, Progress};
use super::verification::Verification;
use super::{Rollout, Step};
use crate::evidence::Evidence;

impl Rollout {
    /// Waits for the proof: from now on only that shows what the application runs. Without one,
    /// `unproven` is the evidence.
    pub(super) fn delivered(
        &mut self,
        unproven: Evidence,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        self.count_as_delivered(progress);
        self.verify(Verification::new(ctx.now.mono, false, unproven, ctx.policy));
    }

    /// Waits for the proof after a restart of the target, which may take long to start.
    pub(super) fn delivered_by_restart(
        &mut self,
        unproven: Evidence,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        self.count_as_delivered(progress);
        self.verify_start(unproven, ctx);
    }

    /// Waits for the proof after a restart of the target by an earlier podnudge.
    pub(super) fn verify_restarted(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        progress.effect(Effect::Interrupted);
        progress.effect(Effect::Fresh);
        self.verify_start(Evidence::ReadAtStart, ctx);
    }

    /// Waits for the proof by a process that has read the content at its start, without an action.
    pub(super) fn verify_fresh(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        progress.effect(Effect::Fresh);
        let unproven = Evidence::ReadAtStart;
        self.verify(Verification::new(ctx.now.mono, true, unproven, ctx.policy));
    }

    /// The action was sent, as far as others are concerned.
    pub(super) fn count_as_delivered(&mut self, progress: &mut Progress) {
        progress.effect(Effect::Interrupted);
        progress.effect(Effect::Delivered);
        self.refusals = 0;
    }

    fn verify_start(&mut self, unproven: Evidence, ctx: &Context<'_>) {
        let mut verification = Verification::new(ctx.now.mono, false, unproven, ctx.policy);
        verification.extend_deadline(ctx.now.mono, ctx.policy);
        self.verify(verification);
    }

    /// Waits for the proof by a process that has come. After one that has ended, the wait for the next one goes on.
    fn verify(&mut self, verification: Verification) {
        if self.ends.is_none() {
            self.absent = None;
        }
        self.step = Step::Verifying(verification);
    }
}
