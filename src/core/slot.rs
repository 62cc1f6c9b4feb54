//! The slot of a rule: the right to act, which replicas share. The gate asks for it last. A rollout has or
//! asks for one exactly while an action is near, or may have interrupted the application; after that it is
//! kept until the pod is Ready again and has stayed healthy for `bake`.
//!
//! What is known of it comes from outside (`Event::Slot`), whenever it changes.

mod need;

use super::event::{PodLook, SlotState};
use super::looks::{Finding, Looks};
use super::memory::{SavedSlot, SavedUse};
use super::policy::SlotPolicy;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;
pub(super) use need::{Nearness, Need, Situation, need};

/// How many digests that failed on other replicas are remembered while a slot is wanted.
const MOST_HALTED: usize = 8;

/// Whether a rule may act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing<'a> {
    /// It may.
    Granted,
    /// It has to wait, for this reason if it is known.
    Wait(Option<&'a Reason>),
    /// It must not use this content, which failed on another replica.
    Halted(&'a Reason),
}

/// What the slot is for, besides an action that is near.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Use {
    #[default]
    Nothing,
    /// An action for this digest may have interrupted the application, and its rollout has not ended.
    Interrupted(Digest),
    /// Its rollout has ended.
    Kept(Kept),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    /// The digest that was acted with.
    digest: Digest,
    /// Whether the end of the target counts against it.
    is_on_trial: bool,
    until: Until,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Until {
    /// The pod is Ready.
    Ready(Looks),
    /// It has stayed healthy for long enough.
    Baked(Moment),
}

impl Until {
    fn ended(now: Moment, policy: SlotPolicy) -> Self {
        if policy.awaits_readiness {
            Self::Ready(Looks::new(now))
        } else {
            Self::Baked(now.after(policy.bake))
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    /// What it was asked for.
    claimed: Need,
    state: SlotState,
    /// The digests that failed on another replica, by the last answer about each.
    halted: Vec<(Digest, Reason)>,
    used: Use,
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
    /// Takes what an earlier podnudge has saved. `rolls_out`: its rollout continues.
    pub(super) fn restored(
        saved: SavedSlot,
        rolls_out: bool,
        now: Moment,
        policy: SlotPolicy,
    ) -> Self {
        let SavedSlot { digest, used } = saved;
        let kept = |is_on_trial, until| Use::Kept(Kept { digest, is_on_trial, until });
        let used = match used {
            SavedUse::Interrupted if rolls_out => Use::Interrupted(digest),
            SavedUse::Interrupted => kept(false, Until::ended(now, policy)),
            SavedUse::UntilReady { is_on_trial } => kept(is_on_trial, Until::ended(now, policy)),
            SavedUse::UntilBaked { is_on_trial, at } => {
                kept(is_on_trial, Until::Baked(at.min(now.after(policy.bake))))
            }
        };
        Self { used, ..Self::default() }
    }

    /// What to save of it.
    pub(super) fn saved(&self) -> Option<SavedSlot> {
        match &self.used {
            Use::Nothing => None,
            Use::Interrupted(digest) => {
                Some(SavedSlot { digest: *digest, used: SavedUse::Interrupted })
            }
            Use::Kept(Kept { digest, is_on_trial, until }) => {
                let is_on_trial = *is_on_trial;
                let used = match until {
                    Until::Ready(_) => SavedUse::UntilReady { is_on_trial },
                    Until::Baked(at) => SavedUse::UntilBaked { is_on_trial, at: *at },
                };
                Some(SavedSlot { digest: *digest, used })
            }
        }
    }

    /// Asks for a slot for this need. Returns whether that has to be sent.
    pub(super) fn claim(&mut self, need: Need) -> bool {
        let before = std::mem::replace(&mut self.claimed, need);
        let digest = |need: Need| need.claim().map(|(digest, _)| digest);
        if digest(before) != digest(need) {
            self.doubted = None;
        }
        // What is known is of the claim before; but any slot can be kept.
        if before == Need::None || (before != need && matches!(need, Need::Act(_))) {
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
        match &self.state {
            state if state.is_held(now) => Standing::Granted,
            SlotState::Unreachable(_) if policy.acts_when_unreachable => Standing::Granted,
            SlotState::Halted(..) => Standing::Wait(None),
            _ => Standing::Wait(self.reason()),
        }
    }

    /// When an action for this digest must have begun, if it needs the slot.
    pub(super) fn act_before(&self, digest: Digest) -> Option<Moment> {
        match &self.state {
            SlotState::Held { until, .. } if self.claimed_to_act() == Some(digest) => Some(*until),
            _ => None,
        }
    }

    /// An action for this digest may have interrupted the application. What needed no slot keeps none.
    pub(super) fn acted(&mut self, digest: Digest) {
        if self.claimed != Need::None {
            self.used = Use::Interrupted(digest);
        }
    }

    /// The action was not sent after all.
    pub(super) fn not_acted(&mut self) {
        if let Use::Interrupted(_) = self.used {
            self.used = Use::Nothing;
        }
    }

    /// The digest of the rollout that may have interrupted the application, and has not ended.
    pub(super) fn interrupted_by(&self) -> Option<Digest> {
        match self.used {
            Use::Interrupted(digest) => Some(digest),
            Use::Nothing | Use::Kept(_) => None,
        }
    }

    /// The pod was out of its Services, and nothing was sent: the slot is kept until it is back.
    pub(super) fn keep_until_ready(&mut self, now: Moment, policy: SlotPolicy) {
        if let (Use::Nothing, Some((digest, _))) = (&self.used, self.claimed.claim()) {
            let (is_on_trial, until) = (false, Until::ended(now, policy));
            self.used = Use::Kept(Kept { digest, is_on_trial, until });
        }
    }

    /// That rollout has ended. `applied`: the digest that the application runs since.
    pub(super) fn end(&mut self, now: Moment, applied: Option<Digest>, policy: SlotPolicy) {
        if let Use::Interrupted(digest) = self.used {
            let (is_on_trial, until) = (applied == Some(digest), Until::ended(now, policy));
            self.used = Use::Kept(Kept { digest, is_on_trial, until });
        }
    }

    /// The digest of the action from which the application recovers.
    pub(super) fn recovers_from(&self) -> Option<Digest> {
        match &self.used {
            Use::Nothing => None,
            Use::Interrupted(digest) | Use::Kept(Kept { digest, .. }) => Some(*digest),
        }
    }

    /// The digest against which it counts if the target ends now.
    pub(super) fn on_trial(&self) -> Option<Digest> {
        match &self.used {
            Use::Kept(Kept { digest, is_on_trial: true, .. }) => Some(*digest),
            _ => None,
        }
    }

    /// The look whether the pod is Ready that is to begin now, if one is due: the one after `last`.
    pub(super) fn take_look(&mut self, now: Moment, last: &mut u32) -> Option<u32> {
        match &mut self.used {
            Use::Kept(Kept { until: Until::Ready(looks), .. }) => looks.take_due(now, last),
            _ => None,
        }
    }

    /// Takes the answer to a look; `share` differs between replicas. Returns why it will not be known whether
    /// the pod is Ready, if so: then the slot is not kept for it.
    pub(super) fn looked(
        &mut self,
        now: Moment,
        number: u32,
        look: PodLook,
        share: u32,
        policy: SlotPolicy,
    ) -> Option<Reason> {
        let Use::Kept(Kept { until, .. }) = &mut self.used else { return None };
        let Until::Ready(looks) = until else { return None };
        if !looks.awaits(number) {
            return None;
        }
        let unknown = match looks.answered(now, look, share, policy.patience) {
            Finding::LookAgain => return None,
            Finding::Yes => None,
            Finding::Unknown(reason) => Some(reason),
        };
        *until = Until::Baked(now.after(policy.bake));
        unknown
    }

    /// Ends the bake if its time is over.
    pub(super) fn end_bake(&mut self, now: Moment) {
        if let Use::Kept(Kept { until: Until::Baked(until), .. }) = &self.used
            && *until <= now
        {
            self.used = Use::Nothing;
        }
    }

    /// Why it is kept after an action, if so.
    pub(super) fn kept_because(&self) -> Option<Reason> {
        let Use::Kept(Kept { until, .. }) = &self.used else { return None };
        Some(match until {
            Until::Ready(looks) => not_serving(looks.reason()),
            Until::Baked(_) => Reason::new("keeps its slot for `bake`"),
        })
    }

    /// When there is something to do without an event.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match &self.used {
            Use::Kept(Kept { until: Until::Ready(looks), .. }) => looks.next(),
            Use::Kept(Kept { until: Until::Baked(until), .. }) => Some(*until),
            Use::Nothing | Use::Interrupted(_) => None,
        }
    }

    /// Gives it back, or stops waiting. Returns whether that has to be sent.
    pub(super) fn release(&mut self) -> bool {
        (self.state, self.halted, self.doubted) = (SlotState::Free, Vec::new(), None);
        std::mem::take(&mut self.claimed) != Need::None
    }
}

/// Why the slot is kept: the pod does not serve again, for this reason.
fn not_serving(reason: Option<&Reason>) -> Reason {
    let until = "keeps its slot until the pod serves again";
    match reason {
        Some(Reason { message, hint }) => {
            Reason { message: format!("{until}: {message}"), hint: hint.clone() }
        }
        None => Reason::new(until),
    }
}
