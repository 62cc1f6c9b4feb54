//! The end of a rollout: the application runs the content, or it could not be published.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::clock::Now;
use crate::core::candidate::{Candidate, Trigger};
use crate::core::command::Command;
use crate::core::event::Publication;
use crate::core::evidence::Evidence;
use crate::core::fact::Fact;
use crate::reason::Reason;

impl Rule {
    /// Records that the rollout has succeeded, with this evidence.
    pub(super) fn applied(
        &mut self,
        now: Now,
        rollout: &Rollout,
        is_fresh: bool,
        evidence: Evidence,
        out: &mut VecDeque<Command>,
    ) {
        let digest = rollout.digest();
        let disk = self.source.digest();
        if rollout.failed_digest().is_some() || self.is_quarantined() {
            self.report(Fact::RolledBack(digest), out);
        } else {
            self.succeeded_at = Some(now.wall);
            if !(is_fresh && self.tracker.reads_volumes() && !rollout.has_tripped()) {
                self.report_success(now, rollout, is_fresh, evidence, out);
            }
        }
        if evidence.is_proof() {
            self.applied = Some((digest, now.wall));
        }
        let save = self.tracker.applied(now, digest, evidence, &self.source);
        self.save(save, out);
        self.begin_trial(now, rollout, out);
        if disk == Some(digest) {
            self.source.clear_gaps();
        }
    }

    fn report_success(
        &mut self,
        now: Now,
        rollout: &Rollout,
        is_fresh: bool,
        evidence: Evidence,
        out: &mut VecDeque<Command>,
    ) {
        let digest = rollout.digest();
        let took = now.wall.since(rollout.content().committed);
        if !evidence.is_proof() {
            return self.report(Fact::Delivered(digest, took), out);
        }
        if !is_fresh {
            self.counters.actions_applied += 1;
            self.counters.commit_to_applied.observe(took.as_secs_f64());
        }
        self.report(Fact::Applied(digest, evidence, took), out);
    }

    /// Makes content that could not be published a candidate again.
    pub(super) fn requeue(
        &mut self,
        now: Now,
        rollout: &Rollout,
        publication: Publication,
        out: &mut VecDeque<Command>,
    ) {
        let (wait, reason) = match publication {
            Publication::Failed(reason, _) => {
                self.counters.actions_refused += 1;
                let is_new = self.candidate.as_mut().is_none_or(|one| one.record_reason(&reason));
                if is_new {
                    self.report(Fact::Refused(reason.clone()), out);
                }
                (self.policy.retry.max, reason)
            }
            Publication::Done | Publication::Moved => {
                // Scan again. If the digest is unchanged, publish again after the checks: keys that
                // are not part of the digest may have changed.
                self.source.hints_lost(now.mono);
                self.checks.forget();
                let reason = Reason::new("the volume changed while it was being published");
                (self.policy.retry.first, reason)
            }
        };
        if rollout.is_triggered() && self.trigger == Trigger::None {
            self.trigger = Trigger::For(rollout.digest());
        }
        // Keep a newer candidate.
        let is_newest = |one: &Candidate| one.digest() == rollout.digest();
        if self.candidate.as_ref().is_none_or(is_newest) {
            let until = now.mono.after(wait);
            self.candidate =
                Some(Candidate::retry_later(rollout.content(), now.mono, until, reason));
        }
    }
}
