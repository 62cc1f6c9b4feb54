//! Which keys an action is about, for the programs that it runs: those that differ from what the
//! application was last known to run.

use std::collections::BTreeMap;

use crate::volume::snapshot::{Digest, Key};

/// The keys of a volume.
pub(super) type Keys = BTreeMap<Key, Digest>;

/// The keys of the digests that an action may be between.
#[derive(Debug, Default)]
pub(super) struct ChangedKeys {
    keys: Vec<(Digest, Vec<Keys>)>,
    /// What the application was last known to run.
    base: Option<Digest>,
    /// The keys of all that it was told of since.
    told: Vec<Key>,
}

impl ChangedKeys {
    /// Keeps the keys that were found on disk, beside those of what the application runs and of what
    /// is being rolled out.
    pub(super) fn found(
        &mut self,
        on_disk: Digest,
        running: Option<Digest>,
        rolled_out: Option<Digest>,
        keys: impl FnOnce() -> Vec<Keys>,
    ) {
        self.base = running.or(self.base);
        let needed = [self.base, rolled_out, Some(on_disk)];
        self.keys.retain(|(digest, _)| needed.contains(&Some(*digest)));
        if self.of(Some(on_disk)).is_empty() {
            self.keys.push((on_disk, keys()));
        }
    }

    /// The keys in which `content` differs from what runs, as far as both sides are known, and those
    /// that may differ since something was tried. Before anything is known to run, all of them.
    pub(super) fn begin(&mut self, content: Digest, running: Option<Digest>) -> Vec<Key> {
        let old = self.of(running.or(self.base));
        let new = self.of(Some(content));
        let mut changed = [missing(new, old), missing(old, new)].concat();
        if running.is_none() {
            changed.extend(self.told.iter().cloned());
        }
        changed.sort();
        changed.dedup();
        self.told.clone_from(&changed);
        changed
    }

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
