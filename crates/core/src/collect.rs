//! Maps, sets and order by insertion, for the few entries of a pod. `collect` sorts them before, by 4 KiB of code for each
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

/// Sorts a few items; equal ones stay in their order.
pub fn sort<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    for end in 1..items.len() {
        let is_wrong = |pair: &[T]| !pair.is_sorted_by_key(&key);
        let mut at = end;
        while at > 0 && items.get(at - 1..=at).is_some_and(is_wrong) {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_stay_in_their_order() {
        let mut items = [(2, 'a'), (1, 'b'), (2, 'c'), (0, 'd'), (1, 'e')];
        sort(&mut items, |(key, _)| *key);
        assert_eq!(items, [(0, 'd'), (1, 'b'), (1, 'e'), (2, 'a'), (2, 'c')]);
        sort(&mut [], |one: &u8| *one);
    }
}
