//! What the application runs, how that is known, and what is bad.
//!
//! Where it reads the volumes, `volumes` knows what it may have read; where it reads what podnudge publishes,
//! `generations` does. Beside them: what failed (`verdicts`), how often it may be acted on (`rate`), the trial of content
//! that was verified, and ends that no rollout waits for (`crashes`).

mod at_start;
mod conclusion;
mod crashes;
mod generations;
mod on_trial;
mod published;
mod rate;
mod running;
mod survival;
mod trial;
mod verdicts;
mod volumes;

use crate::clock::{Moment, Now, UnixTime};
use crate::event::{Found, Inspection, Known, Targets};
use crate::evidence::Evidence;
use crate::fact::Basis;
use crate::intake::{OnDisk, Runs, Source};
use crate::policy::Policy;
use crate::snapshot::Digest;
use at_start::AtStart;
pub(crate) use at_start::Started;
pub(crate) use conclusion::{Conclusion, Save, Unfinished};
use crashes::Crashes;
use generations::Generations;
pub(crate) use rate::Rate;
use running::Running;
pub(crate) use trial::Trial;
pub(crate) use verdicts::Verdicts;
use volumes::Volumes;

/// The application that a rule acts on.
#[derive(Debug)]
pub(crate) struct Application {
    reads: Reads,
    running: Running,
    /// Whether the first scan is complete.
    has_scanned: bool,
    verdicts: Verdicts,
    rate: Rate,
    /// The last rollout's content, until it is the last good generation. Only without a rollout.
    trial: Option<Trial>,
    /// Ends of the target after the last rollout. Only without a rollout and a trial.
    crashes: Option<Crashes>,
    /// The targets of the last action.
    targets: Option<Targets>,
    /// When it could first read the rollout's content.
    exposed_at: Option<Moment>,
    /// What it may have read at its start, until that has passed the checks.
    at_start: Option<AtStart>,
    /// The digest that was verified last, and the time of its verification.
    verified: Option<(Digest, UnixTime)>,
    /// The time of the last rollout of new content that was applied, or delivered without a proof.
    succeeded_at: Option<UnixTime>,
}

/// What the application reads.
#[derive(Debug)]
enum Reads {
    Volumes(Volumes),
    Published(Generations),
}

impl Application {
    pub(crate) fn new(policy: &Policy, found: &mut Found) -> Self {
        let published = std::mem::take(&mut found.published);
        let reads = if policy.application.publishes {
            Reads::Published(Generations::new(&published, policy.application.rolls_back))
        } else {
            Reads::Volumes(Volumes::new(&policy.application, found))
        };
        Self {
            reads,
            running: Running::default(),
            has_scanned: false,
            verdicts: Verdicts::found(published.quarantined),
            rate: Rate::default(),
            trial: None,
            crashes: None,
            targets: None,
            exposed_at: None,
            at_start: None,
            verified: None,
            succeeded_at: None,
        }
    }

    pub(crate) fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    pub(crate) fn verdicts_mut(&mut self) -> &mut Verdicts {
        &mut self.verdicts
    }

    pub(crate) fn rate(&self) -> &Rate {
        &self.rate
    }

    pub(crate) fn rate_mut(&mut self) -> &mut Rate {
        &mut self.rate
    }

    /// A rollout begins: what followed the last one is over.
    pub(crate) fn rollout_begins(&mut self) {
        (self.trial, self.crashes) = (None, None);
        self.verdicts.forget_given_up();
    }
}

/// What the application runs.
impl Application {
    /// What the application runs, and what is being brought to it.
    pub(crate) fn runs(&self, rolled_out: Option<Digest>) -> Runs {
        Runs {
            running: self.running(),
            last_good: self.published().and_then(Generations::good),
            rolled_out,
            unchecked: self.unchecked(),
            is_empty: self.is_empty(),
            reads_volumes: self.reads_volumes(),
        }
    }

    /// Whether it reads the volumes, so that only the content on disk can be rolled out.
    pub(crate) fn reads_volumes(&self) -> bool {
        matches!(self.reads, Reads::Volumes(_))
    }

    /// The digest that it is known, or at start assumed, to run. `None` after anything was sent and until it is
    /// verified.
    pub(crate) fn running(&self) -> Option<Digest> {
        self.running.digest()
    }

    /// How that is known.
    pub(crate) fn evidence(&self) -> Evidence {
        self.running.evidence()
    }

