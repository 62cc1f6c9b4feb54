//! What a rule remembers across a restart of podnudge. `state/mod.rs` keeps it in the state directory. Pure.
//!
//! Times are moments: `state/record.rs` translates them if the machine was booted since.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::kubelet::Ends;
use crate::clock::{Moment, UnixTime};
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The state of a rule that podnudge saves across a restart of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Memory {
    /// What the application ran.
    pub known: Known,
    /// The restarts that the restart budget counts, the oldest first.
    pub restarts: Vec<Moment>,
    /// When the last action took place, for `min-interval`.
    pub last_action: Option<Moment>,
    /// The content on which podnudge does not act again.
    pub failed: Option<Failed>,
    /// The rollout in progress.
    pub rollout: Option<SavedRollout>,
    /// How often the target's container has ended, for the kubelet's back-off.
    pub ends: Ends,
    /// What the slot is kept for, where replicas share slots.
    pub slot: Option<SavedSlot>,
    /// What the other replicas are still to be told, the oldest first, where replicas share slots.
    pub halts: Vec<SavedHalt>,
    /// Since when the pod has been out of its Services, for the rollout in progress.
    pub drained_since: Option<Moment>,
    /// The UID of the pod that this is about, for a rule that evicts it.
    pub pod: Option<String>,
    /// Until when a person has paused the rule.
    pub paused_until: Option<Moment>,
}

impl Memory {
    /// The most restarts that are remembered: as many as a budget may allow.
    pub const MOST_RESTARTS: usize = 1000;
    /// The most halts that are remembered, wait to be written, or are named by the first Lease.
    pub const MOST_HALTS: usize = 8;

    /// All times, to be translated if the machine was booted since.
    pub fn moments_mut(&mut self) -> impl Iterator<Item = &mut Moment> {
        self.moments_and_reasons().0
    }

    /// All texts, which another process may have written.
    pub fn reasons_mut(&mut self) -> impl Iterator<Item = &mut Reason> {
        self.moments_and_reasons().1
    }

    /// Names all fields, as the same for a rollout does: the compiler asks about each new one.
    fn moments_and_reasons(
        &mut self,
    ) -> (impl Iterator<Item = &mut Moment>, impl Iterator<Item = &mut Reason>) {
        let Self {
            known: Known { running: _, evidence: _, at: _ },
            restarts,
            last_action,
            failed,
            rollout,
            ends: Ends { count, start },
            slot,
            halts,
            drained_since,
            pod: _,
            paused_until,
        } = self;
        let rollout = rollout.as_mut().map(SavedRollout::moments_and_reasons);
        let (of_rollout, why_rollout): (Option<_>, Option<_>) = rollout.unzip();
        let baked = slot.as_mut().and_then(SavedSlot::baked_at_mut);
        let single = [last_action.as_mut(), drained_since.as_mut(), baked, paused_until.as_mut()];
        let moments = restarts.iter_mut().chain(single.into_iter().flatten());
        let moments = moments.chain(of_rollout.into_iter().flatten());
        let failed = failed.iter_mut().map(|Failed { digest: _, rolled_out: _, reason }| reason);
        let halts = halts.iter_mut().map(|SavedHalt { digest: _, reason }| reason);
        let reasons = halts.chain(failed).chain(why_rollout.into_iter().flatten());
        (moments.chain((*count > 0).then_some(start)), reasons)
    }

    /// What holds in another pod, in the place of that which saved it: the application there has started since, and
    /// has read at its start what was rolled out.
    #[must_use]
    pub(super) fn in_new_pod(self) -> Self {
        let Self { restarts, last_action, rollout, slot, pod, paused_until, .. } = self;
        let rollout = rollout.map(SavedRollout::in_new_pod);
        Self { restarts, last_action, rollout, slot, pod, paused_until, ..Self::default() }
    }

    /// What the application ran; `None` if that was never known, because podnudge published.
    pub(super) fn known(&self) -> Option<Known> {
        Some(self.known).filter(|known| *known != Known::default())
    }
}

/// What the application ran, where it reads the volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The digest; `None` if an action was pending.
    pub running: Option<Digest>,
    /// How podnudge knew that.
    pub evidence: Evidence,
    /// When that was the case.
    #[serde(with = "seconds")]
    pub at: UnixTime,
}

/// Content that podnudge gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Failed {
    /// The digest on disk; when it changes, this no longer applies.
    pub digest: Digest,
    /// The digest that was rolled out: another one if `digest` was being rolled back.
    pub rolled_out: Digest,
    /// The last failure.
    pub reason: Reason,
}

