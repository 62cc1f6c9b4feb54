//! The trial of content that was verified.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Rollout, Rule, Trial};
use crate::clock::Now;
use crate::core::command::Command;
use crate::core::event::{Alive, Verified};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    /// Begins the trial of content that was verified. Without a trial, it is good at once: if it
    /// cannot be rolled back, or no process of the target is observed.
    pub(super) fn begin_trial(&mut self, now: Now, rollout: &Rollout, out: &mut VecDeque<Command>) {
        self.trial = Some(Trial::new(rollout, now.mono, &self.policy));
        let can_roll_back = self.tracker.roll_back_to(rollout.digest()).is_some();
        let observes_target = self.policy.alive_for > Duration::ZERO;
        if !can_roll_back || !observes_target {
            self.pass_trial(out);
        }
    }

    /// Ends the trial if its time is over, or if another rule has published newer content for the
    /// target: if that ends now, the newer content is suspected.
    pub(super) fn end_due_trial(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(trial) = &self.trial else { return };
        if trial.is_over(now.mono) || (self.neighbours.newer && !trial.is_polling()) {
            self.pass_trial(out);
        }
    }

    /// Ends the trial because a rollout of this digest begins.
    pub(super) fn supersede_trial(&mut self, digest: Digest, out: &mut VecDeque<Command>) {
        match &self.trial {
            Some(trial) if trial.content().digest != digest => self.pass_trial(out),
            _ => self.trial = None,
        }
    }

    fn pass_trial(&mut self, out: &mut VecDeque<Command>) {
        let Some(trial) = self.trial.take() else { return };
        let save = self.tracker.survived(trial.content().digest);
        self.save(save, out);
    }

    /// Finds out why a process of the target has ended: podnudge itself may have restarted it for
    /// another rule.
    pub(super) fn ended_in_trial(&mut self, out: &mut VecDeque<Command>) {
        if self.trial.as_mut().is_some_and(Trial::begin_poll) {
            out.push_back(Command::Verify(self.id));
        }
    }

    pub(super) fn polled_in_trial(&mut self, verified: Verified, out: &mut VecDeque<Command>) {
        self.trial.iter_mut().for_each(Trial::end_poll);
        if let Alive::Gone(reason) = verified.alive
            && !self.neighbours.newer
        {
            self.fail_trial(reason, out);
        }
    }

    /// Rolls the content back, because it has ended the target; as soon as no other rule acts on
    /// the target. A stopping podnudge leaves it unproven, for the next one.
    pub(super) fn fail_trial(&mut self, reason: Reason, out: &mut VecDeque<Command>) {
        let Some(trial) = self.trial.take_if(|_| !self.stopping) else { return };
        let content = trial.content();
        self.tracker.invalidate();
        self.quarantine(content, reason, out);
        if let Some((content, direction)) = self.plan_rollback(content, trial.after_restart()) {
            self.resume(content, direction);
        }
    }
}
