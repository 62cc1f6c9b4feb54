//! The end of a rollout, and what follows from it: the application runs the content, it is rolled back, or it is given up.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::cause::Cause;
use crate::clock::Now;
use crate::command::Command;
use crate::event::Publication;
use crate::evidence::Evidence;
use crate::fact::Fact;
use crate::intake::OnDisk;
use crate::memory::Failed;
use crate::permit::End;
use crate::reason::Reason;
use crate::rollout::Outcome;

impl Rule {
    /// Ends the rollout with this outcome.
    pub(super) fn finish(&mut self, now: Now, outcome: Outcome, out: &mut VecDeque<Command>) {
        let Some(mut rollout) = self.rollout.take() else { return };
        let is_applied = matches!(outcome, Outcome::Applied { .. });
        match outcome {
            Outcome::Superseded => {}
            Outcome::Applied { is_fresh, evidence } => {
                self.applied(now, &rollout, is_fresh, evidence, out);
                self.permit.rolled_out(rollout.digest());
            }
            Outcome::GaveUp(reason) => {
                self.halt_if_evident(&rollout, &reason);
                let fact = Fact::GaveUp(rollout.digest(), reason.clone(), rollout.attempt());
                self.report(fact, out);
                self.give_up(&rollout, reason);
            }
            Outcome::Ineffective(reason) => {
                let (digest, why) = (rollout.digest(), reason.clone());
                let fact = match self.policy.rollout.pod_exit_code {
                    Some(_) => Fact::PodNotRestarted(digest, why),
                    None => Fact::GaveUp(digest, why, rollout.attempt()),
                };
                self.report(fact, out);
                self.give_up(&rollout, reason);
            }
            Outcome::RollBack(reason) => {
                let after_restart = rollout.ends_target(&self.policy.rollout);
                self.quarantine(rollout.content(), reason.clone(), out);
                self.halt_if_evident(&rollout, &reason);
                if let Some((content, direction)) =
                    self.application.plan_rollback(rollout.content(), after_restart)
                {
                    self.begin(now, content, direction, Cause::KnownGood, out);
                }
            }
            Outcome::Unpublished(publication) => {
                self.rollout = rollout.take_superseded();
                self.requeue(now, &rollout, publication, out);
            }
        }
        if self.rollout.is_none() {
            // What a rollback goes back to is not on trial.
            let applied = End::Applied { on_trial: rollout.new_digest() };
            let end = if is_applied { applied } else { End::Unproven };
            self.end_use_of_slot(now.mono, end);
        }
    }

    fn give_up(&mut self, rollout: &Rollout, reason: Reason) {
        let digest = rollout.failed_digest().unwrap_or(rollout.digest());
        let failed = Failed { digest, rolled_out: rollout.digest(), reason };
        self.application.verdicts_mut().give_up(failed);
    }

    /// Quarantines content that is to be rolled back.
    pub(super) fn quarantine(
        &mut self,
        failed: OnDisk,
        reason: Reason,
        out: &mut VecDeque<Command>,
    ) {
        self.counters.rollbacks += 1;
        if let Some(good) = self.application.roll_back_to(failed.digest) {
            self.report(Fact::RollingBack(failed.digest, good, reason.clone()), out);
        }
        self.application.verdicts_mut().quarantine(failed.digest, reason);
        // A trigger for this content must not publish it again.
        if self.intake.source().digest() == Some(failed.digest) {
            self.intake.end_trigger();
        }
    }

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
        let disk = self.intake.source().digest();
        let leads_back = self.is_quarantined() && self.application.is_known_good(digest);
        if rollout.failed_digest().is_some() || leads_back {
            self.report(Fact::RolledBack(digest), out);
        } else {
            self.application.succeeded(now.wall);
            // That it was read at the start is reported already.
            if !is_fresh || rollout.is_verifying() {
                self.report_success(now, rollout, is_fresh, evidence, out);
            }
        }
        let save = self.application.applied(now, digest, evidence, self.intake.source());
        self.save(save, out);
        let save = self.application.begin_trial(now.mono, rollout, &self.policy);
        self.save(save, out);
        if evidence == Evidence::Verified {
            let found = self.preflight.proven();
            self.report_preflight(found, out);
        }
        if disk == Some(digest) {
            self.intake.source_mut().clear_gaps();
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
            return self.report(Fact::Delivered(digest, evidence, took), out);
        }
        if !is_fresh {
            self.counters.actions_applied += 1;
            if self.is_new(rollout) {
                self.counters.commit_to_applied.observe(took.as_secs_f64());
            }
        }
        self.report(Fact::Applied(digest, evidence, took), out);
    }

    /// Whether a commit since podnudge's start has caused the rollout. If not, the age of its content says nothing
    /// about how long podnudge takes.
    fn is_new(&self, rollout: &Rollout) -> bool {
        let content = rollout.content();
        let is_applied = |(digest, at)| digest == content.digest && content.committed <= at;
        content.committed_at > self.started && !self.application.verified().is_some_and(is_applied)
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
                let is_new =
                    self.intake.candidate_mut().is_none_or(|one| one.record_reason(&reason));
                if is_new {
                    self.report(Fact::Refused(reason.clone()), out);
                }
                (self.policy.rollout.retry.max, reason)
            }
            Publication::Done | Publication::Moved => {
                self.intake.moved(now.mono);
                let reason = Reason::new("the volume changed while it was being published");
                (self.policy.rollout.retry.first, reason)
            }
        };
        if rollout.is_triggered() {
            self.intake.return_trigger(rollout.digest());
        }
        self.intake.retry_later(rollout.content(), now.mono, now.mono.after(wait), reason);
    }
}
