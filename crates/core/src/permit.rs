//! Whether a rule may act now, as far as others are concerned: its slot and its turn, which it shares with the
//! replicas of its pod, what failed on one of them, and the drain, by which the pod leaves its Services before the
//! action.
//!
//! It names no Lease: only `slots.rs` does, which the loop calls. The rule describes its situation ([`Wish`]); which slot
//! follows from that, and what is to be asked for or given back, is decided here.

mod answer;
mod ask;
mod drain;
mod halts;
mod looks;
mod outage;
mod services;
mod slot;
mod turns;
mod used;

use std::collections::VecDeque;

use crate::clock::{Moment, Now};
use crate::command::{Command, Intent};
use crate::event::{RuleId, SlotState};
use crate::fact::Fact;
use crate::jitter::Replica;
use crate::memory::{SavedHalt, SavedSlot, SavedUse};
use crate::policy::PermitPolicy;
use crate::reason::Reason;
use crate::snapshot::Digest;
use crate::status::SlotStatus;
pub(crate) use answer::Answer;
pub(crate) use ask::{Ask, Nearness};
use ask::{Situation, ask};
pub(crate) use drain::{Drain, Left};
use halts::Halts;
use outage::Outage;
use slot::Slot;
pub(crate) use used::{End, Use};

/// What is known of the permission to act, and of what it was used for.
#[derive(Debug, Default)]
pub(crate) struct Permit {
    slot: Slot,
    /// What the slot is for, besides an action that is near.
    used: Use,
    /// Content that failed on a replica.
    halts: Halts,
    drain: Drain,
    outage: Outage,
    /// The number of the last look at the pod.
    last_look: u32,
}

/// What the rule wants to do next.
#[derive(Debug)]
pub(crate) struct Wish {
    /// The candidate, how near its rollout is, and whether a person has triggered it.
    pub(crate) candidate: Option<(Digest, Nearness, bool)>,
    /// The rollout, and how near its next action is.
    pub(crate) rollout: Option<(Digest, Nearness)>,
    /// The rollout's content was good here before.
    pub(crate) is_rollout_known_good: bool,
    /// A person has triggered the rollout.
    pub(crate) is_rollout_triggered: bool,
    /// The digest on trial: it may still be rolled back.
    pub(crate) on_trial: Option<Digest>,
}

/// What an answer to a look at the pod is about.
#[derive(Debug)]
pub(crate) enum Looked {
    /// The drain: the rollout waits for it.
    Left(Left),
    /// Whether the pod is Ready after an action will not be known.
    Unknown(Reason),
    /// Nothing that the rule need know.
    Nothing,
}

/// The slot and the turn.
impl Permit {
    /// Takes what is known of the slot from now on. Returns what to report.
    pub(crate) fn told(&mut self, state: SlotState, policy: &PermitPolicy) -> Option<Fact> {
        // The time of a slot that is held changes whenever it is renewed.
        let is_same = match state.slot() {
            Some(slot) => self.slot.state().slot() == Some(slot),
            None => *self.slot.state() == state,
        };
        let acts_without = policy.slot.is_some_and(|policy| policy.acts_when_unreachable);
        let fact = match &state {
            _ if is_same => None,
            SlotState::Held { slot, .. } => Some(Fact::SlotHeld(slot.clone())),
            SlotState::Lost(reason) => Some(Fact::SlotLost(reason.clone())),
            SlotState::Unreachable(reason) if acts_without => {
                Some(Fact::WithoutSlot(reason.clone()))
            }
            _ => None,
        };
        self.halts.told(&state, self.slot.claimed_to_act());
        self.slot.told(state);
        fact
    }

