//! The trial of content that was verified: what follows from its polls.

use std::collections::VecDeque;

use super::Rule;
use crate::cause::Cause;
use crate::clock::Now;
use crate::command::Command;
use crate::event::{Alive, Verified};
use crate::reason::Reason;

impl Rule {
    /// Finds out whether the target still runs, if that is due.
    pub(super) fn continue_trial(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let newer = self.neighbours.newer;
        let Some(trial) = self.application.trial_mut() else { return };
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
        let Some(trial) = self.application.trial_mut() else { return };
        let (is_at_fault, is_over) = (trial.end_poll(), trial.is_over(now.mono));
        match verified.alive {
            Alive::Gone(reason) if is_at_fault => self.fail_trial(now, &reason, out),
            // Other content was the cause, and the next process is not observed.
            Alive::Gone(_) => self.pass_trial(out),
            _ if is_over => self.pass_trial(out),
            // podnudge has restarted the target for another rule.
            _ => {}
        }
    }

    fn pass_trial(&mut self, out: &mut VecDeque<Command>) {
        let save = self.application.pass_trial();
        self.save(save, out);
    }

    /// Rolls the content back, because it has ended the target; as soon as no other rule acts on
    /// the target. A stopping podnudge leaves it unproven, for the next one.
    fn fail_trial(&mut self, now: Now, reason: &Reason, out: &mut VecDeque<Command>) {
        if self.is_stopping() {
            return;
        }
        let Some(trial) = self.application.take_trial() else { return };
        let content = trial.content();
        self.application.invalidate();
        self.quarantine(content, reason.clone(), out);
        self.halt(content.digest, reason);
        self.interrupted(content.digest, true);
        let Some((content, direction)) =
            self.application.plan_rollback(content, trial.after_restart())
        else {
            return;
        };
        if self.neighbours.busy.is_some() {
            self.resume(content, direction);
        } else {
            self.begin(now, content, direction, Cause::KnownGood, out);
        }
    }
}