    /// Whether the first scan is complete.
    pub(crate) fn has_scanned(&self) -> bool {
        self.has_scanned
    }

    /// Whether an inspection of the target is pending.
    pub(crate) fn is_inspecting(&self) -> bool {
        match &self.reads {
            Reads::Volumes(volumes) => volumes.is_inspecting(),
            Reads::Published(generations) => generations.is_inspecting(),
        }
    }

    /// Whether the first scan is complete and no inspection of the target is pending.
    pub(crate) fn is_resolved(&self) -> bool {
        self.has_scanned && !self.is_inspecting()
    }

    /// Handles the first complete scan.
    pub(crate) fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion {
        self.has_scanned = true;
        match &mut self.reads {
            Reads::Volumes(volumes) => volumes.first_scan(now, disk),
            Reads::Published(generations) => {
                let conclusion = generations.first_scan(disk.digest);
                if conclusion == Conclusion::RollOut
                    && let Some((digest, evidence)) = generations.good_current()
                {
                    self.running.set(Some(digest), evidence);
                }
                conclusion
            }
        }
    }

    /// A scan found this digest.
    pub(crate) fn scanned(&mut self, on_disk: Digest) {
        if let Reads::Volumes(volumes) = &mut self.reads {
            volumes.scanned(on_disk);
        }
    }

    /// Handles a scan that found what the application runs. `after_other`: there was a candidate or
    /// a rollout of other content before.
    pub(crate) fn unchanged(&mut self, now: Now, source: &Source, after_other: bool) -> Conclusion {
        match &mut self.reads {
            Reads::Volumes(volumes) => volumes.unchanged(now, source, after_other),
            Reads::Published(_) => Generations::unchanged(after_other),
        }
    }

    /// Looks for evidence that the application runs the content on disk, if there is none: it may have
    /// started since.
    pub(crate) fn look_for_evidence(&mut self, disk: Digest) -> Conclusion {
        match &mut self.reads {
            Reads::Volumes(volumes) => volumes.look_for_evidence(disk, &self.running),
            Reads::Published(_) => Conclusion::Nothing,
        }
    }

    /// Handles the answer to the pending inspection.
    pub(crate) fn inspected(
        &mut self,
        now: Now,
        target: Inspection,
        disk: OnDisk,
        source: &Source,
    ) -> Conclusion {
        match &mut self.reads {
            Reads::Volumes(volumes) => {
                let running = self.running.digest();
                let conclusion = volumes.inspected(now, target, disk, source, running);
                if conclusion == Conclusion::RollOut {
                    self.running.forget();
                }
                conclusion
            }
            Reads::Published(generations) => generations.inspected(target),
        }
    }

    /// Takes a digest as what the application runs, without an action.
    pub(crate) fn set_baseline(
        &mut self,
        now: Now,
        digest: Digest,
        basis: Basis,
        is_checked: bool,
    ) -> Save {
        let evidence = match (basis, &self.reads) {
            (Basis::Remembered, Reads::Volumes(volumes)) => volumes.remembered_evidence(),
            (Basis::Remembered, Reads::Published(generations)) => generations.good_evidence(),
            (Basis::TargetIsYounger, _) => Evidence::ReadAtStart,
            (Basis::Unchecked | Basis::Unknown | Basis::Never, _) => Evidence::None,
        };
        let is_open = !is_checked && evidence == Evidence::None && basis != Basis::Never;
        self.at_start = is_open.then(|| AtStart::new(digest, basis == Basis::Unchecked));
        self.running.set(Some(digest), evidence);
        match &mut self.reads {
            Reads::Volumes(_) => self.save_known(now.wall),
            Reads::Published(generations) => {
                Save::good(digest, evidence, generations.set_baseline(digest, basis, evidence))
            }
        }
    }

    fn at_start(&self) -> Option<&AtStart> {
        self.at_start.as_ref().filter(|known| self.running() == Some(known.digest()))
    }

    /// The content that it may have read at its start, if that is still to pass the checks.
    pub(crate) fn unchecked(&self) -> Option<Digest> {
        self.at_start().map(AtStart::digest)
    }

    /// Whether it may have read content at its start that the checks reject.
    pub(crate) fn may_run_rejected(&self) -> bool {
        self.at_start().is_some_and(AtStart::is_rejected)
    }

    /// The checks have rejected this content.
    pub(crate) fn rejected(&mut self, content: Digest) {
        self.at_start.iter_mut().for_each(|known| known.rejected(content));
    }

