//! The places of tables and keys in the file, for problems that are found after reading. Pure.

use std::time::Duration;

use super::problem::{At, Report};
use crate::reason::Reason;

/// A table of the file, with the places of its keys.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) report: &'a Report<'a>,
    /// The keys from the root, such as `rule.0.verify`.
    path: String,
}

impl<'a> Place<'a> {
    /// The table that holds all others.
    pub(super) fn root(report: &'a Report<'a>) -> Self {
        Self { report, path: String::new() }
    }

    /// The table or list at a key.
    pub(super) fn inner(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { report: self.report, path: format!("{}{dot}{key}", self.path) }
    }

    /// An element of the list at a key.
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

    /// The places of the valid values in the list at a key.
    pub(super) fn valid_values(&self, key: &str) -> Vec<At> {
        let list = self.inner(key);
        let values = (0..).map_while(|n: usize| list.value(&n.to_string()));
        values.filter(|at| !self.report.has_problem(at)).collect()
    }

    /// Records the places of the key and of the value.
    pub(super) fn note(&self, key: &At, value: &At) {
        self.report.places.borrow_mut().insert(self.path.clone(), (key.clone(), value.clone()));
    }

    /// The place of the table; the beginning of the file if the file does not have it.
    pub(super) fn at(&self) -> At {
        let places = self.report.places.borrow();
        places.get(&self.path).map_or(At::File(0), |(key, _)| key.clone())
    }

    /// The place of a key.
    pub(super) fn key(&self, key: &str) -> Option<At> {
        let places = self.report.places.borrow();
        places.get(&self.inner(key).path).map(|(key, _)| key.clone())
    }

    /// The place of a key's value.
    pub(super) fn value(&self, key: &str) -> Option<At> {
        let places = self.report.places.borrow();
        places.get(&self.inner(key).path).map(|(_, value)| value.clone())
    }

    /// Whether the value of the key is an empty list.
    pub(super) fn has_empty_list(&self, key: &str) -> bool {
        self.has(key) && self.report.empty_lists.borrow().contains(&self.inner(key).path)
    }

    pub(super) fn note_empty_list(&self) {
        self.report.empty_lists.borrow_mut().insert(self.path.clone());
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.key(key).is_some()
    }

    /// Reports a key that is there but should not be, or the other way round.
    pub(super) fn problem(&self, key: &str, reason: Reason) {
        self.report.problem(&self.key(key).unwrap_or_else(|| self.at()), reason);
    }

    /// Reports a wrong value.
    pub(super) fn wrong(&self, key: &str, reason: Reason) {
        self.report.problem(&self.value(key).unwrap_or_else(|| self.at()), reason);
    }

    /// Warns of a key that is valid but probably a mistake.
    pub(super) fn warn_key(&self, key: &str, reason: Reason) {
        self.report.warn(&self.key(key).unwrap_or_else(|| self.at()), reason);
    }

    /// Warns of a value that is valid but probably a mistake.
    pub(super) fn warn(&self, key: &str, reason: Reason) {
        self.report.warn(&self.value(key).unwrap_or_else(|| self.at()), reason);
    }

    /// Requires that the first duration is not longer than the second. If only one of them is set, the
    /// default of the other is adjusted.
    pub(super) fn in_order(
        &self,
        (short_key, short): (&str, &mut Duration),
        (long_key, long): (&str, &mut Duration),
    ) {
        let is_invalid = |key: &str| self.value(key).is_some_and(|at| self.report.has_problem(&at));
        if short <= long || is_invalid(short_key) || is_invalid(long_key) {
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
