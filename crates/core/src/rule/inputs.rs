//! How a rule handles events: about its volumes and their content, and what they reveal about the content that the
//! application runs; about publications, actions and the target; a trigger, and the stop.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Life, Rollout, Rule};
use crate::application::{Conclusion, Started};
use crate::clock::{Now, UnixTime};
use crate::command::Command;
use crate::event::{Acted, Checked, Inspection, Probe, Publication, Scan, VolumeId, Watch};
use crate::fact::{Basis, Fact};
use crate::intake::{Candidate, OnDisk, Verdict};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::rollout::{Direction, Input, Outcome};
use crate::snapshot::Digest;

impl Rule {
    /// Takes another policy, which is for the same volumes.
    ///
    /// `accepted`: content that its checks have accepted already.
    pub(crate) fn policy_changed(&mut self, policy: Policy, accepted: Option<Digest>) {
        let volumes = std::mem::take(&mut self.policy.intake.volumes);
        let had_checks = self.policy.intake.has_checks;
        self.policy = policy;
        self.policy.intake.volumes = volumes;
        self.intake.set_has_checks(self.policy.intake.has_checks, accepted);
        if !had_checks
            && self.application.running().is_some_and(|running| !self.is_checked(running))
        {
            self.application.take_checks();
        }
    }

    pub(crate) fn watched(&mut self, volume: VolumeId, watch: &Watch, out: &mut VecDeque<Command>) {
        let fact = self.intake.source_mut().watched(volume, watch);
        if let Some(fact) = fact {
            self.report(fact, out);
        }
    }

    pub(crate) fn scanned(
        &mut self,
        now: Now,
        scans: Vec<(VolumeId, Scan)>,
        out: &mut VecDeque<Command>,
    ) {
        if self.preflight.take_first() {
            out.push_back(Command::Preflight(self.id));
        }
        let Some(scanned) = self.intake.source_mut().scanned(now, scans) else { return };
        for fact in scanned.facts {
            self.report(fact, out);
        }
        let running = self.application.running();
        if let Some(digest) = self.intake.bind_trigger(scanned.begun, running, &self.policy) {
            self.application.verdicts_mut().release(digest);
        }
        let Some(disk) = scanned.on_disk else { return };
        self.application.scanned(disk.digest);
        self.intake.record_keys(disk.digest, self.runs(), &self.policy);
        self.look_at_certificates(disk.digest, out);
        let conclusion = if !self.application.has_scanned() && !self.application.is_inspecting() {
            self.first_scan(now, disk, out)
        } else if self.application.is_resolved() && self.application.running() == Some(disk.digest)
        {
            self.found_running_content(now)
        } else {
            Conclusion::Nothing
        };
        self.apply_conclusion(now, disk, conclusion, out);
        self.conclude_start(now, out);
    }

    fn look_at_certificates(&self, disk: Digest, out: &mut VecDeque<Command>) {
        if self.intake.reads_certificates(disk, &self.policy) {
            out.push_back(Command::Expiry(self.id, disk));
        }
    }

    fn first_scan(&mut self, now: Now, disk: OnDisk, out: &mut VecDeque<Command>) -> Conclusion {
        self.end_rollout_of_other_pod(now, disk, out);
        let conclusion = self.application.first_scan(now, disk);
        self.without_baseline_of_rollout(conclusion)
    }

    /// A resumed rollout reports its own outcome.
    fn without_baseline_of_rollout(&self, conclusion: Conclusion) -> Conclusion {
        match conclusion {
            Conclusion::Baseline(_) if self.rollout.is_some() => Conclusion::Nothing,
            conclusion => conclusion,
        }
    }

    /// Handles a scan that found the content that the application runs, whether or not a candidate
    /// or an unsent rollout of other content exists.
    fn found_running_content(&mut self, now: Now) -> Conclusion {
        let had_candidate = self.intake.candidate().is_some_and(Candidate::is_scheduled);
        let running = self.application.running();
        let is_triggered = self
            .intake
            .source()
            .digest()
            .is_some_and(|disk| self.intake.is_triggered(disk, running));
        let rollout = self.rollout.as_ref();
        let is_pending =
            rollout.is_some_and(|rollout| rollout.is_busy() || Some(rollout.digest()) == running);
        if is_pending {
            return Conclusion::Nothing;
        }
        if is_triggered {
            let is_certain = !self.intake.source().has_gap_before(now.mono);
            return if is_certain { Conclusion::Unchanged } else { Conclusion::Nothing };
        }
        self.application.unchanged(now, self.intake.source(), had_candidate || rollout.is_some())
    }

