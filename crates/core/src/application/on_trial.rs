//! The content that is on trial, if there is any: how its trial begins, and what follows when it is over.

use std::time::Duration;

use super::Application;
use super::conclusion::Save;
use super::trial::Trial;
use crate::clock::Moment;
use crate::policy::Policy;
use crate::rollout::Rollout;

impl Application {
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
}
