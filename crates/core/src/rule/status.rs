//! The status of a rule.

use super::{Rollout, Rule};
use crate::clock::{Moment, Now, UnixTime};
use crate::evidence::{Evidence, InSync};
use crate::intake::{Activity, Candidate, Verdict};
use crate::reason::Reason;
use crate::status::{Counters, MOUNT_HINT, RuleStatus, State};

impl Rule {
    pub(crate) fn status(&self, now: Now) -> RuleStatus {
        let wall = |at: Moment| UnixTime(now.wall.0.saturating_add(at.since(now.mono)));
        let disk = self.intake.source().on_disk();
        let is_running = disk.is_some_and(|disk| self.application.running() == Some(disk.digest));
        let evidence = if is_running { self.application.evidence() } else { Evidence::None };
        let is_complete = !self.intake.source().is_missing_a_volume()
            && self.intake.source().unreadable().is_none();
        let [commits, missed_by_watch, read_errors] = self.intake.source().counts();
        // The volumes changed unseen: the process that runs may have read something else. Or they have just changed.
        let may_differ = self.intake.source().may_have_new_content()
            || (self.application.reads_volumes() && self.intake.source().has_gap_before(now.mono));
        let state = self.state(now);
        let reason = self.reason(now).or_else(|| self.intake.source().unreadable()).cloned();
        let no_volume =
            (state == State::WaitingForVolume).then_some("nothing exists at a watched path");
        let is_hidden = self.preflight.hides_what_runs();
        RuleStatus {
            name: self.policy.name.clone(),
            state,
            reason: reason.or_else(|| no_volume.map(|why| Reason::new(why).hint(MOUNT_HINT))),
            not_ready: self.not_ready(),
            in_sync: match evidence {
                // It may read its files by itself.
                _ if !self.policy.action.are_known()
                    && is_complete
                    && disk.is_some()
                    && !is_running =>
                {
                    InSync::Unknown
                }
                _ if !is_running || !is_complete || self.keeps_ending() => InSync::No,
                _ if self.application.may_run_rejected() => InSync::No,
                evidence if evidence.is_proof() && !may_differ && !is_hidden => InSync::Yes,
                _ => InSync::Unknown,
            },
            evidence,
            digest_on_disk: disk.map(|disk| disk.digest),
            digest_applied: self.application.verified().map(|(digest, _)| digest),
            digest_running: self
                .application
                .running()
                .filter(|_| self.application.evidence() != Evidence::None),
            digest_published: self.application.digest_published(),
            shows_digests: false,
            committed_at: disk.map(|disk| disk.committed),
            applied_at: self.application.verified().map(|(_, at)| at),
            succeeded_at: self.application.succeeded_at(),
            certificates_expire_at: self.intake.certificates_expire_at(),
            next_action_at: self.next_action(now).map(wall),
            paused_until: self.intake.paused_until().map(wall),
            slot: self.policy.permit.slot.map(|_| self.permit.status(now.mono)),
            start_expected_at: self.application.rate().ends().expected_start(now.mono).map(wall),
            start_delay_seconds: self
                .application
                .rate()
                .ends()
                .next_delay(now.mono)
                .map(|next| next.delay.as_secs()),
            action: self.policy.action.clone(),
            proof: self.policy.proof_kinds.clone(),
            targets: Vec::new(),
            preflight: self.preflight.problems().to_vec(),
            volumes: self.intake.source().status(),
            #[cfg(feature = "page")]
            changes: Vec::new(),
            counters: Counters { commits, missed_by_watch, read_errors, ..self.counters.clone() },
        }
    }

