//! Content that waits: which content is the candidate, its checks, its time, and the gate.

use std::collections::VecDeque;

use super::Rule;
use crate::clock::{Moment, Now};
use crate::core::candidate::{Candidate, Trigger};
use crate::core::checks::Verdict;
use crate::core::command::Command;
use crate::core::fact::Fact;
use crate::core::gate::{self, Cause, Circumstances, Closed, Gate, GivesWay};
use crate::core::jitter;
use crate::core::rollout::{Kind, Outcome, Rollout};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    /// Content that differs from what runs is the candidate, unless it is on its way already.
    pub(super) fn choose_candidate(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(disk) = self.source.on_disk().filter(|_| self.known.is_settled()) else { return };
        if let Some(rollout) = &mut self.rollout {
            rollout.update(disk);
        }
        if self.is_wanted(disk.digest) {
            match &mut self.candidate {
                Some(candidate) => candidate.update(disk),
                None => self.candidate = Some(Candidate::new(disk)),
            }
        } else if let Some(candidate) = self.candidate.take()
            && candidate.is_scheduled()
            && self.known.running() == Some(disk.digest)
            && !self.source.is_looking(now.mono)
        {
            // It went back, and no scan has said so: the trigger that it was for is gone.
            let conclusion = self.known.unchanged(now, &self.source, true);
            self.conclude(now, disk, conclusion, out);
        }
    }

    pub(super) fn is_wanted(&self, disk: Digest) -> bool {
        let running = self.known.running();
        let is_rolled_out = self.rollout.as_ref().is_some_and(|rollout| rollout.digest() == disk);
        self.trigger.is_for(disk, running)
            || (running != Some(disk)
                && !is_rolled_out
                && self.known.why_quarantined(disk).is_none()
                && self.given_up.as_ref().is_none_or(|given_up| given_up.digest != disk))
    }

    pub(super) fn ask_checks(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if let Some(digest) = self.to_be_checked()
            && self.checks.ask(now.mono, digest)
        {
            out.push_back(Command::Check(self.id, digest));
        }
    }

    /// When the checks are to be asked again.
    pub(super) fn check_due(&self) -> Option<Moment> {
        self.checks.due(self.to_be_checked()?)
    }

    fn to_be_checked(&self) -> Option<Digest> {
        let candidate = self.candidate.as_ref().map(Candidate::digest);
        // What is retried is what is on disk then, where the application reads that.
        let retried = self.rollout.as_ref().filter(|rollout| {
            rollout.is_waiting()
                && self.known.follows_disk()
                && self.source.digest() == Some(rollout.digest())
        });
        let content = candidate.or(retried.map(Rollout::digest));
        content.filter(|_| !self.source.is_missing_a_volume())
    }

    /// A candidate that has passed the checks gets a time of its own.
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
                let jitter = self.policy.jitter;
                at = at.after(jitter::wait(jitter, &self.replica, &digest, self.draws));
            }
            candidate.schedule(at, self.draws);
            let spaced = self.last_action.map(|last| last.after(self.policy.min_interval));
            let at = spaced.filter(|_| cause == Cause::Changed).map_or(at, |spaced| at.max(spaced));
            self.say(Fact::Scheduled(digest, at.since(now.mono)), out);
        }
        // The application would read the newer content, whatever is retried.
        let is_retry = self.rollout.as_ref().is_some_and(|rollout| rollout.digest() != digest);
        if self.known.follows_disk() && is_retry && !self.is_busy() {
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
        if self.trigger.is_for(digest, self.known.running()) {
            Cause::Triggered
        } else if self.known.is_empty() {
            Cause::FirstFill
        } else if self.known.good() == Some(digest) {
            Cause::KnownGood
        } else {
            Cause::Changed
        }
    }

    /// What the gate says of the candidate, if there is one.
    pub(super) fn gate(&self, now: Now) -> Option<Gate> {
        let candidate = self.candidate.as_ref().filter(|_| !self.stopping)?;
        let cause = self.cause();
        let rollout = self.rollout.as_ref().map_or(GivesWay::Now, |rollout| {
            rollout.gives_way(candidate.digest(), &self.context(now, rollout))
        });
        let is_readable = self.known.follows_disk() || self.source.unreadable().is_none();
        let is_whole = is_readable && !self.source.is_missing_a_volume();
        let may_lack = cause == Cause::Triggered && self.known.follows_disk();
        Some(gate::evaluate(
            candidate,
            &Circumstances {
                now,
                policy: &self.policy,
                replica: &self.replica,
                cause,
                is_looking: self.source.is_looking(now.mono) || !self.known.is_settled(),
                is_whole: is_whole || may_lack,
                verdict: self.checks.verdict(candidate.digest()),
                last_action: self.last_action,
                restart_at: self.budget.next(now.mono, self.policy.restarts),
                is_paused_by_key: self.source.is_paused_by_key(),
                rollout,
                is_behind_another_rule: self.goes_first(cause).is_some(),
            },
        ))
    }

    /// The rule that goes first on the same target. What fixes content of this rule that is unproven
    /// itself waits for no target.
    pub(super) fn goes_first(&self, cause: Cause) -> Option<&Reason> {
        let unproven = self.neighbours.unproven.as_ref();
        let is_proven = self.given_at().is_none();
        let unproven = unproven.filter(|_| cause == Cause::Changed && is_proven);
        self.neighbours.busy.as_ref().or(unproven)
    }

    /// Begins the candidate's rollout if the gate is open. Says whether.
    pub(super) fn pass_gate(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let Some(gate) = self.gate(now) else { return false };
        let is_triggered = self.cause() == Cause::Triggered;
        let Some(candidate) = &mut self.candidate else { return false };
        match gate {
            Gate::Closed(Closed::Held(until, reason)) => {
                if candidate.hold(until, &reason) {
                    self.say(Fact::Held(reason, until.map(|at| at.since(now.mono))), out);
                }
                false
            }
            Gate::Closed(_) => false,
            Gate::Ask(probe) => {
                if candidate.ask(probe) {
                    out.push_back(Command::Probe(self.id, probe));
                }
                false
            }
            Gate::Open => {
                let content = candidate.content();
                if is_triggered {
                    self.trigger = Trigger::None;
                }
                self.candidate = None;
                self.begin(now, content, Kind::Forward, is_triggered, out);
                true
            }
        }
    }

    /// Whether something keeps the candidate from its turn that people put there.
    pub(super) fn is_held(&self, now: Now) -> bool {
        match self.gate(now) {
            Some(Gate::Closed(Closed::Held(..))) => true,
            Some(Gate::Closed(Closed::Turn { .. } | Closed::Waiting) | Gate::Ask(_)) => {
                self.candidate.as_ref().is_some_and(Candidate::is_held)
            }
            Some(Gate::Open) | None => false,
        }
    }
}