    /// Whether a rule may do this now. Replicas take turns by the clock or share slots, and not both.
    pub(crate) fn ask(
        &self,
        ask: Ask,
        now: Now,
        replica: &Replica,
        policy: &PermitPolicy,
    ) -> Answer<'_> {
        match (ask, policy.slot) {
            (Ask::Nothing, _) => Answer::Go,
            (_, None) => match policy.turns.and_then(|it| turns::next(it, replica, now.wall)) {
                Some((at, why)) => Answer::Turn { at: now.mono.after(at.since(now.wall)), why },
                None => Answer::Go,
            },
            (Ask::Recover(_), Some(policy)) => self.slot.answer_for_known_good(now.mono, policy),
            (Ask::Act(digest), Some(policy)) => match self.halts.elsewhere(digest) {
                Some(reason) => Answer::Halted(reason),
                None => self.slot.answer(now.mono, digest, policy),
            },
        }
    }

    /// When an action that needs the slot must have begun.
    pub(crate) fn act_before(&self) -> Option<Moment> {
        self.slot.act_before()
    }

    /// The digest that was acted with, if the application may not have recovered from that.
    pub(crate) fn acted_with(&self) -> Option<Digest> {
        self.used.acted_with()
    }

    /// The digest of the rollout that may have interrupted the application, and has neither ended nor come to a wait
    /// that may never end.
    pub(crate) fn interrupted_by(&self) -> Option<Digest> {
        self.used.interrupted_by()
    }

    /// The digest against which it counts if the target ends now.
    pub(crate) fn on_trial(&self) -> Option<Digest> {
        self.used.on_trial()
    }

    /// An action for this content may have interrupted the application. `is_limited`: it needed the permission of the
    /// other replicas.
    pub(crate) fn interrupted(&mut self, content: Digest, is_limited: bool, policy: &PermitPolicy) {
        if self.is_kept_after(is_limited, policy) {
            self.used.acted(content);
        }
    }

    /// Whether what an action interrupts concerns the other replicas: that of the first content, which needs nothing of
    /// them, does not.
    fn is_kept_after(&self, is_limited: bool, policy: &PermitPolicy) -> bool {
        policy.shares_actions() && (is_limited || self.acted_with().is_some())
    }

    /// The rollout that may have interrupted the application has ended, or does not go on.
    pub(crate) fn end_use(&mut self, now: Moment, end: End, policy: &PermitPolicy) {
        self.used.end(now, end, policy.slot);
    }

    /// Ends what the slot is kept for, if the time is over.
    pub(crate) fn end_keeping(&mut self, now: Moment) {
        self.used.end_keeping(now);
    }

    /// What it was used for, to be restored if podnudge does not end after all.
    pub(crate) fn used(&self) -> Use {
        self.used.clone()
    }

    pub(crate) fn restore_used(&mut self, used: Use) {
        self.used = used;
    }

    /// Asks for the slot that follows from the wish, or gives it back. Returns the digest for which there is one, or is
    /// asked for one.
    pub(crate) fn settle(
        &mut self,
        id: RuleId,
        wish: &Wish,
        policy: &PermitPolicy,
        out: &mut VecDeque<Command>,
    ) -> Option<Digest> {
        policy.slot?;
        let has_failed = |digest| self.halts.elsewhere(digest).is_some();
        let is_halted = |(digest, _, _)| has_failed(digest) && !wish.is_triggered(digest);
        let ask = ask(&Situation {
            claimed: self.slot.claimed(),
            candidate: wish.candidate.map(|(digest, near, _)| (digest, near)),
            is_candidate_halted: wish.candidate.is_some_and(is_halted),
            rollout: wish.rollout,
            is_rollout_known_good: wish.is_rollout_known_good,
            kept_for: self.kept_for(wish.rollout.map(|(digest, _)| digest)),
            on_trial: wish.on_trial,
        });
        let Some((digest, intent)) = ask.claim() else {
            self.give_back(id, out);
            return None;
        };
        // A person who triggers content has it tried here although it failed elsewhere; for the others that holds when
        // it works.
        let is_tried = intent == Intent::Act && wish.is_triggered(digest);
        if is_tried && has_failed(digest) {
            self.halts.try_again(digest);
            self.slot.forget_state();
            out.push_back(Command::TryHalted(id, digest));
        }
        if self.slot.claimed().claim().map(|(before, _)| before) != Some(digest) {
            self.halts.forget_doubt();
        }
        if self.slot.claim(ask) {
            out.push_back(Command::Claim(id, digest, intent));
        }
        Some(digest)
    }

    fn give_back(&mut self, id: RuleId, out: &mut VecDeque<Command>) {
        if let Some(digest) = self.halts.take_works_after_all() {
            out.push_back(Command::ClearHalt(id, digest));
        }
        self.release(id, out);
    }

    fn release(&mut self, id: RuleId, out: &mut VecDeque<Command>) {
        self.halts.forget_known();
        if self.slot.release() {
            out.push_back(Command::Release(id));
        }
    }

    /// podnudge stops. If the pod may be out of its Services, another one must not follow at once: the slot
    /// is not given back, and expires.
    pub(crate) fn stop(
        &mut self,
        id: RuleId,
        rolled_out: Option<Digest>,
        out: &mut VecDeque<Command>,
    ) {
        if self.kept_for(rolled_out).is_none() {
            self.release(id, out);
        }
    }

    /// What the slot is kept for: the pod is out of its Services for the rollout, or recovers.
    fn kept_for(&self, rolled_out: Option<Digest>) -> Option<Digest> {
        self.used.kept_for().or(rolled_out.filter(|_| self.is_out()))
    }

    /// Why the rule has no slot, if that is known.
    pub(crate) fn reason(&self) -> Option<&Reason> {
        self.slot.reason()
    }

    pub(crate) fn status(&self, now: Moment) -> SlotStatus {
        let state = self.slot.state();
        let held = state.slot().filter(|_| state.is_held(now)).map(ToOwned::to_owned);
        let reason = self.reason().cloned().or_else(|| self.used.kept_because());
        SlotStatus { held, reason }
    }

    /// What to save of the slot. `sent`: the action that is being sent, which may have interrupted the application, and
    /// whether it needed the permission of the other replicas.
    pub(crate) fn saved(
        &self,
        sent: Option<(Digest, bool)>,
        policy: &PermitPolicy,
    ) -> Option<SavedSlot> {
        match sent.filter(|(_, is_limited)| self.is_kept_after(*is_limited, policy)) {
            Some((digest, _)) => Some(SavedSlot { digest, used: SavedUse::Interrupted }),
            None => self.used.saved(),
        }
    }

    /// Takes over the slot of an earlier podnudge.
    pub(crate) fn restore(&mut self, now: Moment, saved: Option<SavedSlot>, policy: &PermitPolicy) {
        if let Some(saved) = saved.filter(|_| policy.shares_actions()) {
            self.used = Use::restored(saved, now, policy.slot);
        }
    }
}

