//! Whether the application survives what was rolled out: the trial of content that was verified, and ends that no rollout
//! waits for.

use std::time::Duration;

use super::Application;
use super::conclusion::Save;
use super::crashes::Crashes;
use super::trial::Trial;
use crate::clock::Moment;
use crate::event::Inspection;
use crate::fact::Fact;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::rollout::Rollout;

impl Application {
    /// A rollout begins: what followed the last one is over.
    pub(crate) fn rollout_begins(&mut self) {
        (self.trial, self.crashes) = (None, None);
        self.verdicts.forget_given_up();
    }

    /// Begins the trial of content that was verified. Without a trial, it is good at once: if it
    /// cannot be rolled back, or if podnudge does not look whether the target survives.
    pub(crate) fn begin_trial(&mut self, now: Moment, rollout: &Rollout, policy: &Policy) -> Save {
        let can_roll_back = self.roll_back_to(rollout.digest()).is_some();
        if can_roll_back && policy.rollout.alive_for > Duration::ZERO {
            self.trial = Some(Trial::new(rollout, now, policy));
            return Save::Nothing;
        }
        self.survived(rollout.digest())
    }

    pub(crate) fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    pub(crate) fn trial_mut(&mut self) -> Option<&mut Trial> {
        self.trial.as_mut()
    }

    /// The content has passed its trial.
    pub(crate) fn pass_trial(&mut self) -> Save {
        match self.trial.take() {
            Some(trial) => self.survived(trial.content().digest),
            None => Save::Nothing,
        }
    }

    /// The content has not passed its trial.
    pub(crate) fn take_trial(&mut self) -> Option<Trial> {
        self.trial.take()
    }

    /// Since when the application could read content that is on trial.
    pub(crate) fn exposed_on_trial(&self) -> Option<Moment> {
        self.trial.as_ref().and(self.exposed_at)
    }

    /// Whether a poll of the trial is in progress.
    pub(crate) fn is_polling(&self) -> bool {
        self.trial.as_ref().is_some_and(Trial::is_polling)
    }

    /// When to poll for the trial.
    pub(crate) fn next_poll(&self) -> Option<Moment> {
        self.trial.as_ref().and_then(Trial::next_wakeup)
    }

    /// A process has ended that ran the content, whatever the evidence for that was.
    pub(crate) fn crashed(&mut self, now: Moment) {
        if let Some(running) = self.running() {
            let before = self.crashes.take();
            self.crashes = Some(Crashes::ended(before, running, self.exposed_at, now));
        }
    }

    /// Begins an inspection for further ends, if that is due. `is_busy`: another rule acts on it, and may restart it.
    pub(crate) fn begin_due_inspection(
        &mut self,
        now: Moment,
        is_busy: bool,
        is_stopping: bool,
    ) -> bool {
        let running = self.running();
        self.crashes.take_if(|crashes| is_stopping || running != Some(crashes.digest()));
        !is_busy && self.crashes.as_mut().is_some_and(|crashes| crashes.begin_due_inspection(now))
    }

    /// Takes what an inspection has found. Returns whether ends are still counted.
    pub(crate) fn inspected_after_end(&mut self, found: &Inspection, now: Moment) -> bool {
        let Some(crashes) = &mut self.crashes else { return false };
        let is_over = crashes.inspected_after_end(found, now);
        if is_over {
            self.crashes = None;
        }
        !is_over
    }

    /// What to report of its ends.
    pub(crate) fn report_crashes(&mut self, now: Moment) -> Option<Fact> {
        let crashes = self.crashes.as_ref().filter(|one| one.is_reported(now))?;
        let reason = crashes.reason()?.clone();
        Some(Fact::KeepsEnding(crashes.digest(), reason))
    }

    /// Why it ends again and again with the content that it runs, if it does.
    pub(crate) fn keeps_ending(&self) -> Option<&Reason> {
        self.crashes.as_ref().and_then(Crashes::reason)
    }

    /// When to inspect it for further ends.
    pub(crate) fn next_inspection(&self) -> Option<Moment> {
        self.crashes.as_ref().and_then(Crashes::next_wakeup)
    }
}
