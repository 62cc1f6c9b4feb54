//! Waiting content: choosing the candidate, its checks, its schedule, and the gate.

use std::collections::VecDeque;

use super::Rule;
use crate::cause::Cause;
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::fact::Fact;
use crate::gate::{self, Closed, Conditions, Gate, Supersedable};
use crate::intake::{Candidate, Start};
use crate::reason::Reason;
use crate::rollout::{Direction, Outcome, Rollout};
use crate::snapshot::Digest;

impl Rule {
    /// Makes content that needs a rollout the candidate.
    pub(super) fn choose_candidate(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let on_disk = self.intake.source().on_disk();
        let Some(disk) = on_disk.filter(|_| self.application.is_resolved()) else {
            return;
        };
        if let Some(rollout) = &mut self.rollout {
            rollout.update(disk);
        }
        let needs_rollout = self.needs_rollout(disk.digest);
        let candidate = self.intake.choose(disk, needs_rollout);
        let was_scheduled = candidate.as_ref().is_some_and(Candidate::is_scheduled);
        let is_other = |one: &Rollout| one.is_waiting() && one.digest() != disk.digest;
        let waits_in_vain = !needs_rollout
            && self.application.reads_volumes()
            && self.rollout.as_ref().is_some_and(is_other);
        if (was_scheduled || waits_in_vain)
            && self.application.running() == Some(disk.digest)
            && !self.intake.source().is_update_pending(now.mono)
        {
            // The content went back, but the scan did not report it, because a trigger was pending then, or an action,
            // which was not sent.
            let conclusion = self.application.unchanged(now, self.intake.source(), true);
            self.apply_conclusion(now, disk, conclusion, out);
        }
    }

    pub(super) fn needs_rollout(&self, disk: Digest) -> bool {
        let running = self.application.running();
        let is_rolled_out = self.rollout.as_ref().is_some_and(|rollout| rollout.digest() == disk);
        self.intake.is_triggered(disk, running)
            || (running != Some(disk)
                && !is_rolled_out
                && !self.application.verdicts().are_against(disk))
    }

    /// Starts the checks of the candidate, or of what is retried. What has to wait for them is recorded.
    pub(super) fn start_due_checks(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let (runs, others) = ((self.runs(), self.retried()), &self.neighbours.checks);
        match self.intake.start_checks(now.mono, runs, others, &self.policy) {
            None | Some((_, Start::No)) => {}
            Some((digest, Start::Run)) => out.push_back(Command::Check(self.id, digest)),
            Some((digest, Start::RunAgain(times))) => {
                self.report(Fact::CheckedAgain(digest, times), out);
                out.push_back(Command::Check(self.id, digest));
            }
            Some((digest, Start::Rejected(fact))) => {
                self.application.rejected(digest);
                self.report(fact, out);
            }
        }
        if let Some(digest) = self.intake.take_unrecorded(self.runs()) {
            out.push_back(Command::Remember(self.id, digest));
        }
    }

    /// When to run the checks again.
    pub(super) fn next_check(&self) -> Option<Moment> {
        self.intake.next_check(self.runs(), self.retried(), &self.policy)
    }

    /// The content that the rollout retries.
    fn retried(&self) -> Option<Digest> {
        self.rollout.as_ref().filter(|rollout| rollout.is_waiting()).map(Rollout::digest)
    }

    /// Schedules a candidate that has passed the checks.
    pub(super) fn schedule(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let earliest = self.application.rate().next_action(&self.policy);
        let (runs, replica) = (self.runs(), &self.replica);
        let scheduled = self.intake.schedule(now.mono, runs, earliest, replica, &self.policy);
        let Some((digest, fact)) = scheduled else { return };
        if let Some(fact) = fact {
            self.report(fact, out);
        }
        // A retry would make the application read the newer content.
        let is_retry = self.rollout.as_ref().is_some_and(|rollout| rollout.digest() != digest);
        if self.application.reads_volumes() && is_retry && !self.is_busy() {
            self.finish(now, Outcome::Superseded, out);
        }
        self.application.verdicts_mut().forget_given_up_for(digest);
    }

    pub(super) fn cause(&self) -> Cause {
        self.intake.cause(self.runs())
    }

    /// The state of the gate for the candidate, if there is one.
    pub(super) fn gate(&self, now: Now) -> Option<Gate> {
        let candidate = self.intake.candidate().filter(|_| !self.is_stopping())?;
        let cause = self.cause();
        let rollout = match &self.rollout {
            Some(rollout) => {
                rollout.supersedable_by(candidate.digest(), &self.context(now, rollout))
            }
            None if self.is_busy() => Supersedable::Later(None),
            None => Supersedable::Now,
        };
        let (source, reads_volumes) = (self.intake.source(), self.application.reads_volumes());
        let is_readable = reads_volumes || source.unreadable().is_none();
        let are_enough = !source.is_missing_a_volume() || !cause.needs_all_volumes(reads_volumes);
        Some(gate::evaluate(
            candidate,
            &Conditions {
                now,
                policy: &self.policy,
                replica: &self.replica,
                cause,
                is_update_pending: source.is_update_pending(now.mono)
                    || !self.application.is_resolved(),
                is_complete: is_readable && are_enough,
                verdict: self.intake.checks().verdict(candidate.digest()),
                may_check: self.intake.may_check(candidate.digest(), self.runs(), &self.policy),
                next_action: self.application.rate().next_action(&self.policy),
                restart_at: self.application.rate().next_restart(now.mono, &self.policy),
                is_paused_by_key: source.is_paused_by_key(),
                paused_until: self.intake.paused_until(),
                rollout,
                permit: self.answer_for_candidate(now, cause, candidate.digest()),
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
        let Some(candidate) = self.intake.candidate_mut() else { return false };
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
                    self.intake.use_trigger();
                    self.permit.triggered(content.digest);
                }
                self.intake.take_candidate();
                self.begin(now, content, Direction::Forward, cause, out);
                true
            }
        }
    }

    /// Whether a hold or the restart budget delays the candidate.
    pub(crate) fn is_held(&self, now: Now) -> bool {
        match self.gate(now) {
            Some(Gate::Closed(Closed::Held(..)) | Gate::Claim(Some(_))) => true,
            Some(
                Gate::Closed(Closed::NotBefore { .. } | Closed::Waiting)
                | Gate::Probe(_)
                | Gate::Claim(None),
            ) => self.intake.candidate().is_some_and(Candidate::is_held),
            Some(Gate::Open) | None => false,
        }
    }
}