/// A rollout that has begun: its content may have reached the application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct SavedRollout {
    /// The digest to apply.
    pub digest: Digest,
    /// The content that it rolls back, if it is a rollback.
    pub back: Option<SavedRollback>,
    /// The current attempt, or the one that has failed; from 1.
    pub attempt: u32,
    /// Whether a person triggered it.
    #[serde(default)]
    pub is_triggered: bool,
    /// Whether the attempt restarts the target instead of running the rule's actions.
    #[serde(default)]
    pub is_restart: bool,
    /// Whether there is evidence against the content.
    #[serde(default)]
    pub is_suspect: bool,
    /// When podnudge began to end the target, if it did and the outcome was not known yet. Saved before the
    /// target is ended.
    pub restart_began: Option<Moment>,
    /// How often podnudge has ended for this attempt, so that the kubelet restarts the pod. Saved before it ends.
    #[serde(default)]
    pub pod_ends: u32,
    /// Whether the pod was replaced since by another one, which is only to be verified.
    #[serde(default)]
    pub is_in_new_pod: bool,
    /// The time of the next attempt, if this one has failed.
    pub retry_at: Option<Moment>,
    /// Why nothing more is sent, if the target ended just after an action.
    pub tripped: Option<Reason>,
}

impl SavedRollout {
    fn moments_and_reasons(
        &mut self,
    ) -> (impl Iterator<Item = &mut Moment>, impl Iterator<Item = &mut Reason>) {
        let Self {
            digest: _,
            back,
            attempt: _,
            is_triggered: _,
            is_restart: _,
            is_suspect: _,
            restart_began,
            pod_ends: _,
            is_in_new_pod: _,
            retry_at,
            tripped,
        } = self;
        let back =
            back.iter_mut().map(|SavedRollback { failed: _, after_restart: _, reason }| reason);
        (restart_began.iter_mut().chain(retry_at), back.chain(tripped))
    }

    fn in_new_pod(self) -> Self {
        Self {
            digest: self.digest,
            back: self.back,
            attempt: 1,
            is_triggered: false,
            is_restart: false,
            is_suspect: self.is_suspect,
            restart_began: None,
            pod_ends: 0,
            is_in_new_pod: true,
            retry_at: None,
            tripped: None,
        }
    }

    /// Whether it is a rollback that belongs to a restart of the target, which the budget has counted.
    pub(super) fn is_after_restart(&self) -> bool {
        self.back.as_ref().is_some_and(|back| back.after_restart)
    }
}

/// A slot that is kept because of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavedSlot {
    /// The digest that was acted with.
    pub digest: Digest,
    /// What it is kept for.
    pub used: SavedUse,
}

/// What a slot is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum SavedUse {
    /// The rollout in progress may have interrupted the application.
    Interrupted,
    /// The rollout has ended, and the pod was not seen Ready.
    UntilReady {
        /// Whether the end of the target counts against the content.
        is_on_trial: bool,
    },
    /// The pod was taken out of its Services for an action that was not sent, and was not seen in them again.
    UntilServing,
    /// The pod must stay healthy until this time.
    UntilBaked {
        /// Whether the end of the target counts against the content.
        is_on_trial: bool,
        /// The end of `bake`.
        at: Moment,
    },
}

impl SavedSlot {
    fn baked_at_mut(&mut self) -> Option<&mut Moment> {
        match &mut self.used {
            SavedUse::UntilBaked { is_on_trial: _, at } => Some(at),
            SavedUse::Interrupted
            | SavedUse::UntilReady { is_on_trial: _ }
            | SavedUse::UntilServing => None,
        }
    }
}

/// Content that failed here, which the other replicas may not know yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavedHalt {
    /// The digest of the content.
    pub digest: Digest,
    /// Why it failed.
    pub reason: Reason,
}

/// The content that a rollout rolls back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavedRollback {
    /// The digest of the content that failed.
    pub failed: Digest,
    /// Whether the target was restarted with it.
    pub after_restart: bool,
    /// Why it is rolled back.
    pub reason: Reason,
}

/// A wall time as seconds since the Unix epoch, exact enough to be compared with the times of files.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{Duration, UnixTime};

    pub(super) fn serialize<S: Serializer>(at: &UnixTime, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(at.0.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UnixTime, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map(UnixTime).map_err(D::Error::custom)
    }
}
