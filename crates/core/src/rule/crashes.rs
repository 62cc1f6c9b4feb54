//! Ends of the target that no rollout waits for.

use std::collections::VecDeque;

use super::Rule;
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::crashes::Crashes;
use crate::event::Inspection;
use crate::fact::Fact;

impl Rule {
    /// A process has ended that ran the content, whatever the evidence for that was.
    pub(super) fn crashed(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(running) = self.tracker.running() else { return };
        self.crashes = Some(Crashes::ended(self.crashes.take(), running, now.mono));
        self.report_crashes(now, out);
    }

    /// Inspects the target, if that is due. Another rule that acts on it may restart it.
    pub(super) fn look_for_crashes(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let running = self.tracker.running();
        self.crashes.take_if(|crashes| self.stopping || running != Some(crashes.digest()));
        if self.neighbours.busy.is_none()
            && let Some(crashes) = &mut self.crashes
            && crashes.begin_due_look(now.mono)
        {
            out.push_back(Command::Inspect(self.id));
        }
    }

    /// When to inspect it. Another rule that acts on the target ends its work first.
    pub(super) fn next_look(&self) -> Option<Moment> {
        let crashes = self.crashes.as_ref().filter(|_| self.neighbours.busy.is_none());
        crashes.and_then(Crashes::next_wakeup)
    }

    /// Takes what an inspection has found.
    pub(super) fn looked_for_crashes(
        &mut self,
        now: Now,
        found: &Inspection,
        out: &mut VecDeque<Command>,
    ) {
        if self.crashes.take_if(|crashes| crashes.looked(found, now.mono)).is_none() {
            self.report_crashes(now, out);
        }
    }

    fn report_crashes(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(crashes) = self.crashes.as_ref().filter(|one| one.is_reported(now.mono)) else {
            return;
        };
        let reason = crashes.reason().cloned();
        let fact = reason.map(|reason| Fact::KeepsEnding(crashes.digest(), reason));
        if let Some(fact) = fact {
            self.report(fact, out);
        }
    }

    /// Whether the target ends again and again with the content that it runs.
    pub(super) fn keeps_ending(&self) -> bool {
        self.crashes.as_ref().is_some_and(|crashes| crashes.reason().is_some())
    }
}