/// What failed, here or on another replica.
impl Permit {
    /// Records that content failed here: the other replicas are to be told.
    pub(crate) fn failed(&mut self, digest: Digest, reason: Reason) {
        self.halts.failed(digest, reason);
    }

    /// A person has this digest rolled out here.
    pub(crate) fn triggered(&mut self, digest: Digest) {
        self.halts.triggered(digest);
    }

    /// Records that a digest was rolled out.
    pub(crate) fn rolled_out(&mut self, digest: Digest) {
        self.halts.rolled_out(digest);
    }

    /// The other replicas know that this digest failed here.
    pub(crate) fn halt_written(&mut self, digest: Digest) {
        self.halts.remove_untold(digest);
    }

    /// Whether the other replicas are to be told something.
    pub(crate) fn has_untold_halts(&self) -> bool {
        self.halts.has_unsent()
    }

    /// What they are to be told now.
    pub(crate) fn take_untold_halts(&mut self) -> Vec<SavedHalt> {
        self.halts.take_unsent()
    }

    pub(crate) fn saved_halts(&self) -> Vec<SavedHalt> {
        self.halts.saved()
    }

    /// Takes over what an earlier podnudge has not told.
    pub(crate) fn restore_halts(&mut self, saved: Vec<SavedHalt>, policy: &PermitPolicy) {
        if policy.slot.is_some() {
            self.halts.restore(saved);
        }
    }
}

impl Wish {
    /// Whether a person has triggered the action for this content.
    fn is_triggered(&self, digest: Digest) -> bool {
        let is_candidate = self.candidate.is_some_and(|(of, _, is)| of == digest && is);
        let is_rollout = self.rollout.is_some_and(|(of, _)| of == digest);
        is_candidate || (is_rollout && self.is_rollout_triggered)
    }
}
