//! Where tables and their keys stand, for what is found out only when all of them are read. Pure.

use std::time::Duration;

use super::problem::{At, Report};
use crate::reason::Reason;

/// A table of the file, and where its keys are.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) report: &'a Report<'a>,
    /// From the root: `rule.0.verify`.
    path: String,
}

impl<'a> Place<'a> {
    /// The table that holds all others.
    pub(super) fn root(report: &'a Report<'a>) -> Self {
        Self { report, path: String::new() }
    }

    /// The table at a key, or in the list at a key.
    pub(super) fn inner(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { report: self.report, path: format!("{}{dot}{key}", self.path) }
    }

    /// The table at a place in the list at a key.
    pub(super) fn nth(&self, key: &str, n: usize) -> Self {
        self.inner(key).inner(&n.to_string())
    }

    /// The table with this path from the root.
    pub(super) fn elsewhere(&self, path: &str) -> Self {
        Self { report: self.report, path: path.to_owned() }
    }

    pub(super) fn path(&self) -> String {
        self.path.clone()
    }

    /// Notes where this stands: its key and its value.
    pub(super) fn note(&self, key: &At, value: &At) {
        self.report.places.borrow_mut().insert(self.path.clone(), (key.clone(), value.clone()));
    }

    /// Where the table itself is: the beginning of the file where it is not written.
    pub(super) fn at(&self) -> At {
        let places = self.report.places.borrow();
        places.get(&self.path).map_or(At::File(0), |(key, _)| key.clone())
    }

    /// Where the key is.
    pub(super) fn key(&self, key: &str) -> Option<At> {
        let places = self.report.places.borrow();
        places.get(&self.inner(key).path).map(|(key, _)| key.clone())
    }

    /// Where the value of the key is.
    pub(super) fn value(&self, key: &str) -> Option<At> {
        let places = self.report.places.borrow();
        places.get(&self.inner(key).path).map(|(_, value)| value.clone())
    }

    /// Whether an empty list is written there.
    pub(super) fn has_empty_list(&self, key: &str) -> bool {
        self.has(key) && self.report.empty_lists.borrow().contains(&self.inner(key).path)
    }

    pub(super) fn note_empty_list(&self) {
        self.report.empty_lists.borrow_mut().insert(self.path.clone());
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.key(key).is_some()
    }

    /// The key should not be there, or should be: the place is the key's, or the table's.
    pub(super) fn problem(&self, key: &str, reason: Reason) {
        self.report.problem(&self.key(key).unwrap_or_else(|| self.at()), reason);
    }

    /// The value of the key is wrong.
    pub(super) fn wrong(&self, key: &str, reason: Reason) {
        self.report.problem(&self.value(key).unwrap_or_else(|| self.at()), reason);
    }

    /// The key works, and may not be what was meant.
    pub(super) fn warn_key(&self, key: &str, reason: Reason) {
        self.report.warn(&self.key(key).unwrap_or_else(|| self.at()), reason);
    }

    /// The value of the key works, and may not be what was meant.
    pub(super) fn warn(&self, key: &str, reason: Reason) {
        self.report.warn(&self.value(key).unwrap_or_else(|| self.at()), reason);
    }

    /// Two durations of which the first may not be longer. Of two values that do not fit, one being
    /// a default, the default gives way.
    pub(super) fn in_order(
        &self,
        (short_key, short): (&str, &mut Duration),
        (long_key, long): (&str, &mut Duration),
    ) {
        if short <= long {
            return;
        }
        match (self.has(short_key), self.has(long_key)) {
            (true, true) => {
                let shown = humantime::format_duration;
                let (a, b) = (shown(*short), shown(*long));
                let message = format!("`{short_key}` is {a}, longer than `{long_key}`, {b}");
                self.wrong(short_key, Reason::new(message));
            }
            (true, false) => *long = *short,
            (false, _) => *short = *long,
        }
    }
}
