//! How a rollout handles the answers to its commands.

use std::time::Duration;

use super::failures::Failure;
use super::progress::{Context, Effect, Outcome, Progress};
use super::verification::{Finding, Verification};
use super::{Direction, Rollout, Step, WaitFor};
use crate::backoff;
use crate::event::{Absence, Acted, Inspection, Publication};
use crate::evidence::Evidence;
use crate::fact::Fact;
use crate::reason::Reason;
use crate::status::State;
use crate::volume_tracker::CLOCK_MARGIN;

/// The wait after the first refusal. It is short because nothing was sent and the refusal may end
/// soon.
const FIRST_RETRY: Duration = Duration::from_millis(250);

impl Rollout {
    pub(super) fn published(
        &mut self,
        publication: Publication,
        is_swapped: bool,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        match publication {
            Publication::Done => {
                let superseded = self.take_superseded();
                self.report_superseded(superseded.as_ref(), progress);
                if self.direction == Direction::Forward {
                    progress.report(Fact::Published(self.digest()));
                }
                self.act(ctx, progress);
            }
            // Retry: the application already reads this content, or needs it for the rollback.
            Publication::Failed(reason, _)
                if is_swapped || self.direction != Direction::Forward =>
            {
                progress.effect(Effect::Refused);
                self.refused(reason, ctx.policy.rollout.retry.max, ctx, progress);
            }
            publication => {
                progress.end(Outcome::Unpublished(publication));
            }
        }
    }

    /// Reports that this rollout supersedes `old`.
    pub(super) fn report_superseded(&self, old: Option<&Self>, progress: &mut Progress) {
        let other = old.map(Self::digest).filter(|digest| *digest != self.digest());
        if let Some(digest) = other {
            progress.report(Fact::Superseded(digest));
        }
    }

    pub(super) fn acted(&mut self, acted: Acted, ctx: &Context<'_>, progress: &mut Progress) {
        let digest = self.digest();
        if matches!(acted, Acted::Failed(_) | Acted::Declined(_)) {
            let is_sent = self.is_sending();
            progress.effect(if is_sent { Effect::Interrupted } else { Effect::NotSent });
        }
        match acted {
            Acted::Fresh(_) if self.tripped.is_some() => self.verify_fresh(ctx, progress),
            // The process that the poll found has ended since.
            _ if self.tripped.is_some() => {
                let reason = self.count_end(Reason::new("the target ended"), ctx, progress);
                self.trip(reason, ctx);
            }
            Acted::Ready => {
                progress.effect(Effect::NotSent);
                self.prepared(ctx, progress);
            }
            Acted::EndsPod => self.await_end(ctx.now.mono),
            Acted::NotRestarted(processes) => self.pod_not_restarted(&processes, ctx, progress),
            Acted::Unseen => self.pod_restart_unseen(ctx, progress),
            Acted::Evicted => self.evicted(ctx, progress),
            Acted::Postponed(reason, pause) => {
                progress.effect(Effect::NotSent);
                self.await_eviction(WaitFor::Disruption, reason, pause, ctx, progress);
            }
            Acted::Unanswered(reason, pause) => {
                progress.effect(Effect::Interrupted);
                self.await_eviction(WaitFor::Eviction, reason, pause, ctx, progress);
            }
            Acted::Sent(to) => {
                progress.report(Fact::Sent(digest, to.text));
                self.delivered(Evidence::Delivered, ctx, progress);
            }
            Acted::Accepted(answer) => {
                progress.report(Fact::Accepted(digest, answer));
                self.delivered(Evidence::Accepted, ctx, progress);
            }
            Acted::Restarted(targets) => {
                self.has_seen_restart();
                progress.report(Fact::Restarted(digest, targets.text, ctx.start_delay));
                progress.effect(Effect::Restarted);
                self.delivered(Evidence::ReadAtStart, ctx, progress);
                if let Step::Verifying(verification) = &mut self.step {
                    verification.extend_deadline(ctx.now.mono, ctx.policy);
                }
            }
            Acted::Fresh(targets) => {
                progress.report(Fact::Fresh(digest, targets.text));
                self.count_pod_restart(progress);
                if self.restarted_by_earlier().is_some() {
                    // An earlier podnudge has restarted it and could not verify it.
                    self.has_seen_restart();
                    self.verify_restarted(ctx, progress);
                } else if ctx.reads_volumes && !self.has_failed {
                    progress
                        .end(Outcome::Applied { is_fresh: true, evidence: Evidence::ReadAtStart });
                } else {
                    // Only verified content can become the last good generation, and what has failed before needs
                    // its proof.
                    self.verify_fresh(ctx, progress);
                }
            }
            Acted::Absent(absence) => {
                progress.effect(Effect::NotSent);
                self.target_absent(absence, ctx, progress);
            }
            Acted::Failed(reason) => self.fail(Failure::Undelivered, reason, ctx, progress),
            Acted::Declined(reason) => self.fail(Failure::Declined, reason, ctx, progress),
            Acted::Refused(reason) => {
                progress.effect(Effect::NotSent);
                if !self.has_reported(State::Refused, &reason) {
                    progress.effect(Effect::Refused);
                }
                self.refusals = self.refusals.saturating_add(1);
                let times = self.refusals.saturating_sub(1);
                let wait = backoff::doubled(FIRST_RETRY, times, ctx.policy.rollout.retry.max);
                self.refused(reason, wait, ctx, progress);
            }
        }
    }