    /// Handles a resync: the application may have started, and read the content, since the last one, and what is
    /// published may have changed.
    pub(crate) fn resynced(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.policy.application.publishes {
            out.push_back(Command::ReadPublished(self.id));
        }
        let is_idle = self.rollout.is_none()
            && self.intake.candidate().is_none()
            && self.application.unchecked().is_none()
            && !self.keeps_ending();
        let Some(disk) = self.intake.source().on_disk().filter(|_| is_idle) else { return };
        let conclusion = self.application.look_for_evidence(disk.digest);
        self.apply_conclusion(now, disk, conclusion, out);
    }

    /// Handles the answer to [`Command::Inspect`].
    pub(crate) fn inspected(&mut self, now: Now, target: Inspection, out: &mut VecDeque<Command>) {
        self.inspected_after_end(now, &target, out);
        let Some(disk) =
            self.intake.source().on_disk().filter(|_| self.application.is_inspecting())
        else {
            return self.progress(now, Input::Inspected(target), out);
        };
        let conclusion = self.application.inspected(now, target, disk, self.intake.source());
        let conclusion = self.without_baseline_of_rollout(conclusion);
        if matches!(conclusion, Conclusion::Baseline(_)) && self.application.running().is_some() {
            self.preflight.other_target();
        }
        self.apply_conclusion(now, disk, conclusion, out);
        self.conclude_start(now, out);
    }

    pub(super) fn apply_conclusion(
        &mut self,
        now: Now,
        disk: OnDisk,
        conclusion: Conclusion,
        out: &mut VecDeque<Command>,
    ) {
        match conclusion {
            Conclusion::Nothing => {}
            Conclusion::RollOut => {
                if let Some(running) = self.application.running()
                    && self.application.verdicts().quarantine_reason(disk.digest).is_some()
                {
                    self.report(Fact::RolledBack(running), out);
                }
            }
            Conclusion::Inspect => {
                self.intake.take_candidate();
                out.push_back(Command::Inspect(self.id));
            }
            Conclusion::Verify(digest) => {
                self.resume(OnDisk { digest, ..disk }, Direction::Forward);
            }
            Conclusion::Baseline(basis) => {
                let is_checked = self.is_checked(disk.digest);
                let basis = match basis {
                    Basis::TargetIsYounger if !is_checked => Basis::Unchecked,
                    basis => basis,
                };
                self.report(Fact::Baseline(disk.digest, basis), out);
                self.intake.source_mut().clear_gaps();
                let save = self.application.set_baseline(now, disk.digest, basis, is_checked);
                self.save(save, out);
            }
            Conclusion::Unchanged => {
                self.report(Fact::Unchanged(disk.digest), out);
                self.intake.source_mut().clear_gaps();
            }
            Conclusion::Reverted => {
                self.intake.take_candidate();
                if self.application.reads_volumes() && !self.is_busy() {
                    self.finish(now, Outcome::Superseded, out);
                }
                self.report(Fact::Cancelled(disk.digest), out);
                self.intake.source_mut().clear_gaps();
                let save = self.application.save_known(now.wall);
                self.save(save, out);
            }
        }
    }

    pub(crate) fn expires(&mut self, digest: Digest, at: Option<UnixTime>) {
        self.intake.certificates_expire(digest, at);
    }

    pub(crate) fn checked(
        &mut self,
        now: Now,
        digest: Digest,
        checked: Checked,
        out: &mut VecDeque<Command>,
    ) {
        let answer = self.intake.checked(now, digest, checked, &self.policy);
        let Some(answer) = answer else { return };
        if let Some(fact) = answer.fact {
            self.report(fact, out);
        }
        if answer.rejected {
            self.application.rejected(digest);
        }
        self.conclude_start(now, out);
        self.look_at_certificates(digest, out);
    }

    /// Whether this content has passed the checks, or need not. A baseline waits for no person: where the checks need
    /// an approval, it goes without them.
    fn is_checked(&self, content: Digest) -> bool {
        !self.application.reads_volumes()
            || self.policy.intake.needs_approval_to_check
            || self.intake.checks().verdict(content) == Verdict::Passed
    }

