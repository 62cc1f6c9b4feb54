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

#[cfg(test)]
mod tests {
    use super::*;

    const A: Digest = Digest([1; 32]);
    const B: Digest = Digest([2; 32]);
    const C: Digest = Digest([3; 32]);

    fn keys(contents: [u8; 3]) -> Vec<Keys> {
        let key = |name: &str| Key(name.as_bytes().to_vec());
        let contents = contents.map(|n| Digest([n; 32]));
        vec![["a", "b", "c"].map(key).into_iter().zip(contents).collect()]
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().map(|key| std::str::from_utf8(&key.0).expect("it is text")).collect()
    }

    #[test]
    fn while_it_is_unknown_what_runs_the_keys_of_earlier_attempts_count_too() {
        for (running, wanted) in [(None, vec!["b", "c"]), (Some(A), vec!["c"])] {
            let mut changed = ChangedKeys::default();
            changed.record(A, Some(A), None, || keys([1, 1, 1]));
            changed.record(B, Some(A), None, || keys([1, 2, 1]));
            assert_eq!(names(&changed.changed_keys(B, Some(A))), ["b"]);
            changed.record(C, running, Some(B), || keys([1, 1, 2]));
            assert_eq!(names(&changed.changed_keys(C, running)), wanted, "{running:?}");
        }
    }
}
