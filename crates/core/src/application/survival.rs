//! Whether the application survives what it runs: ends that no rollout waits for.

use super::Application;
use super::crashes::Crashes;
use crate::clock::Moment;
use crate::event::Inspection;
use crate::fact::Fact;
use crate::reason::Reason;

impl Application {
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
