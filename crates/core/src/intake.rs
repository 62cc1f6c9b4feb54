//! What turns hints into a candidate: the volumes, their checks, triggers and approvals.
//!
//! It answers one question: is there content that should run and does not? What the application runs, and what is
//! being brought to it, is passed to each call ([`Runs`]).

mod candidate;
mod changed;
mod checks;
mod person;
mod source;

use crate::cause::Cause;
use crate::clock::{Moment, Now, UnixTime};
use crate::event::{Checked, Interrupted, Probe};
use crate::fact::{Fact, Occasion};
use crate::jitter::{self, Replica};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::snapshot::{Digest, Key};
use candidate::Trigger;
pub(crate) use candidate::{Candidate, ProbeState};
use changed::ChangedKeys;
use checks::Answer;
pub(crate) use checks::{Checks, OtherChecks, Start, Verdict};
use source::Gaps;
pub(crate) use source::{Activity, OnDisk, Source};

/// What the application runs, and what is being brought to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    /// The digest that it is known, or at start assumed, to run.
    pub(crate) running: Option<Digest>,
    /// The last good digest.
    pub(crate) last_good: Option<Digest>,
    /// The digest of the rollout in progress.
    pub(crate) rolled_out: Option<Digest>,
    /// What it may have read at its start, if that is still to pass the checks.
    pub(crate) unchecked: Option<Digest>,
    /// Whether it has nothing to read until podnudge publishes.
    pub(crate) is_empty: bool,
    /// Whether it reads the volumes.
    pub(crate) reads_volumes: bool,
}

/// The content that may be rolled out next.
#[derive(Debug)]
pub(crate) struct Intake {
    source: Source,
    checks: Checks,
    candidate: Option<Candidate>,
    trigger: Trigger,
    /// The digest that a person approved last.
    approved: Option<Digest>,
    /// Until when a person has paused the rule.
    paused_until: Option<Moment>,
    changed: ChangedKeys,
    /// The gaps in the observation of the volumes when the last action began.
    gaps: Gaps,
    certificates: Option<Certificates>,
    /// The number of random draws for the jitter.
    draws: u64,
}

/// When certificates expire.
#[derive(Debug, Clone, Copy)]
struct Certificates {
    /// The content that they belong to.
    of: Digest,
    /// The first expiry; `None` if there are none.
    expire_at: Option<UnixTime>,
}

