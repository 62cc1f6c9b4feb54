//! The trial of content that was verified.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Rollout, Rule, Trial};
use crate::cause::Cause;
use crate::clock::Now;
use crate::command::Command;
use crate::event::{Alive, Verified};
use crate::reason::Reason;

impl Rule {
    /// Begins the trial of content that was verified. Without a trial, it is good at once: if it
    /// cannot be rolled back, or if podnudge does not look whether the target survives.
    pub(super) fn begin_trial(&mut self, now: Now, rollout: &Rollout, out: &mut VecDeque<Command>) {
        let can_roll_back = self.tracker.roll_back_to(rollout.digest()).is_some();
        if can_roll_back && self.policy.rollout.alive_for > Duration::ZERO {
            self.trial = Some(Trial::new(rollout, now.mono, &self.policy));
        } else {
            let save = self.tracker.survived(rollout.digest());
            self.save(save, out);
        }
    }

    /// Finds out whether the target still runs, if that is due.
    pub(super) fn continue_trial(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let newer = self.neighbours.newer;
        let Some(trial) = &mut self.trial else { return };
        if newer {
            trial.excuse();
        }
        if trial.begin_due_poll(now.mono) {
            out.push_back(Command::Verify(self.id));
        }
    }

    pub(super) fn polled_in_trial(
        &mut self,
        now: Now,
        verified: Verified,
        out: &mut VecDeque<Command>,
    ) {
        let Some(trial) = &mut self.trial else { return };
        let is_at_fault = trial.end_poll();
        match verified.alive {
            Alive::Gone(reason) if is_at_fault => self.fail_trial(now, &reason, out),
            // Other content was the cause, and the next process is not observed.
            Alive::Gone(_) => self.pass_trial(out),
            _ if trial.is_over(now.mono) => self.pass_trial(out),
            // podnudge has restarted the target for another rule.
            _ => {}
        }
    }

    fn pass_trial(&mut self, out: &mut VecDeque<Command>) {
        let Some(trial) = self.trial.take() else { return };
        let save = self.tracker.survived(trial.content().digest);
        self.save(save, out);
    }

    /// Rolls the content back, because it has ended the target; as soon as no other rule acts on
    /// the target. A stopping podnudge leaves it unproven, for the next one.
    fn fail_trial(&mut self, now: Now, reason: &Reason, out: &mut VecDeque<Command>) {
        let Some(trial) = self.trial.take_if(|_| !self.stopping) else { return };
        let content = trial.content();
        self.tracker.invalidate();
        self.quarantine(content, reason.clone(), out);
        self.halt(content.digest, reason);
        self.interrupted(content.digest, true);
        let Some((content, direction)) = self.plan_rollback(content, trial.after_restart()) else {
            return;
        };
        if self.neighbours.busy.is_some() {
            self.resume(content, direction);
        } else {
            self.begin(now, content, direction, Cause::KnownGood, out);
        }
    }
}
