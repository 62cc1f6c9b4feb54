//! Ends of the target that no rollout and no trial waits for.

use std::collections::VecDeque;

use super::Rule;
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::event::Inspection;

impl Rule {
    /// A process has ended that ran the content, whatever the evidence for that was.
    pub(super) fn crashed(&mut self, now: Now, out: &mut VecDeque<Command>) {
        self.application.crashed(now.mono);
        self.report_crashes(now, out);
    }

    /// Inspects the target, if that is due. Another rule that acts on it may restart it.
    pub(super) fn inspect_after_end(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let is_busy = self.neighbours.busy.is_some();
        if self.application.begin_due_inspection(now.mono, is_busy, self.is_stopping()) {
            out.push_back(Command::Inspect(self.id));
        }
    }

    /// When to inspect it. Another rule that acts on the target ends its work first.
    pub(super) fn next_inspection(&self) -> Option<Moment> {
        self.application.next_inspection().filter(|_| self.neighbours.busy.is_none())
    }

    /// Takes what an inspection has found.
    pub(super) fn inspected_after_end(
        &mut self,
        now: Now,
        found: &Inspection,
        out: &mut VecDeque<Command>,
    ) {
        if self.application.inspected_after_end(found, now.mono) {
            self.report_crashes(now, out);
        }
    }

    fn report_crashes(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if let Some(fact) = self.application.report_crashes(now.mono) {
            self.report(fact, out);
        }
    }
}