    /// Waits for the proof: from now on only that shows what the application runs. Without one,
    /// `unproven` is the evidence.
    pub(super) fn delivered(
        &mut self,
        unproven: Evidence,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        progress.effect(Effect::Interrupted);
        progress.effect(Effect::Delivered);
        self.refusals = 0;
        self.step = Step::Verifying(Verification::new(ctx.now.mono, false, unproven, ctx.policy));
    }

    pub(super) fn verify_fresh(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        progress.effect(Effect::Fresh);
        let unproven = Evidence::ReadAtStart;
        self.step = Step::Verifying(Verification::new(ctx.now.mono, true, unproven, ctx.policy));
    }

    /// Waits for the proof after a restart of the target by an earlier podnudge.
    fn verify_restarted(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        progress.effect(Effect::Interrupted);
        progress.effect(Effect::Fresh);
        let unproven = Evidence::ReadAtStart;
        let mut verification = Verification::new(ctx.now.mono, false, unproven, ctx.policy);
        verification.extend_deadline(ctx.now.mono, ctx.policy);
        self.step = Step::Verifying(verification);
    }

    pub(super) fn observed(
        &mut self,
        observation: Finding,
        is_fresh: bool,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        match observation {
            Finding::Inconclusive => {}
            Finding::Succeeded(evidence) => progress.end(Outcome::Applied { is_fresh, evidence }),
            Finding::Gone(reason) => self.target_ended(is_fresh, reason, ctx, progress),
            Finding::Unproven(reason) => self.fail(Failure::Unproven, reason, ctx, progress),
            // A process has read the content and ended.
            Finding::NoProcess(Absence { was_read: true, reason }) if ctx.may_be_at_fault => {
                self.fail(Failure::Unproven, reason, ctx, progress);
            }
            Finding::NoProcess(Absence { reason, .. }) => {
                self.is_triggered = false;
                self.target_absent(Absence::unread(reason), ctx, progress);
            }
        }
    }

    /// Verifies, without sending anything, a process that has read the content at its start.
    pub(super) fn process_inspected(
        &mut self,
        target: Inspection,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let since = ctx.readable_since.after(CLOCK_MARGIN);
        if matches!(target, Inspection::Running { first, .. } if first > since) {
            // Let the action find that the target is fresh; it then sends nothing.
            self.is_triggered = false;
            return self.act(ctx, progress);
        }
        if let Step::Tripped { reason, .. } = &self.step {
            self.trip(reason.clone(), ctx);
        }
    }
}