    /// Concludes from what the target has read at its start, if that has passed the checks, and nothing else can have
    /// been there meanwhile.
    fn conclude_start(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let source = self.intake.source();
        let may_differ = source.is_missing_a_volume()
            || source.is_update_pending(now.mono)
            || source.has_gap_before(now.mono)
            || self.application.is_inspecting();
        let disk = source.on_disk().filter(|disk| !may_differ && self.is_checked(disk.digest));
        let Some(disk) = disk else { return };
        match self.application.passed(disk.digest) {
            Some(Started::Runs) => {
                let conclusion = Conclusion::Baseline(Basis::TargetIsYounger);
                self.apply_conclusion(now, disk, conclusion, out);
            }
            Some(Started::LookAgain) => self.resynced(now, out),
            Some(Started::RollOut) | None => {}
        }
    }

    pub(crate) fn probed(&mut self, now: Now, probe: Probe, reason: Option<Reason>) {
        self.intake.probed(now.mono, probe, reason);
    }

    /// Acts without settling, jitter or minimum interval, even if the application already runs the
    /// content or podnudge gave it up.
    pub(crate) fn trigger(&mut self, now: Now, out: &mut VecDeque<Command>) {
        self.report(Fact::Triggered, out);
        self.intake.trigger(now.mono);
    }

    /// A person pauses the rule for this long, or ends the pause.
    pub(crate) fn pause(&mut self, now: Now, time: Option<Duration>, out: &mut VecDeque<Command>) {
        let was_paused = self.intake.paused_until().is_some();
        self.intake.pause(time.map(|time| now.mono.after(time)));
        match time {
            Some(time) => self.report(Fact::Paused(time), out),
            None if was_paused => self.report(Fact::Resumed, out),
            None => {}
        }
    }

    /// Starts no new action; an action in progress may finish.
    pub(crate) fn stop(&mut self) {
        if self.life == Life::Running {
            self.life = Life::Stopping;
        }
    }

    /// Handles the result of a publication or rollback.
    pub(crate) fn published(
        &mut self,
        now: Now,
        publication: Publication,
        out: &mut VecDeque<Command>,
    ) {
        let Some(digest) = self.rollout.as_ref().map(Rollout::digest) else { return };
        let is_swapped = match &publication {
            Publication::Failed(_, current) => {
                self.application.publication_failed(now.mono, digest, *current)
            }
            Publication::Done | Publication::Moved => false,
        };
        if publication == Publication::Done {
            self.application.published_now(now.mono, digest);
        }
        if publication == Publication::Done || is_swapped {
            self.application.exposed(now.mono);
        }
        self.progress(now, Input::Published { publication, is_swapped }, out);
    }

    /// Handles the digest that a resync found in the publish directory.
    pub(crate) fn found_published(&mut self, digest: Option<Digest>, out: &mut VecDeque<Command>) {
        // Ignore it while a publication is in progress.
        if !self.is_busy() && self.application.found_published(digest) {
            // Without any files the application cannot start: content that failed before is better.
            if let (None, Some(disk)) = (digest, self.intake.source().digest()) {
                self.application.verdicts_mut().release(disk);
            }
            self.report(Fact::PublicationLost(digest), out);
        }
    }

    /// Handles the result of an action, or an observation of the target.
    pub(crate) fn handle(&mut self, now: Now, input: Input, out: &mut VecDeque<Command>) {
        // A poll of a tripped rule is not an action.
        let is_action = !self.rollout.as_ref().is_some_and(Rollout::has_tripped);
        let has_acted = is_action && !self.policy.rollout.is_restart;
        if has_acted && matches!(&input, Input::Acted(Acted::Failed(_) | Acted::Declined(_))) {
            self.application.rate_mut().acted(now.mono);
            self.intake.source_mut().acted(now.mono);
        }
        if let Input::Acted(
            Acted::Sent(targets) | Acted::Fresh(targets) | Acted::Restarted(targets),
        ) = &input
        {
            self.application.found_targets(targets);
            self.application.rate_mut().found_container(targets.are_containers);
        }
        self.application.rate_mut().observe(now.mono, &input);
        if self.ends_pod() {
            self.take_back_end(&input);
        }
        match input {
            Input::Ended if self.rollout.is_none() => {
                let acts_elsewhere = self.neighbours.busy.is_some();
                let is_unexplained = self.application.target_ended(acts_elsewhere);
                if self.application.reads_volumes() {
                    // The next podnudge cannot know that the process has ended.
                    self.saved.known.evidence = self.application.evidence();
                }
                self.ended_in_bake();
                if is_unexplained {
                    self.crashed(now, out);
                }
            }
            Input::Verified(verified) if self.rollout.is_none() => {
                self.polled_in_trial(now, verified, out);
            }
            input => self.progress(now, input, out),
        }
    }
}
