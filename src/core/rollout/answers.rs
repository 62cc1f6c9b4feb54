//! What the answers to the commands of a rollout mean for it.

use std::time::Duration;

use super::progress::{Context, Effect, Outcome, Progress};
use super::setbacks::Failure;
use super::verification::{Seen, Verification};
use super::{Kind, Rollout, Step};
use crate::core::backoff;
use crate::core::belief::CLOCK_MARGIN;
use crate::core::event::{Acted, Inspection, Publication};
use crate::core::fact::Fact;
use crate::core::status::{Delivery, State};
use crate::reason::Reason;

/// After a first refusal: to look again is not to act twice, and it may pass soon.
const FIRST_LOOK: Duration = Duration::from_millis(250);

impl Rollout {
    pub(super) fn published(
        &mut self,
        publication: Publication,
        is_turned: bool,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        match publication {
            Publication::Done => {
                let replaced = self.replaced();
                self.supersedes(replaced.as_ref(), progress);
                if self.kind == Kind::Forward {
                    progress.report(Fact::Published(self.digest()));
                }
                self.act(progress);
            }
            // The application reads it, or it has to be gone back from: that is brought to its end.
            Publication::Failed(reason, _) if is_turned || self.kind != Kind::Forward => {
                progress.effect(Effect::Refused);
                self.refused(reason, it.policy.retry.max, it, progress);
            }
            publication => {
                progress.end(Outcome::Unpublished(publication));
            }
        }
    }

    /// Says what it takes the place of.
    pub(super) fn supersedes(&self, old: Option<&Self>, progress: &mut Progress) {
        let other = old.map(Self::digest).filter(|digest| *digest != self.digest());
        if let Some(digest) = other {
            progress.report(Fact::Superseded(digest));
        }
    }

    pub(super) fn acted(&mut self, acted: Acted, it: &Context<'_>, progress: &mut Progress) {
        let digest = self.digest();
        match acted {
            Acted::Fresh(_) if self.tripped.is_some() => self.verify_fresh(it, progress),
            // The process that was found has ended meanwhile.
            _ if self.tripped.is_some() => self.trip(Reason::new("the target ended"), it),
            Acted::Sent(to) => {
                progress.report(Fact::Sent(digest, to.text));
                self.delivered(Delivery::Sent, it, progress);
            }
            Acted::Accepted(answer) => {
                progress.report(Fact::Accepted(digest, answer));
                self.delivered(Delivery::Accepted, it, progress);
            }
            Acted::Restarted(targets) => {
                progress.report(Fact::Restarted(digest, targets.text));
                progress.effect(Effect::Restarted);
                self.delivered(Delivery::Sent, it, progress);
                if let Step::Verifying(verification) = &mut self.step {
                    verification.allow_for_a_start(it.now.mono, it.policy);
                }
            }
            Acted::Fresh(targets) => {
                progress.report(Fact::Fresh(digest, targets.text));
                if it.follows_disk {
                    progress.end(Outcome::Applied { is_fresh: true });
                } else {
                    // Only what is verified can be gone back to.
                    self.verify_fresh(it, progress);
                }
            }
            Acted::Absent(absence) => {
                progress.effect(Effect::NotSent);
                self.target_absent(absence, it, progress);
            }
            Acted::Failed(reason) => self.failed_by(Failure::Undelivered, reason, it, progress),
            Acted::Declined(reason) => self.failed_by(Failure::Declined, reason, it, progress),
            Acted::Refused(reason) => {
                progress.effect(Effect::NotSent);
                if !self.has_told(State::Failed, &reason) {
                    progress.effect(Effect::Refused);
                }
                self.refusals = self.refusals.saturating_add(1);
                let times = self.refusals.saturating_sub(1);
                let wait = backoff::doubled(FIRST_LOOK, times, it.policy.retry.max);
                self.refused(reason, wait, it, progress);
            }
        }
    }

    /// From now on only a proof tells what the application runs.
    pub(super) fn delivered(
        &mut self,
        delivery: Delivery,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        progress.effect(Effect::Delivered(delivery));
        self.refusals = 0;
        self.step = Step::Verifying(Verification::new(it.now.mono, false, it.policy));
    }

    pub(super) fn verify_fresh(&mut self, it: &Context<'_>, progress: &mut Progress) {
        progress.effect(Effect::Fresh);
        self.step = Step::Verifying(Verification::new(it.now.mono, true, it.policy));
    }

    pub(super) fn seen(
        &mut self,
        seen: Seen,
        is_fresh: bool,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        match seen {
            Seen::Open => {}
            Seen::Proven => progress.end(Outcome::Applied { is_fresh }),
            Seen::Gone(reason) => self.target_ended(is_fresh, reason, it, progress),
            Seen::Unproven(reason) => self.failed_by(Failure::Unproven, reason, it, progress),
            Seen::NoProcess(absence) => {
                self.is_triggered = false;
                self.target_absent(absence, it, progress);
            }
        }
    }

    /// A process that started after the content was in place has read it: it is verified, and
    /// nothing is sent.
    pub(super) fn looked_for_new_process(
        &mut self,
        target: Inspection,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        let since = it.readable_since.after(CLOCK_MARGIN);
        if matches!(target, Inspection::Running { first, .. } if first > since) {
            // The action finds it fresh, and sends nothing.
            self.is_triggered = false;
            return self.act(progress);
        }
        if let Step::Tripped { reason, .. } = &self.step {
            self.trip(reason.clone(), it);
        }
    }
}
