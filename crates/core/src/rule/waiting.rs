//! Waiting content: choosing the candidate, its checks, its schedule, and the gate.

use std::collections::VecDeque;

use super::Rule;
use crate::candidate::{Candidate, Trigger};
use crate::checks::{Start, Verdict};
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::fact::{Fact, Occasion};
use crate::gate::{self, Cause, Closed, Conditions, Gate, Supersedable};
use crate::jitter;
use crate::reason::Reason;
use crate::rollout::{Direction, Outcome, Rollout};
use crate::snapshot::Digest;

impl Rule {
    /// Makes content that needs a rollout the candidate.
    pub(super) fn choose_candidate(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(disk) = self.source.on_disk().filter(|_| self.tracker.is_resolved()) else {
            return;
        };
        if let Some(rollout) = &mut self.rollout {
            rollout.update(disk);
        }
        if self.needs_rollout(disk.digest) {
            match &mut self.candidate {
                Some(candidate) => candidate.update(disk),
                None => self.candidate = Some(Candidate::new(disk)),
            }
        } else if let Some(candidate) = self.candidate.take()
            && candidate.is_scheduled()
            && self.tracker.running() == Some(disk.digest)
            && !self.source.is_update_pending(now.mono)
        {
            // The content went back, but the scan did not report it because a trigger was pending
            // then.
            let conclusion = self.tracker.unchanged(now, &self.source, true);
            self.apply_conclusion(now, disk, conclusion, out);
        }
    }

    pub(super) fn needs_rollout(&self, disk: Digest) -> bool {
        let running = self.tracker.running();
        let is_rolled_out = self.rollout.as_ref().is_some_and(|rollout| rollout.digest() == disk);
        self.trigger.applies_to(disk, running)
            || (running != Some(disk)
                && !is_rolled_out
                && self.tracker.quarantine_reason(disk).is_none()
                && self.given_up.as_ref().is_none_or(|given_up| given_up.digest != disk))
    }

    /// Starts the checks of the candidate, or of what is retried. What has to wait for them is recorded.
    pub(super) fn start_due_checks(&mut self, now: Now, out: &mut VecDeque<Command>) {
        self.start_checks(now, out);
        let candidate = self.candidate.as_ref().map(Candidate::digest);
        if let Some(digest) = candidate
            && self.tracker.reads_volumes()
            && self.checks.has_to_be_recorded(digest)
        {
            out.push_back(Command::Remember(self.id, digest));
        }
    }

    fn start_checks(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(digest) = self.digest_to_check() else { return };
        match self.checks.start(now.mono, digest, &self.neighbours.checks) {
            Start::No => {}
            Start::Run => out.push_back(Command::Check(self.id, digest)),
            Start::RunAgain(times) => {
                self.report(Fact::CheckedAgain(digest, times), out);
                out.push_back(Command::Check(self.id, digest));
            }
            Start::Rejected(fact) => {
                self.report(fact, out);
                self.rejected(digest);
            }
        }
    }

    /// Ends what waits for content that the checks rejected. A rejection of content that is no longer on
    /// disk has no effect.
    pub(super) fn rejected(&mut self, digest: Digest) {
        if self.source.digest() == Some(digest) {
            self.trigger = self.trigger.ended();
            self.candidate.as_mut().into_iter().for_each(Candidate::unschedule);
        }
    }

    /// When to run the checks again.
    pub(super) fn next_check(&self) -> Option<Moment> {
        self.checks.next_run(self.digest_to_check()?)
    }

    fn digest_to_check(&self) -> Option<Digest> {
        let candidate = self.candidate.as_ref().map(Candidate::digest);
        // Where the application reads the volumes, a retry delivers what is on disk then: check
        // that.
        let retried = self.rollout.as_ref().filter(|rollout| {
            rollout.is_waiting()
                && self.tracker.reads_volumes()
                && self.source.digest() == Some(rollout.digest())
        });
        let content = candidate.or(retried.map(Rollout::digest));
        content.filter(|digest| !self.source.is_missing_a_volume() && self.may_check(*digest))
    }

    /// Whether the checks of this content may run: where they need an approval, a checker gets nothing but
    /// what a person approved, what is rolled out (and so was approved), and what was good before.
    fn may_check(&self, content: Digest) -> bool {
        let rolled_out = self.rollout.as_ref().map(Rollout::digest);
        !self.policy.intake.needs_approval_to_check
            || [self.approved, rolled_out, self.tracker.last_good()].contains(&Some(content))
    }

    /// Remembers the content to which a trigger applies.
    pub(super) fn approve(&mut self, content: Digest) {
        self.approved = Some(content);
        if self.policy.intake.needs_approval_to_check {
            self.candidate.iter_mut().for_each(Candidate::approved);
        }
    }