    /// Takes content that has passed the checks. Returns what that means, if it may have read it at its start.
    pub(crate) fn passed(&mut self, content: Digest) -> Option<Started> {
        self.unchecked().filter(|unchecked| *unchecked == content)?;
        let started = self.at_start.take()?.passed();
        if let (Started::RollOut, Reads::Volumes(volumes)) = (started, &mut self.reads) {
            self.running.forget();
            volumes.require_act();
        }
        Some(started)
    }

    /// Takes checks that the rule has from now on, and what runs may not have passed.
    pub(crate) fn take_checks(&mut self) {
        if let (Some(digest), Evidence::ReadAtStart) = (self.running(), self.evidence()) {
            self.running.drop_evidence();
            self.at_start = Some(AtStart::new(digest, true));
        }
    }

    /// The state to save as an action begins, in case podnudge is killed before its outcome.
    pub(crate) fn action_started(&self, now: UnixTime) -> Save {
        let unknown = Known { running: None, evidence: Evidence::None, at: now };
        if self.reads_volumes() { Save::Known(unknown) } else { Save::Nothing }
    }

    /// The state to save of what it runs.
    pub(crate) fn save_known(&self, now: UnixTime) -> Save {
        if self.reads_volumes() { Save::Known(self.running.known(now)) } else { Save::Nothing }
    }

    /// An action was sent: what runs is unknown, and the application may be reading until `until`.
    pub(crate) fn delivered(&mut self, until: Moment) {
        self.running.forget();
        self.at_start = None;
        if let Reads::Volumes(volumes) = &mut self.reads {
            volumes.delivered(until);
        }
    }

    /// The target has ended after the rollout: what ran the content is gone. Returns whether nothing else tells what that
    /// means: no trial, and no other rule, which may have ended it (`acts_elsewhere`).
    pub(crate) fn target_ended(&mut self, acts_elsewhere: bool) -> bool {
        if self.reads_volumes() {
            self.running.drop_evidence();
        }
        self.at_start.iter_mut().for_each(AtStart::target_ended);
        self.trial.iter_mut().for_each(|trial| trial.ended(acts_elsewhere));
        self.trial.is_none() && !acts_elsewhere
    }

    /// Forgets the running digest.
    pub(crate) fn invalidate(&mut self) {
        self.running.forget();
    }

    /// The rollout of this content has succeeded, with this evidence.
    pub(crate) fn applied(
        &mut self,
        now: Now,
        digest: Digest,
        evidence: Evidence,
        source: &Source,
    ) -> Save {
        if evidence.is_proof() {
            self.verified = Some((digest, now.wall));
        }
        let is_known = match &mut self.reads {
            Reads::Volumes(volumes) => volumes.applied(now.mono, digest, source),
            Reads::Published(generations) => generations.is_current(digest),
        };
        self.running.set(Some(digest).filter(|_| is_known), evidence);
        // Do not remember a digest that cannot be confirmed by reading.
        let is_readable = source.unreadable().is_none();
        if is_readable { self.save_known(now.wall) } else { self.action_started(now.wall) }
    }

    /// Whether to act even if the target has read the content at its start.
    pub(crate) fn must_act(&self) -> bool {
        matches!(&self.reads, Reads::Volumes(volumes) if volumes.must_act())
    }

    /// The rollout of new content was applied, or delivered without a proof.
    pub(crate) fn succeeded(&mut self, now: UnixTime) {
        self.succeeded_at = Some(now);
    }

    pub(crate) fn succeeded_at(&self) -> Option<UnixTime> {
        self.succeeded_at
    }

    /// The digest that was verified last, and when.
    pub(crate) fn verified(&self) -> Option<(Digest, UnixTime)> {
        self.verified
    }
}

/// The application's processes.
impl Application {
    /// The last action had these targets.
    pub(crate) fn found_targets(&mut self, targets: &Targets) {
        self.targets = Some(targets.clone());
    }

    /// Whether it may be the same as another one, or end with it, judged by the names of the processes, once both were
    /// found.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (&self.targets, &other.targets) else { return true };
        own.may_end(others) || others.may_end(own)
    }

    /// Records that the application can read the rollout's content from now on.
    pub(crate) fn exposed(&mut self, now: Moment) {
        self.exposed_at = Some(now);
    }

    /// When the application could first read the rollout's content.
    pub(crate) fn exposed_at(&self) -> Option<Moment> {
        self.exposed_at
    }
}
