//! The slot of a rule: the right to act, which replicas share. The gate asks for it last, a rollout
//! holds it from its begin to its outcome, and after an action it is kept until the pod is Ready again
//! and has stayed healthy for `bake`.
//!
//! What is known of it comes from outside (`Event::Slot`), whenever it changes.

use std::time::Duration;

use super::event::SlotState;
use super::policy::SlotPolicy;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// How often to look whether the pod is Ready.
const READY_POLL: Duration = Duration::from_secs(1);

/// Whether a rule may act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing<'a> {
    /// It may.
    Granted,
    /// It has to wait, for this reason if it is known.
    Wait(Option<&'a Reason>),
}

/// Why a slot is kept after an action.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    /// Until the pod is Ready. Look at this time; `None` while looking.
    ForReadiness { next_look: Option<Moment>, reason: Option<Reason> },
    /// Until it has stayed healthy for long enough.
    ToBake(Moment),
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The digest it was asked for; `None` if it was not, or was given back.
    claimed: Option<Digest>,
    state: SlotState,
    /// The digest of the rollout that holds it.
    used_for: Option<Digest>,
    /// That rollout has acted: the application may be interrupted.
    has_acted: bool,
    /// That rollout was begun by an earlier podnudge, and waits for the slot to continue.
    is_resumed: bool,
    kept: Option<Kept>,
}

impl Slot {
    /// Asks for a slot to roll out this digest. Returns whether that has to be sent.
    pub(super) fn claim(&mut self, digest: Digest) -> bool {
        let is_new = self.claimed != Some(digest);
        if is_new {
            self.claimed = Some(digest);
            // What is known is of the digest before: a halt does not concern this one.
            self.state = SlotState::Free;
        }
        is_new
    }

    /// Takes what is known of it now.
    pub(super) fn told(&mut self, state: SlotState) {
        self.is_resumed &= !matches!(state, SlotState::Held { .. });
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

    /// Whether it was asked for and not given back.
    pub(super) fn is_claimed(&self) -> bool {
        self.claimed.is_some()
    }

    /// Whether this digest is known to have failed on another replica.
    pub(super) fn is_halted(&self, digest: Digest) -> bool {
        matches!(&self.state, SlotState::Halted(halted, _) if *halted == digest)
    }

    /// Whether the rule may roll out this digest.
    pub(super) fn standing(&self, digest: Digest, policy: SlotPolicy) -> Standing<'_> {
        if self.claimed != Some(digest) {
            return Standing::Wait(None);
        }
        match &self.state {
            SlotState::Held { .. } => Standing::Granted,
            SlotState::Unreachable(_) if policy.acts_when_unreachable => Standing::Granted,
            SlotState::Halted(halted, _) if *halted != digest => Standing::Wait(None),
            _ => Standing::Wait(self.reason()),
        }
    }

    /// A rollout of this digest begins with it.
    pub(super) fn begin(&mut self, digest: Digest) {
        // Newer content may supersede a rollout that has acted, or follow it.
        self.has_acted = (self.has_acted && self.used_for.is_some()) || self.kept.is_some();
        (self.used_for, self.kept) = (Some(digest), None);
    }

    /// Continues a rollout that an earlier podnudge began, and that may have interrupted the application.
    pub(super) fn resume(&mut self, digest: Digest) {
        (self.used_for, self.has_acted, self.is_resumed) = (Some(digest), true, true);
    }

    /// Whether a rollout that was begun by an earlier podnudge has to wait for the slot.
    pub(super) fn delays_resumed(&self, policy: SlotPolicy) -> bool {
        let digest = self.used_for.filter(|_| self.is_resumed);
        digest.is_some_and(|digest| self.standing(digest, policy) != Standing::Granted)
    }

    /// The application may be interrupted from now on.
    pub(super) fn acted(&mut self) {
        self.has_acted |= self.used_for.is_some();
    }

    /// Whether the rollout that began with it has acted.
    pub(super) fn has_acted(&self) -> bool {
        self.has_acted
    }

    /// The digest of the rollout that began with it.
    pub(super) fn used_for(&self) -> Option<Digest> {
        self.used_for
    }

    /// The rollout that began with it has ended.
    pub(super) fn end(&mut self, now: Moment, policy: SlotPolicy) {
        self.is_resumed = false;
        if self.used_for.take().is_some() && std::mem::take(&mut self.has_acted) {
            self.kept = Some(if policy.awaits_readiness {
                Kept::ForReadiness { next_look: Some(now), reason: None }
            } else {
                Kept::ToBake(now.after(policy.bake))
            });
        }
    }

    /// Whether it is kept after an action, which counts against the content if the target ends now.
    pub(super) fn is_baking(&self) -> bool {
        self.kept.is_some()
    }

    /// Begins to look whether the pod is Ready, if that is due. Returns whether it is.
    pub(super) fn take_look(&mut self, now: Moment) -> bool {
        match &mut self.kept {
            Some(Kept::ForReadiness { next_look, .. }) if next_look.is_some_and(|at| at <= now) => {
                *next_look = None;
                true
            }
            _ => false,
        }
    }

    /// The pod is Ready, or is not, for this reason.
    pub(super) fn looked(&mut self, now: Moment, not_ready: Option<Reason>, policy: SlotPolicy) {
        let Some(kept @ Kept::ForReadiness { .. }) = &mut self.kept else { return };
        *kept = match not_ready {
            Some(_) => {
                Kept::ForReadiness { next_look: Some(now.after(READY_POLL)), reason: not_ready }
            }
            None => Kept::ToBake(now.after(policy.bake)),
        };
    }

    /// Ends the bake if its time is over, also where the slot is kept for newer content.
    pub(super) fn end_bake(&mut self, now: Moment) {
        self.kept.take_if(|kept| matches!(kept, Kept::ToBake(until) if *until <= now));
    }

    /// Why it is kept after an action, if so.
    pub(super) fn kept_because(&self) -> Option<Reason> {
        match self.kept.as_ref()? {
            Kept::ForReadiness { reason, .. } => Some(match reason {
                Some(Reason { message, hint }) => Reason {
                    message: format!("keeps its slot until the pod is Ready: {message}"),
                    hint: hint.clone(),
                },
                None => Reason::new("keeps its slot until the pod is Ready"),
            }),
            Kept::ToBake(_) => Some(Reason::new("keeps its slot for `bake`")),
        }
    }

    /// When there is something to do without an event.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match &self.kept {
            Some(Kept::ForReadiness { next_look, .. }) => *next_look,
            Some(Kept::ToBake(until)) => Some(*until),
            None => None,
        }
    }

    /// Gives it back, or stops waiting. Returns whether that has to be sent.
    pub(super) fn release(&mut self) -> bool {
        self.kept = None;
        self.state = SlotState::Free;
        self.claimed.take().is_some()
    }
}
