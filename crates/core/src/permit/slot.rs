//! The slot of a rule: the right to act, which replicas share. The gate asks for it last. A rollout has or
//! asks for one exactly while an action is near, or may have interrupted the application; after that it is
//! kept until the pod is Ready again and has stayed healthy for `bake`.
//!
//! What is known of it comes from outside (`Event::Slot`), whenever it changes.

use super::need::Need;
use crate::clock::Moment;
use crate::event::SlotState;
use crate::policy::SlotPolicy;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// How many digests that failed on other replicas are remembered while a slot is wanted.
const MOST_HALTED: usize = 8;

/// Whether a rule may act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing<'a> {
    /// It may.
    Granted,
    /// It has to wait, for this reason if it is known.
    Wait(Option<&'a Reason>),
    /// It must not use this content, which failed on another replica.
    Halted(&'a Reason),
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    /// What it was asked for.
    claimed: Need,
    state: SlotState,
    /// The digests that failed on another replica, by the last answer about each.
    halted: Vec<(Digest, Reason)>,
    /// Content that failed on a replica.
    doubted: Option<(Digest, Doubt)>,
}

/// What is known of content that failed on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// It failed here. That the application runs again does not mean that it works: it may end again.
    Failed,
    /// A person has it tried here.
    Tried,
    /// It was rolled out here after that, and has not failed since.
    Works,
}

impl Slot {
    /// Asks for a slot for this need. Returns whether that has to be sent.
    pub(super) fn claim(&mut self, need: Need) -> bool {
        let before = std::mem::replace(&mut self.claimed, need);
        let digest = |need: Need| need.claim().map(|(digest, _)| digest);
        if digest(before) != digest(need) {
            self.doubted = None;
        }
        // What is known is of the claim before; but any slot can be kept, whatever failed.
        let is_halted = matches!(self.state, SlotState::Halted(..));
        let is_other = before != need && (matches!(need, Need::Act(_)) || is_halted);
        if before == Need::None || is_other {
            self.state = SlotState::Free;
        }
        before != need
    }

    /// A person wants this digest although it failed on another replica.
    pub(super) fn try_halted(&mut self, digest: Digest) {
        self.halted.retain(|(halted, _)| *halted != digest);
        self.state = SlotState::Free;
        self.doubted = Some((digest, Doubt::Tried));
    }

    /// This digest failed.
    pub(super) fn failed(&mut self, digest: Digest) {
        self.doubted = Some((digest, Doubt::Failed));
    }

    /// A person has this digest rolled out here.
    pub(super) fn triggered(&mut self, digest: Digest) {
        if self.doubted == Some((digest, Doubt::Failed)) {
            self.doubted = Some((digest, Doubt::Tried));
        }
    }

    /// This digest was rolled out.
    pub(super) fn rolled_out(&mut self, digest: Digest) {
        if self.doubted == Some((digest, Doubt::Tried)) {
            self.doubted = Some((digest, Doubt::Works));
        }
    }

    /// The digest that failed and works after all.
    pub(super) fn works_after_all(&self) -> Option<Digest> {
        self.doubted.filter(|(_, doubt)| *doubt == Doubt::Works).map(|(digest, _)| digest)
    }

    /// Takes what is known of it now.
    pub(super) fn told(&mut self, state: SlotState) {
        let told_of = match &state {
            SlotState::Halted(digest, _) => Some(*digest),
            // Only whoever wants to act is told that a digest failed.
            _ => self.claimed_to_act(),
        };
        self.halted.retain(|(digest, _)| Some(*digest) != told_of);
        if let SlotState::Halted(digest, reason) = &state {
            self.halted.push((*digest, reason.clone()));
            self.halted.drain(..self.halted.len().saturating_sub(MOST_HALTED));
        }
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
    pub(super) fn claimed(&self) -> Need {
        self.claimed
    }

    fn claimed_to_act(&self) -> Option<Digest> {
        match self.claimed {
            Need::Act(digest) => Some(digest),
            Need::None | Need::Keep(_) => None,
        }
    }

    /// Whether this digest is known to have failed on another replica.
    pub(super) fn is_halted(&self, digest: Digest) -> bool {
        self.halt_of(digest).is_some()
    }

    fn halt_of(&self, digest: Digest) -> Option<&Reason> {
        self.halted.iter().find(|(halted, _)| *halted == digest).map(|(_, reason)| reason)
    }

    /// Whether the rule may roll out this digest at `now`.
    pub(super) fn standing(&self, now: Moment, digest: Digest, policy: SlotPolicy) -> Standing<'_> {
        if let Some(reason) = self.halt_of(digest) {
            return Standing::Halted(reason);
        }
        if self.claimed_to_act() != Some(digest) {
            return Standing::Wait(None);
        }
        self.standing_of_known_good(now, policy)
    }

    /// Whether the rule may act with content that was good here before, and that no halt concerns.
    pub(super) fn standing_of_known_good(&self, now: Moment, policy: SlotPolicy) -> Standing<'_> {
        match &self.state {
            _ if self.claimed == Need::None => Standing::Wait(None),
            state if state.is_held(now) => Standing::Granted,
            SlotState::Unreachable(_) if policy.acts_when_unreachable => Standing::Granted,
            SlotState::Halted(..) => Standing::Wait(None),
            _ => Standing::Wait(self.reason()),
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
        (self.state, self.halted, self.doubted) = (SlotState::Free, Vec::new(), None);
        std::mem::take(&mut self.claimed) != Need::None
    }
}
