//! What is due at known times, for whoever plays the core on a virtual clock: `podnudge plan` and the tests.

use std::collections::BTreeMap;

use crate::clock::Moment;

/// Things that are due, in the order of their times, and at the same time in the order in which they were planned.
#[derive(Debug)]
pub struct Agenda<T> {
    due: BTreeMap<(Moment, u64), T>,
    planned: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), planned: 0 }
    }
}

impl<T> Agenda<T> {
    /// Plans a thing for this time.
    pub fn plan(&mut self, at: Moment, what: T) {
        self.planned += 1;
        self.due.insert((at, self.planned), what);
    }

    /// Returns when the first thing is due.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first thing, with its time, if that is not later than `now`.
    pub fn pop(&mut self, now: Moment) -> Option<(Moment, T)> {
        let first = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((at, _), what) = first.remove_entry();
        Some((at, what))
    }

    /// Whether nothing is planned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Returns all that is planned, the first first.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.due.values()
    }

    /// Drops what is not to be kept.
    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        self.due.retain(|_, what| keeps(what));
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.due.clear();
    }
}
