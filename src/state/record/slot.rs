//! What a slot is kept for, in a state file. Pure.

use serde::{Deserialize, Serialize};

use super::millis;
use podnudge_core::clock::Moment;
use podnudge_core::memory::{SavedSlot, SavedUse};
use podnudge_core::snapshot::Digest;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct SlotRecord {
    digest: Digest,
    used: SlotUse,
    #[serde(default)]
    is_on_trial: bool,
    /// The end of `bake`.
    #[serde(default)]
    baked_at: Option<u64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SlotUse {
    Interrupted,
    /// Until the end of `bake`, if that is known, and otherwise until the pod is Ready.
    Kept,
    /// Until the pod is in its Services again. Nothing was sent.
    Drained,
}

impl SlotRecord {
    pub(super) fn of(SavedSlot { digest, used }: SavedSlot) -> Self {
        let kept = |is_on_trial, at: Option<Moment>| {
            let baked_at = at.map(|at| millis(at.0));
            Self { digest, used: SlotUse::Kept, is_on_trial, baked_at }
        };
        match used {
            SavedUse::Interrupted => Self { used: SlotUse::Interrupted, ..kept(false, None) },
            SavedUse::UntilServing => Self { used: SlotUse::Drained, ..kept(false, None) },
            SavedUse::UntilReady { is_on_trial } => kept(is_on_trial, None),
            SavedUse::UntilBaked { is_on_trial, at } => kept(is_on_trial, Some(at)),
        }
    }

    pub(super) fn into_saved(self, moment: impl Fn(u64) -> Moment) -> SavedSlot {
        let is_on_trial = self.is_on_trial;
        let used = match (self.used, self.baked_at) {
            (SlotUse::Interrupted, _) => SavedUse::Interrupted,
            (SlotUse::Drained, _) => SavedUse::UntilServing,
            (SlotUse::Kept, None) => SavedUse::UntilReady { is_on_trial },
            (SlotUse::Kept, Some(at)) => SavedUse::UntilBaked { is_on_trial, at: moment(at) },
        };
        SavedSlot { digest: self.digest, used }
    }
}