    pub(crate) fn is_verifying(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::is_verifying)
    }

    /// When podnudge may act next: at the rollout's next attempt, at the candidate's scheduled
    /// time, or after its next check.
    fn next_action(&self, now: Now) -> Option<Moment> {
        let rollout = self.rollout.as_ref().filter(|_| self.may_continue(now));
        let attempt = rollout.and_then(|rollout| rollout.next_attempt(&self.context(now, rollout)));
        let begin = self.gate(now).and_then(|gate| gate.next_action(now.mono));
        [attempt, begin, self.next_check()].into_iter().flatten().min()
    }

    fn state(&self, now: Now) -> State {
        if self.is_stopped() {
            return State::Stopped;
        }
        let is_missing = self.intake.source().is_missing_a_volume();
        let is_inactive = self.rollout.as_ref().is_none_or(|rollout| {
            !rollout.is_busy()
                && (rollout.failed_digest().is_none() || rollout.state() == State::Refused)
        });
        if is_inactive
            && self.application.has_scanned()
            && self.is_quarantined()
            && !self.rollback_failed()
        {
            return State::RolledBack;
        }
        if is_inactive && self.is_rejected() {
            return State::Rejected;
        }
        let state = match &self.rollout {
            Some(_) if self.delay_of_end().is_some() => State::Waiting,
            Some(rollout) => rollout.state(),
            None if !self.application.has_scanned() => State::Starting,
            None if self.is_held(now) => State::Held,
            None if self.awaits_publish_retry(now) => State::Refused,
            None if self.application.verdicts().given_up().is_some() || self.keeps_ending() => {
                State::Failed
            }
            None if self.intake.candidate().is_some_and(Candidate::is_scheduled) => State::Waiting,
            None => State::Idle,
        };
        match (state, self.intake.source().activity()) {
            (State::Idle | State::Waiting, Activity::Quiet)
                if self.is_to_be_checked() && self.intake.checks().in_progress() =>
            {
                State::Checking
            }
            (
                State::Starting
                | State::Idle
                | State::Waiting
                | State::WaitingForTarget
                | State::Backoff,
                _,
            ) if is_missing => State::WaitingForVolume,
            (State::Idle, Activity::Settling(_)) => State::Settling,
            (State::Idle, Activity::Scanning { .. } | Activity::Backoff { .. }) => State::Scanning,
            (state, _) => state,
        }
    }

    /// The reason for the current state. The reason of a rollback precedes the reasons for what led
    /// to it.
    fn reason(&self, now: Now) -> Option<&Reason> {
        let rollout = self.rollout.as_ref();
        let rollback =
            rollout.filter(|rollout| rollout.failed_digest().is_some()).and_then(Rollout::reason);
        let disk = self.intake.source().digest();
        let given_up = self.application.verdicts().given_up();
        let given_up = given_up.filter(|given_up| Some(given_up.digest) == disk);
        self.slot_reason(now)
            .or(rollback)
            .or_else(|| given_up.map(|given_up| &given_up.reason))
            .or_else(|| self.rejection_reason())
            .or_else(|| rollout.and_then(Rollout::reason))
            .or_else(|| self.application.keeps_ending())
            .or_else(|| self.delay_of_end())
            .or_else(|| self.wait_reason())
    }

    /// Why the content on disk must not be used, if that is known.
    fn rejection_reason(&self) -> Option<&Reason> {
        let disk = self.intake.source().digest()?;
        self.application.verdicts().quarantine_reason(disk).or_else(|| {
            match self.intake.checks().verdict(disk) {
                Verdict::Rejected(reason) => Some(reason),
                Verdict::Pending(reason) => reason,
                Verdict::Passed => None,
            }
        })
    }

    /// Why the candidate waits, unless it only waits for its scheduled time.
    fn wait_reason(&self) -> Option<&Reason> {
        let candidate = self.intake.candidate()?;
        let rule_ahead = self.rule_ahead(self.cause()).filter(|_| candidate.is_scheduled());
        candidate.hold_reason().or(rule_ahead)
    }

    fn awaits_publish_retry(&self, now: Now) -> bool {
        let retry = self.intake.candidate().and_then(Candidate::retry_at);
        retry.is_some_and(|at| at > now.mono)
    }

    fn is_to_be_checked(&self) -> bool {
        self.intake.candidate().is_some() || self.application.unchecked().is_some()
    }

    fn is_rejected(&self) -> bool {
        let disk = self.intake.source().digest();
        disk.is_some_and(|disk| matches!(self.intake.checks().verdict(disk), Verdict::Rejected(_)))
    }

    /// Whether the rollback of the content on disk has failed or was refused, so that an operator
    /// must intervene.
    fn rollback_failed(&self) -> bool {
        let disk = self.intake.source().digest();
        let given_up = self.application.verdicts().given_up().map(|given_up| given_up.digest);
        let rollout = self.rollout.as_ref();
        let rolled_out = rollout.map(|rollout| rollout.failed_digest().unwrap_or(rollout.digest()));
        disk.is_some() && (given_up == disk || rolled_out == disk)
    }

    /// Why the application has nothing to start with yet, if so.
    pub(crate) fn not_ready(&self) -> Option<Reason> {
        let with_cause = |problem: &str, cause: Option<&Reason>| match cause {
            Some(Reason { message, hint }) => {
                Reason { message: format!("{problem}: {message}"), hint: hint.clone() }
            }
            None => Reason::new(problem),
        };
        match self.intake.source().on_disk() {
            None => {
                Some(with_cause("its volumes were not read yet", self.intake.source().unreadable()))
            }
            Some(_) if self.application.is_empty() => {
                let rollout = self.rollout.as_ref().and_then(Rollout::reason);
                let why = self.rejection_reason().or(rollout).or_else(|| self.wait_reason());
                Some(with_cause("nothing was published yet", why))
            }
            Some(_) => None,
        }
    }
}
