//! The keys that an action is about, for the programs that it runs: those that differ from what the
//! application was last known to run.

use std::collections::BTreeMap;

use crate::collect;
use crate::snapshot::{Digest, Key};

/// The keys of a volume.
pub(crate) type Keys = BTreeMap<Key, Digest>;

/// The keys of the digests that an action may lie between.
#[derive(Debug, Default)]
pub(crate) struct ChangedKeys {
    keys: Vec<(Digest, Vec<Keys>)>,
    /// The digest that the application was last known to run.
    base: Option<Digest>,
    /// All keys reported to programs since then.
    reported: Vec<Key>,
}

impl ChangedKeys {
    /// Records the keys on disk, and drops all others except those of the running digest and of the
    /// rollout.
    pub(crate) fn record(
        &mut self,
        on_disk: Digest,
        running: Option<Digest>,
        rolled_out: Option<Digest>,
        keys: impl FnOnce() -> Vec<Keys>,
    ) {
        self.base = running.or(self.base);
        let needed = [self.base, rolled_out, Some(on_disk)];
        self.keys.retain(|(digest, _)| needed.contains(&Some(*digest)));
        if self.keys_of(Some(on_disk)).is_empty() {
            self.keys.push((on_disk, keys()));
        }
    }

    /// The keys in which `content` differs from the running digest, as far as both are known. While
    /// what runs is unknown, also the keys of earlier attempts; if nothing was ever known to run,
    /// all keys.
    pub(crate) fn changed_keys(&mut self, content: Digest, running: Option<Digest>) -> Vec<Key> {
        let old = self.keys_of(running.or(self.base));
        let new = self.keys_of(Some(content));
        let mut changed = [differing(new, old), differing(old, new)].concat();
        if running.is_none() {
            changed.extend(self.reported.iter().cloned());
        }
        self.reported = collect::set(changed).into_iter().collect();
        self.reported.clone()
    }

    /// The keys of a digest, one entry per volume.
    fn keys_of(&self, digest: Option<Digest>) -> &[Keys] {
        let known = self.keys.iter().find(|(known, _)| Some(*known) == digest);
        known.map(|(_, keys)| keys.as_slice()).unwrap_or_default()
    }
}

/// The keys of `one` that `other` lacks or has with other contents.
fn differing(one: &[Keys], other: &[Keys]) -> Vec<Key> {
    let mut differing = Vec::new();
    for (n, keys) in one.iter().enumerate() {
        let others = other.get(n);
        let differs = |(key, digest): &(&Key, &Digest)| {
            others.and_then(|keys| keys.get(key)) != Some(*digest)
        };
        differing.extend(keys.iter().filter(differs).map(|(key, _)| key.clone()));
    }
    differing
}
