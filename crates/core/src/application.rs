//! What the application runs, how that is known, and what is bad.
//!
//! What it reads, the volumes or what podnudge publishes, is followed by a [`Tracker`]. Beside it: how often it may be
//! acted on, the trial of content that was verified, ends that no rollout waits for, and content that did not reach it.

use std::time::Duration;

use super::crashes::Crashes;
use super::event::{Found, Inspection};
use super::evidence::Evidence;
use super::fact::Fact;
use super::generations::Generations;
use super::intake::{OnDisk, Runs, Source};
use super::memory::Failed;
use super::policy::Policy;
use super::rate::Rate;
use super::rollout::{Direction, Rollout};
use super::tracker::{Save, Tracker};
use super::trial::Trial;
use super::volume_tracker::VolumeTracker;
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The application that a rule acts on.
#[derive(Debug)]
pub(super) struct Application {
    tracker: Box<dyn Tracker>,
    rate: Rate,
    /// The last rollout's content, until it is the last good generation. Only without a rollout.
    trial: Option<Trial>,
    /// Ends of the target after the last rollout. Only without a rollout and a trial.
    crashes: Option<Crashes>,
    /// Content that did not reach the application: all attempts failed.
    given_up: Option<Failed>,
    /// The process names of the last action's targets.
    target_names: Vec<String>,
    /// When it could first read the rollout's content.
    exposed_at: Option<Moment>,
    /// The digest that was verified last, and the time of its verification.
    verified: Option<(Digest, UnixTime)>,
    /// The time of the last rollout of new content that was applied, or delivered without a proof.
    succeeded_at: Option<UnixTime>,
}

/// What it runs.
impl Application {
    pub(super) fn new(policy: &Policy, found: &mut Found) -> Self {
        let tracker: Box<dyn Tracker> = if policy.application.publishes {
            let published = std::mem::take(&mut found.published);
            Box::new(Generations::new(published, policy.application.rolls_back))
        } else {
            Box::new(VolumeTracker::new(policy.application.on_start, found))
        };
        Self {
            tracker,
            rate: Rate::default(),
            trial: None,
            crashes: None,
            given_up: None,
            target_names: Vec::new(),
            exposed_at: None,
            verified: None,
            succeeded_at: None,
        }
    }

    pub(super) fn tracker(&self) -> &dyn Tracker {
        &*self.tracker
    }

    pub(super) fn tracker_mut(&mut self) -> &mut dyn Tracker {
        &mut *self.tracker
    }

    pub(super) fn rate(&self) -> &Rate {
        &self.rate
    }

    pub(super) fn rate_mut(&mut self) -> &mut Rate {
        &mut self.rate
    }

    /// What it runs, and what is being brought to it.
    pub(super) fn runs(&self, rolled_out: Option<Digest>) -> Runs {
        Runs {
            running: self.tracker.running(),
            last_good: self.tracker.last_good(),
            rolled_out,
            is_empty: self.tracker.is_empty(),
            reads_volumes: self.tracker.reads_volumes(),
        }
    }

    /// The rollout of this content has succeeded, with this evidence.
    pub(super) fn applied(
        &mut self,
        now: Now,
        digest: Digest,
        evidence: Evidence,
        source: &Source,
    ) -> Save {
        if evidence.is_proof() {
            self.verified = Some((digest, now.wall));
        }
        self.tracker.applied(now, digest, evidence, source)
    }

    /// The rollout of new content was applied, or delivered without a proof.
    pub(super) fn succeeded(&mut self, now: UnixTime) {
        self.succeeded_at = Some(now);
    }

    pub(super) fn succeeded_at(&self) -> Option<UnixTime> {
        self.succeeded_at
    }

    /// The digest that was verified last, and when.
    pub(super) fn verified(&self) -> Option<(Digest, UnixTime)> {
        self.verified
    }
}

/// Its processes.
impl Application {
    /// The last action had targets with these names.
    pub(super) fn found_targets(&mut self, names: &[String]) {
        names.clone_into(&mut self.target_names);
    }

    /// Whether it may be the same as another one, judged by the names of the processes, once both were found.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        let (names, others) = (&self.target_names, &other.target_names);
        let is_unknown = names.is_empty() || others.is_empty();
        is_unknown || names.iter().any(|name| others.contains(name))
    }

    /// It can read the rollout's content since now.
    pub(super) fn exposed(&mut self, now: Moment) {
        self.exposed_at = Some(now);
    }

    /// When it could first read the rollout's content.
    pub(super) fn exposed_at(&self) -> Option<Moment> {
        self.exposed_at
    }
}

