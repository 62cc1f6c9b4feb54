//! Which keys an action is about, for the programs that it runs: those that differ from what the
//! application was last known to run.

use std::collections::{BTreeMap, BTreeSet};

use super::delivery::Attempt;
use super::event::VolumeId;
use super::rule::Rule;
use crate::volume::snapshot::{Digest, Key};

/// All keys of a rule's volumes.
pub(super) type Keys = BTreeMap<(VolumeId, Key), Digest>;

/// The keys of the digests that an action may be between.
#[derive(Debug, Default)]
pub(super) struct Known {
    keys: BTreeMap<Digest, Keys>,
    /// What the application was last known to run.
    base: Option<Digest>,
}

impl Rule {
    /// Remembers the keys that were found on disk.
    pub(super) fn note_keys(&mut self, on_disk: Digest) {
        if !self.policy.tells_changes {
            return;
        }
        self.known.base = self.running.or(self.known.base);
        let delivered = self.phase.attempt().map(|attempt| attempt.disk.digest);
        let needed = [self.known.base, delivered, Some(on_disk)];
        self.known.keys.retain(|digest, _| needed.contains(&Some(*digest)));
        let look = &self.look;
        self.known.keys.entry(on_disk).or_insert_with(|| look.keys());
    }

    /// The keys that differ, as far as both sides are known. Before anything is known to run, all
    /// of them; in a roll-back, those of what is taken back.
    pub(super) fn changed_keys(&self, attempt: &Attempt) -> BTreeSet<Key> {
        let none = Keys::new();
        let base = self.running.or(self.known.base);
        let old = base.and_then(|digest| self.known.keys.get(&digest)).unwrap_or(&none);
        let new = self.known.keys.get(&attempt.disk.digest).unwrap_or(&none);
        let differs = |(key, digest): &(&(VolumeId, Key), &Digest), other: &Keys| {
            other.get(*key) != Some(*digest)
        };
        let changed = new.iter().filter(|one| differs(one, old));
        let removed = old.iter().filter(|one| differs(one, new));
        changed.chain(removed).map(|((_, key), _)| key.clone()).collect()
    }
}