    /// Schedules a candidate that has passed the checks.
    pub(super) fn schedule(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let cause = self.cause();
        let Some(candidate) = &mut self.candidate else { return };
        let digest = candidate.digest();
        let is_triggered = cause == Cause::Triggered || self.trigger.is_unbound();
        if self.checks.verdict(digest) != Verdict::Passed || is_triggered {
            return;
        }
        if !candidate.is_scheduled() {
            self.draws += 1;
            let mut at = now.mono;
            if cause == Cause::Changed {
                let jitter = self.policy.gate.jitter;
                at = at.after(jitter::wait(jitter, &self.replica, &digest, self.draws));
            }
            candidate.schedule(at, self.draws);
            let earliest = self.rate.next_action(&self.policy);
            let at = earliest
                .filter(|_| cause == Cause::Changed)
                .map_or(at, |earliest| at.max(earliest));
            let [commits, ..] = self.source.counts();
            let was_there = commits == 0 && !self.tracker.is_empty();
            let occasion = if was_there && self.tracker.running().is_none() {
                Occasion::Unknown
            } else {
                Occasion::New
            };
            self.report(Fact::Scheduled(digest, at.since(now.mono), occasion), out);
        }
        // A retry would make the application read the newer content.
        let is_retry = self.rollout.as_ref().is_some_and(|rollout| rollout.digest() != digest);
        if self.tracker.reads_volumes() && is_retry && !self.is_busy() {
            self.finish(now, Outcome::Superseded, out);
        }
        if self.given_up.as_ref().is_some_and(|given_up| given_up.digest != digest) {
            self.given_up = None;
        }
    }

    pub(super) fn cause(&self) -> Cause {
        let Some(digest) = self.candidate.as_ref().map(Candidate::digest) else {
            return Cause::Changed;
        };
        if self.trigger.applies_to(digest, self.tracker.running()) {
            Cause::Triggered
        } else if self.tracker.is_empty() {
            Cause::FirstFill
        } else if self.tracker.last_good() == Some(digest) {
            Cause::KnownGood
        } else {
            Cause::Changed
        }
    }

    /// The state of the gate for the candidate, if there is one.
    pub(super) fn gate(&self, now: Now) -> Option<Gate> {
        let candidate = self.candidate.as_ref().filter(|_| !self.stopping)?;
        let cause = self.cause();
        let rollout = match &self.rollout {
            Some(rollout) => {
                rollout.supersedable_by(candidate.digest(), &self.context(now, rollout))
            }
            None if self.is_busy() => Supersedable::Later(None),
            None => Supersedable::Now,
        };
        let is_readable = self.tracker.reads_volumes() || self.source.unreadable().is_none();
        let is_complete = is_readable && !self.source.is_missing_a_volume();
        let may_be_incomplete = cause == Cause::Triggered && self.tracker.reads_volumes();
        Some(gate::evaluate(
            candidate,
            &Conditions {
                now,
                policy: &self.policy,
                replica: &self.replica,
                cause,
                is_update_pending: self.source.is_update_pending(now.mono)
                    || !self.tracker.is_resolved(),
                is_complete: is_complete || may_be_incomplete,
                verdict: self.checks.verdict(candidate.digest()),
                may_check: self.may_check(candidate.digest()),
                next_action: self.rate.next_action(&self.policy),
                restart_at: self.rate.next_restart(now.mono, &self.policy),
                is_paused_by_key: self.source.is_paused_by_key(),
                rollout,
                turn: self.turn(now).filter(|_| self.needs_slot(cause, candidate.digest())),
                slot: self.slot_standing(now.mono, cause, candidate.digest()),
                waits_for_other_rule: self.rule_ahead(cause).is_some(),
            },
        ))
    }

    /// The reason to wait for another rule with the same target. A fix for this rule's own unproven
    /// content does not wait for other rules' proofs, unless newer content of theirs is suspected
    /// first.
    pub(super) fn rule_ahead(&self, cause: Cause) -> Option<&Reason> {
        let unproven = self.neighbours.unproven.as_ref();
        let is_suspect = self.exposed_at().is_some() && !self.neighbours.newer;
        let unproven = unproven.filter(|_| cause == Cause::Changed && !is_suspect);
        self.neighbours.busy.as_ref().or(unproven)
    }

    /// Begins the candidate's rollout if the gate is open. Returns whether it did.
    pub(super) fn pass_gate(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let Some(gate) = self.gate(now) else { return false };
        let cause = self.cause();
        let is_triggered = cause == Cause::Triggered;
        let Some(candidate) = &mut self.candidate else { return false };
        match gate {
            Gate::Closed(Closed::Held(until, reason)) => {
                if candidate.hold(until, &reason) {
                    self.report(Fact::Held(reason, until.map(|at| at.since(now.mono))), out);
                }
                false
            }
            Gate::Closed(_) => false,
            Gate::Probe(probe) => {
                if candidate.start_probe(probe) {
                    out.push_back(Command::Probe(self.id, probe));
                }
                false
            }
            Gate::Claim(reason) => {
                let is_new = reason.as_ref().is_some_and(|reason| candidate.hold(None, reason));
                if let Some(reason) = reason.filter(|_| is_new) {
                    self.report(Fact::Held(reason, None), out);
                }
                false
            }
            Gate::Open => {
                let content = candidate.content();
                if is_triggered {
                    self.trigger = Trigger::None;
                    self.permit.triggered(content.digest);
                }
                self.candidate = None;
                self.begin(now, content, Direction::Forward, cause, out);
                true
            }
        }
    }

    /// Whether a hold or the restart budget delays the candidate.
    pub(super) fn is_held(&self, now: Now) -> bool {
        match self.gate(now) {
            Some(Gate::Closed(Closed::Held(..)) | Gate::Claim(Some(_))) => true,
            Some(
                Gate::Closed(Closed::NotBefore { .. } | Closed::Waiting)
                | Gate::Probe(_)
                | Gate::Claim(None),
            ) => self.candidate.as_ref().is_some_and(Candidate::is_held),
            Some(Gate::Open) | None => false,
        }
    }
}
