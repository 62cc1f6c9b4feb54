//! Maps and sets made by insertion, for the few entries of a pod. `collect` sorts them before, by 4 KiB of code for each
//! type and iterator: 1 % of the binary.

use std::collections::{BTreeMap, BTreeSet};

/// A map of these pairs; of several with the same key, the last.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}

/// A set of these items.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}
