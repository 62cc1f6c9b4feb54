//! The slot of a rule: the right to act, which replicas share. The gate asks for it last. A rollout has or
//! asks for one exactly while an action is near, or may have interrupted the application; after that it is
//! kept until the pod is Ready again and has stayed healthy for `bake`.
//!
//! What is known of it comes from outside (`Event::Slot`), whenever it changes.

use super::answer::Answer;
use super::ask::Ask;
use crate::clock::Moment;
use crate::event::SlotState;
use crate::policy::SlotPolicy;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// What was asked for, and what is known of it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    claimed: Ask,
    state: SlotState,
}

impl Slot {
    /// Asks for a slot. Returns whether that has to be sent.
    pub(super) fn claim(&mut self, ask: Ask) -> bool {
        let before = std::mem::replace(&mut self.claimed, ask);
        // What is known is of the claim before; but any slot can be kept, whatever failed.
        let is_halted = matches!(self.state, SlotState::Halted(..));
        let is_other = before != ask && (matches!(ask, Ask::Act(_)) || is_halted);
        if before == Ask::Nothing || is_other {
            self.forget_state();
        }
        before != ask
    }

    /// Forgets what is known, because it is not so any more.
    pub(super) fn forget_state(&mut self) {
        self.state = SlotState::Free;
    }

    /// Takes what is known of it now.
    pub(super) fn told(&mut self, state: SlotState) {
        self.state = state;
    }

    pub(super) fn state(&self) -> &SlotState {
        &self.state
    }

    /// Why the rule has none, if that is known.
    pub(super) fn reason(&self) -> Option<&Reason> {
        match &self.state {
            SlotState::Waiting(reason)
            | SlotState::Halted(_, reason)
            | SlotState::Unreachable(reason)
            | SlotState::Lost(reason) => Some(reason),
            SlotState::Free | SlotState::Held { .. } => None,
        }
    }

    /// What it was asked for.
    pub(super) fn claimed(&self) -> Ask {
        self.claimed
    }

    /// The digest that it was asked for to act with.
    pub(super) fn claimed_to_act(&self) -> Option<Digest> {
        match self.claimed {
            Ask::Act(digest) => Some(digest),
            Ask::Nothing | Ask::Recover(_) => None,
        }
    }

    /// Whether the rule may roll out this digest at `now`, which has not failed elsewhere.
    pub(super) fn answer(&self, now: Moment, digest: Digest, policy: SlotPolicy) -> Answer<'_> {
        if self.claimed_to_act() != Some(digest) {
            return Answer::Wait(None);
        }
        self.answer_for_known_good(now, policy)
    }

    /// Whether the rule may act with content that was good here before, and that no halt concerns.
    pub(super) fn answer_for_known_good(&self, now: Moment, policy: SlotPolicy) -> Answer<'_> {
        match &self.state {
            _ if self.claimed == Ask::Nothing => Answer::Wait(None),
            state if state.is_held(now) => Answer::Go,
            SlotState::Unreachable(_) if policy.acts_when_unreachable => Answer::Go,
            SlotState::Halted(..) => Answer::Wait(None),
            _ => Answer::Wait(self.reason()),
        }
    }

    /// When an action that needs the slot must have begun.
    pub(super) fn act_before(&self) -> Option<Moment> {
        match &self.state {
            SlotState::Held { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Gives it back, or stops waiting. Returns whether that has to be sent.
    pub(super) fn release(&mut self) -> bool {
        self.forget_state();
        std::mem::take(&mut self.claimed) != Ask::Nothing
    }
}
