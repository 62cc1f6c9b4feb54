//! The places of tables and keys in the file, for problems that are found after reading. Pure.

use std::time::Duration;

use super::problem::{At, Report};
use podnudge_core::reason::Reason;

/// A table of the file, with the places of its keys.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) report: &'a Report<'a>,
    /// The keys from the root, such as `rule.0.verify`.
    pub(super) path: String,
}

/// The part of a table that a problem is about. A key that is missing stands for the table.
#[derive(Clone, Copy)]
pub(super) enum Spot<'k> {
    Table,
    Key(&'k str),
    Value(&'k str),
}

impl<'a> Place<'a> {
    /// The table that holds all others.
    pub(super) fn root(report: &'a Report<'a>) -> Self {
        Self { report, path: String::new() }
    }

    /// The table or list at a key.
    pub(super) fn inner(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.at_path(&format!("{}{dot}{key}", self.path))
    }

    /// An element of the list at a key.
    pub(super) fn nth(&self, key: &str, n: usize) -> Self {
        self.inner(key).inner(&n.to_string())
    }

    /// The table with this path from the root.
    pub(super) fn at_path(&self, path: &str) -> Self {
        Self { report: self.report, path: path.to_owned() }
    }

    /// The last key.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Records the places of the key and of the value.
    pub(super) fn record(&self, key: &At, value: &At) {
        self.report.places.borrow_mut().insert(self.path.clone(), (key.clone(), value.clone()));
    }

    /// The place of a key.
    pub(super) fn key(&self, key: &str) -> Option<At> {
        self.inner(key).places().map(|(key, _)| key)
    }

    /// The beginning of the file if the file does not have the table.
    pub(super) fn at(&self, spot: Spot<'_>) -> At {
        let found = match spot {
            Spot::Table => None,
            Spot::Key(key) => self.key(key),
            Spot::Value(key) => self.inner(key).places().map(|(_, value)| value),
        };
        found.or_else(|| Some(self.places()?.0)).unwrap_or(At::File(0))
    }

    fn places(&self) -> Option<(At, At)> {
        self.report.places.borrow().get(&self.path).cloned()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.key(key).is_some()
    }

    /// Whether the value of the key is an empty list.
    pub(super) fn has_empty_list(&self, key: &str) -> bool {
        self.has(key) && !self.inner(key).has("0")
    }

    /// The places of the valid values in the list at a key.
    pub(super) fn valid_values(&self, key: &str) -> Vec<At> {
        let values = (0..).map_while(|n| self.nth(key, n).places());
        values.map(|(_, value)| value).filter(|at| !self.report.has_problem(at)).collect()
    }

    pub(super) fn problem(&self, spot: Spot<'_>, reason: Reason) {
        self.report.problem(&self.at(spot), reason);
    }

    /// Warns of something that is valid but probably a mistake.
    pub(super) fn warn(&self, spot: Spot<'_>, reason: Reason) {
        self.report.warn(&self.at(spot), reason);
    }

    /// Requires that the first duration is not longer than the second. If only one of them is set, the
    /// default of the other is adjusted.
    pub(super) fn in_order(
        &self,
        (short_key, short): (&str, &mut Duration),
        (long_key, long): (&str, &mut Duration),
    ) {
        let is_invalid = |key| self.report.has_problem(&self.at(Spot::Value(key)));
        if short <= long || is_invalid(short_key) || is_invalid(long_key) {
            return;
        }
        match (self.has(short_key), self.has(long_key)) {
            (true, true) => {
                let shown = humantime::format_duration;
                let (a, b) = (shown(*short), shown(*long));
                let message =
                    format!("`{short_key}` must not be longer than `{long_key}`, {b}: it is {a}");
                self.problem(Spot::Value(short_key), Reason::new(message));
            }
            (true, false) => *long = *short,
            (false, _) => *short = *long,
        }
    }
}