/// The parts of the intake.
impl Intake {
    pub(crate) fn new(policy: &Policy, interrupted: Vec<Interrupted>, now: Moment) -> Self {
        Self {
            source: Source::new(policy, now),
            checks: Checks::new(policy.intake.has_checks, interrupted),
            candidate: None,
            trigger: Trigger::None,
            approved: None,
            paused_until: None,
            changed: ChangedKeys::default(),
            gaps: Gaps::default(),
            certificates: None,
            draws: 0,
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// For events about the volumes.
    pub(crate) fn source_mut(&mut self) -> &mut Source {
        &mut self.source
    }

    pub(crate) fn checks(&self) -> &Checks {
        &self.checks
    }

    pub(crate) fn candidate(&self) -> Option<&Candidate> {
        self.candidate.as_ref()
    }

    /// For what the gate finds.
    pub(crate) fn candidate_mut(&mut self) -> Option<&mut Candidate> {
        self.candidate.as_mut()
    }

    pub(crate) fn take_candidate(&mut self) -> Option<Candidate> {
        self.candidate.take()
    }

    /// When the first certificate of the content on disk expires.
    pub(crate) fn certificates_expire_at(&self) -> Option<UnixTime> {
        self.certificates_on_disk()?.expire_at
    }

    /// What is known of the certificates of the content on disk.
    fn certificates_on_disk(&self) -> Option<Certificates> {
        self.certificates.filter(|known| self.source.digest() == Some(known.of))
    }

    /// Takes when the first certificate of this content expires. A late answer about earlier content has no effect.
    pub(crate) fn certificates_expire(&mut self, of: Digest, expire_at: Option<UnixTime>) {
        if self.source.digest() == Some(of) {
            self.certificates = Some(Certificates { of, expire_at });
        }
    }
}

/// The candidate.
impl Intake {
    /// Makes the content on disk the candidate, or ends the one that needs no rollout any more. Returns that one.
    pub(crate) fn choose(&mut self, disk: OnDisk, needs_rollout: bool) -> Option<Candidate> {
        if !needs_rollout {
            return self.candidate.take();
        }
        match &mut self.candidate {
            Some(candidate) => candidate.update(disk),
            None => self.candidate = Some(Candidate::new(disk)),
        }
        None
    }

    /// Why the candidate is to be rolled out.
    pub(crate) fn cause(&self, runs: Runs) -> Cause {
        let Some(digest) = self.candidate.as_ref().map(Candidate::digest) else {
            return Cause::Changed;
        };
        if self.is_triggered(digest, runs.running) {
            Cause::Triggered
        } else if runs.is_empty {
            Cause::FirstFill
        } else if runs.last_good == Some(digest) {
            Cause::KnownGood
        } else {
            Cause::Changed
        }
    }

    /// Schedules a candidate that has passed the checks. `earliest`: when the minimum time since the last action is over.
    /// Returns its digest, if it has passed them, and what to report.
    pub(crate) fn schedule(
        &mut self,
        now: Moment,
        runs: Runs,
        earliest: Option<Moment>,
        replica: &Replica,
        policy: &Policy,
    ) -> Option<(Digest, Option<Fact>)> {
        let cause = self.cause(runs);
        let candidate = self.candidate.as_mut()?;
        let digest = candidate.digest();
        let is_triggered = cause == Cause::Triggered || self.trigger.is_unbound();
        if self.checks.verdict(digest) != Verdict::Passed || is_triggered {
            return None;
        }
        if candidate.is_scheduled() {
            return Some((digest, None));
        }
        self.draws += 1;
        let mut at = now;
        if cause == Cause::Changed {
            at = at.after(jitter::wait(policy.gate.jitter, replica, &digest, self.draws));
        }
        candidate.schedule(at, self.draws);
        let earliest = earliest.filter(|_| cause == Cause::Changed);
        let at = earliest.map_or(at, |earliest| at.max(earliest));
        let [commits, ..] = self.source.counts();
        let was_there = commits == 0 && !runs.is_empty;
        let is_unknown = was_there && runs.running.is_none();
        let occasion = if is_unknown { Occasion::Unknown } else { Occasion::New };
        Some((digest, Some(Fact::Scheduled(digest, at.since(now), occasion))))
    }

    /// Publishing this content failed: it is a candidate again, unless a newer one is.
    pub(crate) fn retry_later(&mut self, content: OnDisk, now: Moment, at: Moment, why: Reason) {
        let is_newest = |one: &Candidate| one.digest() == content.digest;
        if self.candidate.as_ref().is_none_or(is_newest) {
            self.candidate = Some(Candidate::retry_later(content, now, at, why));
        }
    }

    /// The volume changed while it was being published. Scans again; if the digest is unchanged, it is published again
    /// after the checks: keys that are not part of the digest may have changed.
    pub(crate) fn moved(&mut self, now: Moment) {
        self.source.hints_lost(now);
        self.checks.forget();
    }

    /// Takes the answer to a probe of the gate.
    pub(crate) fn probed(&mut self, now: Moment, probe: Probe, reason: Option<Reason>) {
        if let Some(candidate) = &mut self.candidate {
            candidate.set_probe_state(probe, ProbeState::Answered(now, reason));
        }
    }
}

/// The checks.
impl Intake {
    /// The rule has checks from now on, or none. They have accepted this content already.
    pub(crate) fn set_has_checks(&mut self, has_checks: bool, accepted: Option<Digest>) {
        self.checks.set_configured(has_checks, accepted);
    }

    /// Starts the checks of the candidate, or of what is retried (`retried`), if they are due.
    pub(crate) fn start_checks(
        &mut self,
        now: Moment,
        (runs, retried): (Runs, Option<Digest>),
        others: &OtherChecks,
        policy: &Policy,
    ) -> Option<(Digest, Start)> {
        let digest = self.digest_to_check(runs, retried, policy)?;
        let start = self.checks.start(now, digest, others);
        if let Start::Rejected(_) = start {
            self.rejected(digest);
        }
        Some((digest, start))
    }

    /// The candidate, if it is to be recorded that it waits for its checks.
    pub(crate) fn take_unrecorded(&mut self, runs: Runs) -> Option<Digest> {
        let digest = self.candidate.as_ref().filter(|_| runs.reads_volumes)?.digest();
        self.checks.take_unrecorded(digest).then_some(digest)
    }

    /// When to run the checks again.
    pub(crate) fn next_check(
        &self,
        runs: Runs,
        retried: Option<Digest>,
        policy: &Policy,
    ) -> Option<Moment> {
        self.checks.next_run(self.digest_to_check(runs, retried, policy)?)
    }

    fn digest_to_check(
        &self,
        runs: Runs,
        retried: Option<Digest>,
        policy: &Policy,
    ) -> Option<Digest> {
        // Where the application reads the volumes, a retry delivers what is on disk then, and so does its start: check that.
        let is_delivered =
            |digest: &Digest| runs.reads_volumes && self.source.digest() == Some(*digest);
        let candidate = self.candidate.as_ref().map(Candidate::digest);
        let content = candidate.or(retried.or(runs.unchecked).filter(is_delivered))?;
        let is_due = !self.source.is_missing_a_volume() && self.may_check(content, runs, policy);
        is_due.then_some(content)
    }

    /// Whether the checks of this content may run: where they need an approval, a checker gets nothing but
    /// what a person approved, what is rolled out (and so was approved), and what was good before.
    pub(crate) fn may_check(&self, content: Digest, runs: Runs, policy: &Policy) -> bool {
        !policy.intake.needs_approval_to_check
            || [self.approved, runs.rolled_out, runs.last_good].contains(&Some(content))
    }

    /// Takes the result of the checks.
    pub(crate) fn checked(
        &mut self,
        now: Now,
        digest: Digest,
        checked: Checked,
        policy: &Policy,
    ) -> Option<Answer> {
        let answer = self.checks.finished(now, digest, checked, policy.rollout.retry)?;
        if answer.content_changed {
            // Scan again; if the content is unchanged, check it later.
            self.source.hints_lost(now.mono);
        }
        if answer.rejected {
            self.rejected(digest);
        }
        Some(answer)
    }

    /// Ends what waits for content that the checks rejected. A rejection of content that is no longer on
    /// disk has no effect.
    fn rejected(&mut self, digest: Digest) {
        if self.source.digest() == Some(digest) {
            self.end_trigger();
            if let Some(candidate) = &mut self.candidate {
                candidate.unschedule();
            }
        }
    }

    /// Whether to read when the certificates of the content expire: until there is an answer, because there is none if
    /// the content moves meanwhile. Content that has interrupted podnudge is checked first.
    pub(crate) fn reads_certificates(&self, disk: Digest, policy: &Policy) -> bool {
        policy.intake.has_certificates
            && self.source.digest() == Some(disk)
            && self.certificates_on_disk().is_none()
            && self.checks.interruptions(disk) == 0
    }
}

/// What an action needs to know.
impl Intake {
    /// A scan has found this digest.
    pub(crate) fn record_keys(&mut self, disk: Digest, runs: Runs, policy: &Policy) {
        if policy.intake.needs_changed_keys {
            let source = &self.source;
            self.changed.record(disk, runs.running, runs.rolled_out, || source.keys());
        }
    }

    /// The keys that differ between this content and what runs, if an action needs them.
    pub(crate) fn changed_keys(
        &mut self,
        content: Digest,
        running: Option<Digest>,
        policy: &Policy,
    ) -> Vec<Key> {
        if policy.intake.needs_changed_keys {
            self.changed.changed_keys(content, running)
        } else {
            Vec::new()
        }
    }

    /// An action begins: what was not seen of the volumes before does not matter to what follows.
    pub(crate) fn action_begins(&mut self) {
        self.gaps = self.source.clear_gaps();
    }

    /// The action was not sent.
    pub(crate) fn action_not_sent(&mut self) {
        self.source.restore_gaps(std::mem::take(&mut self.gaps));
    }
}
