//! The slot of a rule: asking for it, keeping it, giving it back, and telling the other replicas about
//! content that failed.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::clock::{Moment, Now};
use crate::core::candidate::Trigger;
use crate::core::command::Command;
use crate::core::event::SlotState;
use crate::core::fact::Fact;
use crate::core::gate::{Cause, Closed, Gate};
use crate::core::rollout::Outcome;
use crate::core::slot::Standing;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    /// Takes what is known of the slot from now on.
    pub(in crate::core) fn slot_told(&mut self, state: SlotState, out: &mut VecDeque<Command>) {
        if *self.slot.state() != state {
            match &state {
                SlotState::Held { slot } => self.report(Fact::SlotHeld(slot.clone()), out),
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
    pub(in crate::core) fn readiness(&mut self, now: Moment, not_ready: Option<Reason>) {
        if let Some(policy) = self.policy.slot {
            self.slot.looked(now, not_ready, policy);
        }
    }

    fn acts_without_slot(&self) -> bool {
        self.policy.slot.is_some_and(|policy| policy.acts_when_unreachable)
    }

    /// Whether the rule may roll out this content, as far as slots are concerned.
    pub(super) fn slot_standing(&self, cause: Cause, digest: Digest) -> Standing<'_> {
        match self.policy.slot.filter(|_| cause.needs_slot()) {
            Some(policy) => self.slot.standing(digest, policy),
            None => Standing::Granted,
        }
    }

    /// Asks for a slot for this content, unless that was done. A person who triggers it overrides what
    /// happened to it elsewhere.
    pub(super) fn claim_slot(
        &mut self,
        digest: Digest,
        is_triggered: bool,
        out: &mut VecDeque<Command>,
    ) {
        if is_triggered && self.slot.is_halted(digest) {
            self.slot.told(SlotState::Free);
            out.push_back(Command::ClearHalt(self.id, digest));
        }
        if self.slot.claim(digest) {
            out.push_back(Command::Claim(self.id, digest));
        }
    }

    /// Asks for the slot of a rollout that an earlier podnudge began: it goes on when it has one.
    pub(super) fn claim_for_resumed(&mut self, out: &mut VecDeque<Command>) {
        let digest = self.slot.used_for().filter(|_| self.is_delayed_by_slot());
        if let Some(digest) = digest.filter(|_| self.rollout.is_some()) {
            self.claim_slot(digest, false, out);
        }
    }

    /// Whether a resumed rollout waits for its slot.
    pub(super) fn is_delayed_by_slot(&self) -> bool {
        self.policy.slot.is_some_and(|policy| self.slot.delays_resumed(policy))
    }

    /// Begins to use the slot that the gate has seen, if one is needed.
    pub(super) fn use_slot(&mut self, cause: Cause, digest: Digest) {
        if self.policy.slot.is_some() && cause.needs_slot() {
            self.slot.begin(digest);
        }
    }

    /// Tells the other replicas that this content failed here.
    pub(super) fn halt(&mut self, digest: Digest, reason: &Reason, out: &mut VecDeque<Command>) {
        // When the pod is deleted, its application ends, whatever it has read.
        if self.policy.slot.is_some() && !self.stopping {
            out.push_back(Command::Halt(self.id, digest, reason.clone()));
        }
    }

    /// The same for content with which the application was acted on: only that says something about the
    /// content.
    pub(super) fn halt_after_action(
        &mut self,
        digest: Digest,
        reason: &Reason,
        out: &mut VecDeque<Command>,
    ) {
        if self.slot.has_acted() {
            self.halt(digest, reason, out);
        }
    }

    /// podnudge stops. A slot that is kept after an action is not given back: it expires.
    pub(super) fn stop_with_slot(&mut self, out: &mut VecDeque<Command>) {
        if !self.slot.is_baking() && !self.slot.has_acted() && self.slot.release() {
            out.push_back(Command::Release(self.id));
        }
    }

    /// The target ended, and no rollout is in progress.
    pub(super) fn ended_in_bake(&mut self, out: &mut VecDeque<Command>) {
        // Another rule may have restarted the target.
        let is_excused = self.neighbours.busy.is_some() || self.neighbours.newer;
        let is_suspect = self.slot.is_baking() && !is_excused;
        if let Some(digest) = self.tracker.running().filter(|_| is_suspect) {
            let reason = Reason::new("the target ended while the content was on trial");
            self.halt(digest, &reason, out);
        }
    }

    /// Lets the rollout that has no slot any longer go back to the gate, if its next action can wait.
    /// Returns whether it did.
    pub(super) fn return_to_gate(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let Some(policy) = self.policy.slot else { return false };
        let waiting = self.rollout.as_ref().filter(|rollout| rollout.is_before_action());
        let Some(digest) = waiting.map(Rollout::digest) else { return false };
        let is_used = self.slot.used_for() == Some(digest);
        let has_slot = self.slot.standing(digest, policy) == Standing::Granted;
        if !is_used || has_slot || self.slot.delays_resumed(policy) {
            return false;
        }
        let is_triggered = self.rollout.as_ref().is_some_and(Rollout::is_triggered);
        if is_triggered && self.trigger == Trigger::None {
            self.trigger = Trigger::For(digest);
        }
        self.finish(now, Outcome::Superseded, out);
        true
    }

    /// Gives the slot back when neither a rollout nor the gate needs it, and nothing keeps it.
    pub(super) fn settle_slot(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if !self.slot.is_claimed() || self.rollout.is_some() {
            return;
        }
        self.slot.end_bake(now.mono);
        if self.slot.take_look(now.mono) {
            out.push_back(Command::AskReadiness(self.id));
        }
        let is_needed = match self.gate(now) {
            Some(Gate::Open | Gate::Claim(_) | Gate::Probe(_)) => true,
            // A scan takes a moment.
            Some(Gate::Closed(Closed::Waiting)) => self.source.is_update_pending(now.mono),
            Some(Gate::Closed(Closed::NotBefore { .. } | Closed::Held(..))) | None => false,
        };
        // Content on trial may still be rolled back.
        let is_kept = self.slot.is_baking() || self.trial.is_some();
        if !is_needed && !is_kept && self.slot.release() {
            out.push_back(Command::Release(self.id));
        }
    }
}
