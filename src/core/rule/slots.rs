//! The slot of a rule: asking for it, keeping it, giving it back, and telling the other replicas about
//! content that failed.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::clock::{Moment, Now};
use crate::core::candidate::Candidate;
use crate::core::command::Command;
use crate::core::event::{Readiness, SlotState};
use crate::core::fact::Fact;
use crate::core::gate::{Cause, Closed, Gate};
use crate::core::memory::{SavedSlot, SavedUse};
use crate::core::rollout::Input;
use crate::core::slot::{Slot, Standing};
use crate::core::turns;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    /// Takes what is known of the slot from now on.
    pub(in crate::core) fn slot_told(&mut self, state: SlotState, out: &mut VecDeque<Command>) {
        // The time of a slot that is held changes whenever it is renewed.
        let is_same = match state.slot() {
            Some(slot) => self.slot.state().slot() == Some(slot),
            None => *self.slot.state() == state,
        };
        if !is_same {
            match &state {
                SlotState::Held { slot, .. } => self.report(Fact::SlotHeld(slot.clone()), out),
                SlotState::Lost(reason) => self.report(Fact::SlotLost(reason.clone()), out),
                SlotState::Unreachable(reason) if self.acts_without_slot() => {
                    self.report(Fact::WithoutSlot(reason.clone()), out);
                }
                _ => {}
            }
        }
        self.slot.told(state);
    }

    /// Takes the answer to [`Command::AskReadiness`].
    pub(in crate::core) fn readiness(
        &mut self,
        now: Moment,
        readiness: Readiness,
        out: &mut VecDeque<Command>,
    ) {
        let Some(policy) = self.policy.slot else { return };
        if let Some(reason) = self.slot.looked(now, readiness, self.replica.number(), policy) {
            self.report(Fact::ReadinessUnknown(reason), out);
        }
    }

    fn acts_without_slot(&self) -> bool {
        self.policy.slot.is_some_and(|policy| policy.acts_when_unreachable)
    }

    /// Whether the rule may roll out this content, as far as slots are concerned.
    pub(super) fn slot_standing(&self, now: Moment, cause: Cause, digest: Digest) -> Standing<'_> {
        match self.policy.slot.filter(|_| cause.needs_slot()) {
            Some(policy) => self.slot.standing(now, digest, policy),
            None => Standing::Granted,
        }
    }

    /// Asks for a slot for this content, unless that was done. A person who triggers it has it tried here
    /// although it failed elsewhere; for the others that holds when it works.
    pub(super) fn claim_slot(
        &mut self,
        digest: Digest,
        is_triggered: bool,
        out: &mut VecDeque<Command>,
    ) {
        if is_triggered && self.slot.is_halted(digest) {
            self.slot.try_halted(digest);
            out.push_back(Command::TryHalted(self.id, digest));
        }
        if self.slot.claim(digest) {
            out.push_back(Command::Claim(self.id, digest));
        }
    }

    /// Whether to ask for a slot for the candidate: not if that is known to be halted, and the slot is needed
    /// for what was rolled out before.
    pub(super) fn claims_for_candidate(&self, candidate: Digest) -> bool {
        let is_needed = self.slot.in_use_for().is_some()
            || self.rollout.as_ref().is_some_and(Rollout::wants_slot);
        !is_needed || self.cause() == Cause::Triggered || !self.slot.is_halted(candidate)
    }

    /// Asks for the slot that the rollout needs, or that is kept after it. Newer content that only waits for
    /// a slot has precedence.
    pub(super) fn claim_for_rollout(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.policy.slot.is_none() {
            return;
        }
        let rollout = self.rollout.as_ref();
        let is_triggered = rollout.is_some_and(Rollout::is_triggered);
        let wants_slot =
            |rollout: &&Rollout| rollout.wants_slot() && self.has_content(now.mono, rollout);
        let digest = match rollout.filter(wants_slot) {
            Some(rollout) => Some(rollout.digest()),
            // That of an earlier podnudge; or instead of the candidate, which is halted.
            None => self.slot.in_use_for().filter(|digest| {
                self.slot.claimed().is_none_or(|claimed| {
                    self.slot.is_halted(claimed) && !self.slot.is_halted(*digest)
                })
            }),
        };
        let Some(digest) = digest else { return };
        let candidate = self.candidate.as_ref().map(Candidate::digest);
        let has_precedence = candidate.is_some_and(|candidate| {
            candidate != digest
                && self.claims_for_candidate(candidate)
                && matches!(self.gate(now), Some(Gate::Claim(_) | Gate::Open))
        });
        if has_precedence {
            return;
        }
        self.claim_slot(digest, is_triggered, out);
        let reason = self.slot.reason().cloned();
        let rollout = self.rollout.as_mut().filter(|rollout| rollout.digest() == digest);
        if let Some(fact) = rollout.zip(reason).and_then(|(one, reason)| one.held(&reason)) {
            self.report(fact, out);
        }
    }

    /// Whether this rollout may act, as far as slots are concerned.
    pub(super) fn rollouts_standing(&self, now: Moment, rollout: &Rollout) -> Standing<'_> {
        match self.policy.slot {
            Some(policy) => self.slot.standing(now, rollout.digest(), policy),
            None => Standing::Granted,
        }
    }

    /// When the replica's next turn by the clock begins, and why to wait for it; `None` if it is now.
    pub(super) fn turn(&self, now: Now) -> Option<(Moment, Reason)> {
        let (at, reason) = turns::next(self.policy.turns?, &self.replica, now.wall)?;
        Some((now.mono.after(at.since(now.wall)), reason))
    }

    /// Whether this rollout waits for a slot, and nothing is known that would end that.
    pub(super) fn is_delayed_by_slot(&self, now: Moment, rollout: &Rollout) -> bool {
        rollout.is_waiting_for_slot()
            && matches!(self.rollouts_standing(now, rollout), Standing::Wait(_))
    }

    /// What to save of the slot. An action that is being sent may have interrupted the application.
    pub(super) fn saved_slot(&self) -> Option<SavedSlot> {
        let is_sent = |rollout: &&Rollout| rollout.is_sending() && self.slot.claimed().is_some();
        match self.rollout.as_ref().filter(is_sent) {
            Some(rollout) => {
                Some(SavedSlot { digest: rollout.digest(), used: SavedUse::Interrupted })
            }
            None => self.slot.saved(),
        }
    }

    /// Takes over the slot of an earlier podnudge.
    pub(super) fn restore_slot(&mut self, now: Moment, saved: Option<SavedSlot>) {
        if let Some((saved, policy)) = saved.zip(self.policy.slot) {
            self.slot = Slot::restored(saved, self.rollout.is_some(), now, policy);
        }
    }

    /// The rollout that may have interrupted the application has ended.
    pub(super) fn end_use_of_slot(&mut self, now: Moment, applied: Option<Digest>) {
        if let Some(policy) = self.policy.slot {
            self.slot.end(now, applied, policy);
        }
    }

    /// Tells the other replicas that this content failed here.
    pub(super) fn halt(&mut self, digest: Digest, reason: &Reason, out: &mut VecDeque<Command>) {
        // When the pod is deleted, its application ends, whatever it has read.
        if self.policy.slot.is_some() && !self.stopping {
            self.slot.failed(digest);
            out.push_back(Command::Halt(self.id, digest, reason.clone()));
        }
    }

    /// podnudge stops. If the pod may be out of its Services, another one must not follow at once: the slot
    /// is not given back, and expires.
    pub(super) fn stop_with_slot(&mut self, out: &mut VecDeque<Command>) {
        let is_draining = self.rollout.as_ref().is_some_and(Rollout::is_draining);
        let is_out = is_draining || self.slot.in_use_for().is_some();
        if !is_out && self.slot.release() {
            out.push_back(Command::Release(self.id));
        }
    }

    /// The target ended, and no rollout is in progress.
    pub(super) fn ended_in_bake(&mut self, out: &mut VecDeque<Command>) {
        // Another rule may have restarted the target.
        let is_excused = self.neighbours.busy.is_some() || self.neighbours.newer;
        if let Some(digest) = self.slot.on_trial().filter(|_| !is_excused) {
            let reason = Reason::new("the target ended while the content was on trial");
            self.halt(digest, &reason, out);
        }
    }

    /// Ends the drain of a rollout that has lost its slot. Returns whether it did.
    pub(super) fn end_drain_without_slot(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let has_lost = |rollout: &Rollout| {
            rollout.is_draining() && self.rollouts_standing(now.mono, rollout) != Standing::Granted
        };
        let has_lost = self.rollout.as_ref().is_some_and(has_lost);
        if has_lost {
            self.progress(now, Input::SlotLost, out);
        }
        has_lost
    }

    /// Gives the slot back when neither a rollout nor the gate needs it, and nothing keeps it.
    pub(super) fn settle_slot(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.is_slot_of_superseded() {
            self.end_use_of_slot(now.mono, None);
        }
        self.slot.end_bake(now.mono);
        if self.slot.take_look(now.mono) {
            out.push_back(Command::AskReadiness(self.id));
        }
        let is_kept = self.slot.in_use_for().is_some()
            || self.rollout.as_ref().is_some_and(|rollout| self.holds_slot(now.mono, rollout))
            // Content on trial may still be rolled back.
            || self.trial.is_some();
        if is_kept || self.gate_needs_slot(now) {
            return;
        }
        if let Some(digest) = self.slot.works_after_all() {
            out.push_back(Command::ClearHalt(self.id, digest));
        }
        if self.slot.release() {
            out.push_back(Command::Release(self.id));
        }
    }

    /// Whether to keep the slot for what the rollout does next.
    fn holds_slot(&self, now: Moment, rollout: &Rollout) -> bool {
        rollout.holds_slot() && (!rollout.is_waiting_for_slot() || self.has_content(now, rollout))
    }

    /// Whether the rollout that may have interrupted the application was superseded.
    fn is_slot_of_superseded(&self) -> bool {
        let rollout = self.rollout.as_ref().filter(|rollout| rollout.has_superseded());
        rollout.is_some_and(|rollout| {
            self.slot.interrupted_by().is_some_and(|digest| digest != rollout.digest())
        })
    }

    fn gate_needs_slot(&self, now: Now) -> bool {
        match self.gate(now).filter(|_| self.slot.claimed().is_some()) {
            Some(Gate::Open | Gate::Claim(_) | Gate::Probe(_)) => true,
            // A scan takes a moment.
            Some(Gate::Closed(Closed::Waiting)) => {
                self.rollout.is_none() && self.source.is_update_pending(now.mono)
            }
            Some(Gate::Closed(Closed::NotBefore { .. } | Closed::Held(..))) | None => false,
        }
    }
}
