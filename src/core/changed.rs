//! Which keys an action is about, for the programs that it runs: those that differ from what the
//! application was last known to run.

use std::collections::BTreeMap;

use super::delivery::Attempt;
use super::rule::Rule;
use crate::volume::snapshot::{Digest, Key};

/// The keys of a volume.
pub(super) type Keys = BTreeMap<Key, Digest>;

/// The keys of the digests that an action may be between.
#[derive(Debug, Default)]
pub(super) struct Known {
    keys: Vec<(Digest, Vec<Keys>)>,
    /// What the application was last known to run.
    base: Option<Digest>,
    /// The keys of all that it was told of since.
    told: Vec<Key>,
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
        self.known.keys.retain(|(digest, _)| needed.contains(&Some(*digest)));
        if self.known.of(Some(on_disk)).is_empty() {
            self.known.keys.push((on_disk, self.look.keys()));
        }
    }

    /// The keys that differ, as far as both sides are known, and those that may differ since
    /// something was tried. Before anything is known to run, all of them; in a roll-back, those of
    /// what is taken back.
    pub(super) fn changed_keys(&mut self, attempt: &Attempt) -> Vec<Key> {
        let old = self.known.of(self.running.or(self.known.base));
        let new = self.known.of(Some(attempt.disk.digest));
        let mut changed = [missing(new, old), missing(old, new)].concat();
        if self.running.is_none() {
            changed.extend(self.known.told.iter().cloned());
        }
        changed.sort();
        changed.dedup();
        self.known.told.clone_from(&changed);
        changed
    }
}

impl Known {
    /// The keys of a digest, volume by volume.
    fn of(&self, digest: Option<Digest>) -> &[Keys] {
        let known = self.keys.iter().find(|(known, _)| Some(*known) == digest);
        known.map(|(_, keys)| keys.as_slice()).unwrap_or_default()
    }
}

/// What one side has and the other has not like this.
fn missing(one: &[Keys], other: &[Keys]) -> Vec<Key> {
    let mut missing = Vec::new();
    for (n, keys) in one.iter().enumerate() {
        let there = other.get(n);
        let differs =
            |(key, digest): &(&Key, &Digest)| there.and_then(|keys| keys.get(key)) != Some(*digest);
        missing.extend(keys.iter().filter(differs).map(|(key, _)| key.clone()));
    }
    missing
}
