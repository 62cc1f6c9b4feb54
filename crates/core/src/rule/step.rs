//! The order in which a rule does what is due. Of all files of a rule, this one calls the others, and none calls it.

use std::collections::VecDeque;

use super::{Life, Rule};
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::fact::Fact;
use crate::neighbours::Neighbours;
use crate::rollout::{Input, Rollout};

impl Rule {
    /// Processes everything that is due at `now`.
    pub(crate) fn advance(
        &mut self,
        now: Now,
        neighbours: Neighbours,
        out: &mut VecDeque<Command>,
    ) {
        self.neighbours = neighbours;
        while !self.is_stopped() && self.step(now, out) {}
        if !self.is_stopped() {
            self.look_at_pod(now.mono, out);
        }
        self.remember(out);
    }

    /// Does one thing that is due. Returns whether more may be due.
    fn step(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        self.tell_halts(out);
        if self.is_stopping() && (!self.is_busy() || self.ends_pod()) {
            self.settle_drain(now.mono);
            self.life = Life::Stopped;
            let rolled_out = self.rollout.as_ref().map(Rollout::digest);
            self.permit.stop(self.id, rolled_out, out);
            return false;
        }
        if let Some(volumes) = self.intake.source_mut().begin_due_scan(now.mono) {
            out.push_back(Command::Scan(self.id, volumes));
        }
        if self.preflight.take_next(now.mono) {
            out.push_back(Command::Preflight(self.id));
        }
        if self.intake.end_pause(now.mono) {
            self.report(Fact::Resumed, out);
        }
        self.choose_candidate(now, out);
        self.start_due_checks(now, out);
        self.schedule(now, out);
        self.continue_trial(now, out);
        self.inspect_after_end(now, out);
        let has_progressed = self.pass_gate(now, out)
            || self.end_drain_in_vain(now, out)
            || self.end_pod(now, out)
            || self.continue_rollout(now, out);
        if !has_progressed {
            self.update_use_of_slot(now.mono);
            self.settle_drain(now.mono);
            self.settle_slot(now, out);
        }
        has_progressed
    }

    /// Continues the rollout if it is due. Returns whether it did.
    fn continue_rollout(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let is_due = self.rollout.as_ref().is_some_and(|rollout| rollout.is_due(now.mono));
        if is_due && self.may_continue(now) {
            self.progress(now, Input::Tick, out);
            return true;
        }
        false
    }

    /// The latest time to call [`Rule::advance`].
    pub(crate) fn next_wakeup(&self, now: Now) -> Option<Moment> {
        if self.is_stopped() {
            return None;
        }
        let wakes = |rollout: &&Rollout| self.wakes(now, rollout);
        let rollout = self.rollout.as_ref().filter(wakes);
        let gate = self.gate(now).and_then(|gate| gate.next_evaluation());
        let rollout = rollout.and_then(Rollout::next_wakeup);
        let (source, preflight) =
            (self.intake.source().next_wakeup(), self.preflight.next_wakeup());
        let permit = self.permit.next_wakeup();
        let pause = self.intake.paused_until();
        [
            rollout,
            gate,
            self.next_check(),
            source,
            preflight,
            self.application.next_poll(),
            self.next_inspection(),
            permit,
            pause,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