/// What is bad.
impl Application {
    /// Whether this content is not to be rolled out without a trigger.
    pub(super) fn is_ruled_out(&self, digest: Digest) -> bool {
        self.tracker.quarantine_reason(digest).is_some()
            || self.given_up.as_ref().is_some_and(|given_up| given_up.digest == digest)
    }

    pub(super) fn give_up(&mut self, failed: Failed) {
        self.given_up = Some(failed);
    }

    pub(super) fn given_up(&self) -> Option<&Failed> {
        self.given_up.as_ref()
    }

    pub(super) fn restore_given_up(&mut self, failed: Option<Failed>) {
        self.given_up = failed;
    }

    /// This content is on its way: other content that was given up does not matter any more.
    pub(super) fn forget_given_up(&mut self, newer: Digest) {
        self.given_up.take_if(|given_up| given_up.digest != newer);
    }

    /// Whether this content was given up, or the content that was to be rolled back to it.
    pub(super) fn has_given_up(&self, digest: Digest) -> bool {
        let given_up = self.given_up.as_ref();
        given_up.is_some_and(|one| [one.digest, one.rolled_out].contains(&digest))
    }
}

/// What follows a rollout.
impl Application {
    /// A rollout begins: what followed the last one is over.
    pub(super) fn rollout_begins(&mut self) {
        (self.trial, self.crashes) = (None, None);
        self.given_up = None;
    }

    /// The publication was lost.
    pub(super) fn publication_lost(&mut self) {
        (self.given_up, self.trial) = (None, None);
    }

    /// Begins the trial of content that was verified. Without a trial, it is good at once: if it
    /// cannot be rolled back, or if podnudge does not look whether the target survives.
    pub(super) fn begin_trial(&mut self, now: Moment, rollout: &Rollout, policy: &Policy) -> Save {
        let can_roll_back = self.tracker.roll_back_to(rollout.digest()).is_some();
        if can_roll_back && policy.rollout.alive_for > Duration::ZERO {
            self.trial = Some(Trial::new(rollout, now, policy));
            return Save::Nothing;
        }
        self.tracker.survived(rollout.digest())
    }

    pub(super) fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    pub(super) fn trial_mut(&mut self) -> Option<&mut Trial> {
        self.trial.as_mut()
    }

    /// The content has passed its trial.
    pub(super) fn pass_trial(&mut self) -> Save {
        match self.trial.take() {
            Some(trial) => self.tracker.survived(trial.content().digest),
            None => Save::Nothing,
        }
    }

    /// The content has not passed its trial.
    pub(super) fn take_trial(&mut self) -> Option<Trial> {
        self.trial.take()
    }

    /// A process has ended that ran the content, whatever the evidence for that was.
    pub(super) fn crashed(&mut self, now: Moment) {
        if let Some(running) = self.tracker.running() {
            let before = self.crashes.take();
            self.crashes = Some(Crashes::ended(before, running, self.exposed_at, now));
        }
    }

    /// Begins to look for further ends, if that is due. `is_busy`: another rule acts on it, and may restart it.
    pub(super) fn begin_due_look(&mut self, now: Moment, is_busy: bool, is_stopping: bool) -> bool {
        let running = self.tracker.running();
        self.crashes.take_if(|crashes| is_stopping || running != Some(crashes.digest()));
        !is_busy && self.crashes.as_mut().is_some_and(|crashes| crashes.begin_due_look(now))
    }

    /// Takes what an inspection has found. Returns whether ends are still counted.
    pub(super) fn looked(&mut self, found: &Inspection, now: Moment) -> bool {
        self.crashes.take_if(|crashes| crashes.looked(found, now)).is_none()
    }

    /// What to report of its ends.
    pub(super) fn report_crashes(&mut self, now: Moment) -> Option<Fact> {
        let crashes = self.crashes.as_ref().filter(|one| one.is_reported(now))?;
        let reason = crashes.reason()?.clone();
        Some(Fact::KeepsEnding(crashes.digest(), reason))
    }

    /// Why it ends again and again with the content that it runs, if it does.
    pub(super) fn keeps_ending(&self) -> Option<&Reason> {
        self.crashes.as_ref().and_then(Crashes::reason)
    }

    /// When to look for further ends.
    pub(super) fn next_look(&self) -> Option<Moment> {
        self.crashes.as_ref().and_then(Crashes::next_wakeup)
    }

    /// The content and direction of the rollback of `failed`, if a good generation exists.
    pub(super) fn plan_rollback(
        &self,
        failed: OnDisk,
        after_restart: bool,
    ) -> Option<(OnDisk, Direction)> {
        let good = self.tracker.roll_back_to(failed.digest)?;
        let direction = Direction::Back { failed: failed.digest, after_restart };
        Some((OnDisk { digest: good, ..failed }, direction))
    }
}
