//! What a rule is told of its volumes and their content, and what follows for what the application
//! is known to run.

use std::collections::VecDeque;

use super::Rule;
use crate::clock::{Now, UnixTime};
use crate::core::candidate::{Candidate, Probed, Trigger};
use crate::core::command::Command;
use crate::core::event::{Checked, Inspection, Probe, Scan, VolumeId, Watch};
use crate::core::fact::Fact;
use crate::core::known::Conclusion;
use crate::core::rollout::{Input, Kind, Outcome, Rollout};
use crate::core::source::OnDisk;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    pub(in crate::core) fn watched(
        &mut self,
        volume: VolumeId,
        watch: &Watch,
        out: &mut VecDeque<Command>,
    ) {
        let fact = self.source.watched(volume, watch);
        if let Some(fact) = fact {
            self.say(fact, out);
        }
    }

    pub(in crate::core) fn scanned(
        &mut self,
        now: Now,
        scans: Vec<(VolumeId, Scan)>,
        out: &mut VecDeque<Command>,
    ) {
        let Some(scanned) = self.source.scanned(now, scans) else { return };
        for fact in scanned.facts {
            self.say(fact, out);
        }
        if let Some(digest) = self.source.digest() {
            let was_unbound = self.trigger.is_unbound();
            self.trigger = self.trigger.bound(scanned.begun, digest, self.known.running());
            if was_unbound && !self.trigger.is_unbound() {
                self.known.release(digest);
            }
        }
        let Some(disk) = scanned.on_disk else { return };
        self.known.scanned(disk.digest);
        if self.policy.tells_changes {
            let rolled_out = self.rollout.as_ref().map(Rollout::digest);
            let (source, running) = (&self.source, self.known.running());
            self.changed.found(disk.digest, running, rolled_out, || source.keys());
        }
        if self.policy.has_certificates && self.certificates.0 != Some(disk.digest) {
            self.certificates.0 = Some(disk.digest);
            out.push_back(Command::Expiry(self.id, disk.digest));
        }
        let conclusion = if !self.known.is_started() && !self.known.is_asking() {
            self.first_scan(now, disk)
        } else if self.known.is_settled() && self.known.running() == Some(disk.digest) {
            self.found_what_runs(now)
        } else {
            Conclusion::Nothing
        };
        self.conclude(now, disk, conclusion, out);
    }

    fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion {
        match self.known.first_scan(now, disk) {
            // What is being brought to its end says it by itself.
            Conclusion::Baseline(_) if self.rollout.is_some() => Conclusion::Nothing,
            conclusion => conclusion,
        }
    }

    /// What the application runs is on disk, after a candidate or another content on its way that
    /// was not sent, or without any.
    fn found_what_runs(&mut self, now: Now) -> Conclusion {
        let candidate = self.candidate.as_ref().is_some_and(Candidate::is_scheduled);
        let running = self.known.running();
        let is_triggered =
            self.source.digest().is_some_and(|disk| self.trigger.is_for(disk, running));
        let rollout = self.rollout.as_ref();
        let is_open =
            rollout.is_some_and(|rollout| rollout.is_busy() || Some(rollout.digest()) == running);
        if is_open {
            return Conclusion::Nothing;
        }
        if is_triggered {
            let is_certain = !self.source.leaves_open(now.mono);
            return if is_certain { Conclusion::Unchanged } else { Conclusion::Nothing };
        }
        self.known.unchanged(now, &self.source, candidate || rollout.is_some())
    }

    /// The answer to the question since when the target runs.
    pub(in crate::core) fn inspected(
        &mut self,
        now: Now,
        target: Inspection,
        out: &mut VecDeque<Command>,
    ) {
        let Some(disk) = self.source.on_disk().filter(|_| self.known.is_asking()) else {
            return self.progress(now, Input::Inspected(target), out);
        };
        let conclusion = self.known.inspected(now, target, disk, &self.source);
        self.conclude(now, disk, conclusion, out);
    }

    pub(super) fn conclude(
        &mut self,
        now: Now,
        disk: OnDisk,
        conclusion: Conclusion,
        out: &mut VecDeque<Command>,
    ) {
        match conclusion {
            Conclusion::Nothing => {}
            Conclusion::RollOut => {
                if let Some(running) = self.known.running()
                    && self.known.why_quarantined(disk.digest).is_some()
                {
                    self.say(Fact::RolledBack(running), out);
                }
            }
            Conclusion::Ask => {
                self.candidate = None;
                out.push_back(Command::Inspect(self.id));
            }
            Conclusion::Prove(digest) => {
                self.resume(OnDisk { digest, ..disk }, Kind::Forward);
            }
            Conclusion::Baseline(basis) => {
                self.say(Fact::Baseline(disk.digest, basis), out);
                self.source.settle_doubts();
                let keep = self.known.take_baseline(now, disk.digest, basis);
                self.keep(keep, out);
            }
            Conclusion::Unchanged => {
                self.say(Fact::Unchanged(disk.digest), out);
                self.source.settle_doubts();
            }
            Conclusion::WentBack => {
                self.candidate = None;
                if self.known.follows_disk() && !self.is_busy() {
                    self.finish(now, Outcome::Superseded, out);
                }
                self.say(Fact::Cancelled(disk.digest), out);
                self.source.settle_doubts();
                let keep = self.known.went_back(now.wall);
                self.keep(keep, out);
            }
        }
    }

    pub(in crate::core) fn expires(&mut self, at: Option<UnixTime>) {
        self.certificates.1 = at;
    }

    pub(in crate::core) fn checked(
        &mut self,
        now: Now,
        digest: Digest,
        checked: Checked,
        out: &mut VecDeque<Command>,
    ) {
        let answer = self.checks.answered(now, digest, checked, self.policy.retry);
        let Some(answer) = answer else { return };
        if let Some(fact) = answer.fact {
            self.say(fact, out);
        }
        if answer.moved {
            // A scan tells what is there now; should it be the same, it is checked later.
            self.source.hints_lost(now.mono);
        }
        // Of content that is no longer on disk, that is all there is to say.
        if answer.rejected && self.source.digest() == Some(digest) {
            self.trigger = self.trigger.ended();
            self.candidate.as_mut().into_iter().for_each(Candidate::unschedule);
        }
    }

    pub(in crate::core) fn probed(&mut self, now: Now, probe: Probe, reason: Option<Reason>) {
        if let Some(candidate) = &mut self.candidate {
            candidate.set_probed(probe, Probed::Answered(now.mono, reason));
        }
    }

    /// A person asks for an action now: without settling, jitter or minimum interval, and even if
    /// the application runs the content, or it was given up.
    pub(in crate::core) fn trigger(&mut self, now: Now, out: &mut VecDeque<Command>) {
        self.say(Fact::Triggered, out);
        self.trigger = Trigger::Unbound(now.mono);
        self.candidate.iter_mut().for_each(Candidate::retry_now);
        self.checks.forget();
        self.source.scan_now(now.mono);
    }

    /// No new action; one that is under way may end.
    pub(in crate::core) fn stop(&mut self) {
        self.stopping = true;
    }
}
