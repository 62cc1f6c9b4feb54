//! Reads the tables of the tree of settings, each setting once, by name and type. Pure.
//!
//! This is done by hand instead of through serde, which stops at the first wrong type or unknown
//! key: here each is noted and the reading goes on.

use super::Scalar;
use super::places;
use super::problem::{At, Given, Report, literal, nearest};
use super::raw::{Entry, Node, Value, find};
use super::types::choice;
use crate::reason::Reason;

/// A table being read: what is asked for is taken out, and what nobody asked for is unknown.
pub(super) struct Table<'a> {
    pub(super) report: &'a Report<'a>,
    pub(super) at: At,
    /// As the file writes it: `[rule.http]`.
    header: &'static str,
    entries: Vec<Entry>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    pub(super) fn root(entries: Vec<Entry>, report: &'a Report<'a>) -> Self {
        Self { report, at: At::File(0), header: "", entries, known: Vec::new() }
    }

    fn take(&mut self, key: &'static str) -> Option<Entry> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(index))
    }

    /// Where the key is, if it is there and was not read yet.
    pub(super) fn place_of(&self, key: &str) -> Option<&At> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.at)
    }

    /// Whether the file writes `key = []`.
    pub(super) fn has_empty_list(&self, key: &str) -> bool {
        matches!(find(&self.entries, key), Some(Value::List(items)) if items.is_empty())
    }

    /// Takes `key` out unread.
    pub(super) fn forget(&mut self, key: &'static str) {
        self.take(key);
    }

    /// Takes out what makes no sense without `missing`, and reports what is there of it.
    pub(super) fn without(
        &mut self,
        missing: &'static str,
        keys: &[&'static str],
        needed: &str,
        hint: &str,
    ) {
        for key in keys {
            if let Some(at) = self.place_of(key).cloned() {
                let reason = Reason::new(format!("`{key}` needs {needed}"));
                self.report.problem(&at, reason.hint(hint));
            }
            self.forget(key);
        }
        self.forget(missing);
    }

    /// The setting `key`, made by `parse`.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, Reason>,
    ) -> Option<Given<T>> {
        let entry = self.take(key)?;
        self.parse(key, entry.node, &parse)
    }

    /// The setting `key`; that it is missing is a problem.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, Reason>,
    ) -> Option<Given<T>> {
        self.require(key, example);
        self.parsed(key, parse)
    }

    fn require(&self, key: &str, example: &str) {
        if self.place_of(key).is_none() {
            let reason = Reason::new(format!("`{}` needs `{key}`", self.header));
            self.report.problem(&self.at, reason.hint(format!("for example `{example}`")));
        }
    }

    /// A setting of which there may be several: a list, or one alone.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, Reason>,
    ) -> Option<Given<Vec<Given<T>>>> {
        let Entry { node, .. } = self.take(key)?;
        let at = node.at.clone();
        let nodes = if let Value::List(nodes) = node.value { nodes } else { vec![node] };
        let value = nodes.into_iter().filter_map(|node| self.parse(key, node, &parse)).collect();
        Some(Given { at, value })
    }

    /// One copy of this for each type, not for each parser: there are many.
    fn parse<T>(
        &self,
        key: &str,
        node: Node,
        parse: &dyn Fn(&str) -> Result<T, Reason>,
    ) -> Option<Given<T>> {
        let Node { at, value } = node;
        let (text, is_text) = match value {
            Value::Text(text) => (text, true),
            Value::Number(text) => (text, false),
            other => {
                self.wrong_type(key, &at, "text in quotes", &other);
                return None;
            }
        };
        match parse(&text) {
            Ok(value) if is_text => Some(Given { at, value }),
            Ok(_) => {
                let reason = about(key, &at, "must be text in quotes, not a number");
                self.report.problem(&at, reason.hint(format!("write \"{text}\"")));
                None
            }
            Err(reason) => {
                let message = about(key, &at, &reason.message).message;
                let quotes = if is_text { "" } else { ", in quotes" };
                let hint = reason.hint.map(|hint| hint + quotes);
                self.report.problem(&at, Reason { message, hint });
                None
            }
        }
    }

    /// A number or a text, both as text.
    pub(super) fn scalar(&mut self, key: &'static str) -> Option<Given<String>> {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key)
            && let Value::Number(number) = &entry.node.value
        {
            entry.node.value = Value::Text(number.clone());
        }
        self.parsed(key, |text| Ok(text.to_owned()))
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(&mut self, key: &'static str, least: u32, most: u32) -> Option<u32> {
        let entry = self.take(key)?;
        self.whole(key, entry.node, least, most)
    }

    /// Whole numbers from `least` to `most`: a list, or one alone.
    pub(super) fn numbers(&mut self, key: &'static str, least: u32, most: u32) -> Vec<u32> {
        let Some(Entry { node, .. }) = self.take(key) else { return Vec::new() };
        let nodes = if let Value::List(nodes) = node.value { nodes } else { vec![node] };
        nodes.into_iter().filter_map(|node| self.whole(key, node, least, most)).collect()
    }

    fn whole(&self, key: &str, node: Node, least: u32, most: u32) -> Option<u32> {
        let in_file = matches!(node.at, At::File(_));
        match node.value {
            Value::Number(text) => self.in_range(key, &node.at, &text, least, most),
            Value::Text(text) if !in_file => self.in_range(key, &node.at, &text, least, most),
            other => {
                self.wrong_type(key, &node.at, "a whole number", &other);
                None
            }
        }
    }

    fn in_range(&self, key: &str, at: &At, text: &str, least: u32, most: u32) -> Option<u32> {
        match text.parse::<u32>() {
            Ok(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                let range = format!("must be a whole number from {least} to {most}");
                let reason = about(key, at, &format!("{range}, not {}", literal(text)));
                self.report.problem(at, reason);
                None
            }
        }
    }

    /// A value to compare with; that it is missing is a problem.
    pub(super) fn required_scalar(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Option<Given<Scalar>> {
        self.require(key, example);
        let Node { at, value } = self.take(key)?.node;
        let value = match value {
            Value::Text(text) => Some(Scalar::Text(text)),
            Value::Truth(truth) => Some(Scalar::Truth(truth)),
            Value::Number(text) => {
                let number = text.parse().map(Scalar::Number).ok();
                if number.is_none() {
                    let reason = Reason::new(format!("{} cannot be compared", literal(&text)));
                    self.report.problem(&at, reason.hint("write it in decimal, up to 64 bits"));
                }
                number
            }
            other => {
                let wanted = "text in quotes, a whole number, `true` or `false`";
                self.wrong_type(key, &at, wanted, &other);
                None
            }
        };
        value.map(|value| Given { at, value })
    }

    /// Whether `key` is there and true.
    pub(super) fn truth(&mut self, key: &'static str) -> bool {
        self.truth_or(key, false)
    }

    /// What `key` says, or the default where it is not there.
    pub(super) fn truth_or(&mut self, key: &'static str, default: bool) -> bool {
        let Some(Entry { node, .. }) = self.take(key) else { return default };
        match (&node.value, &node.at) {
            (Value::Truth(truth), _) => return *truth,
            (Value::Text(text), At::Option(_) | At::Environment(_)) => {
                match choice(&[("true", true), ("false", false)])(text) {
                    Ok(truth) => return truth,
                    Err(reason) => self.report.problem(&node.at, reason),
                }
            }
            (found, at) => self.wrong_type(key, at, "`true` or `false`, without quotes", found),
        }
        default
    }

    /// The table under `key`, which the file writes as `header`. A text in its place is taken as
    /// the table's setting `short`, if there is one.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        header: &'static str,
        short: Option<&'static str>,
    ) -> Option<Table<'a>> {
        let Entry { at, node, .. } = self.take(key)?;
        let entries = match (node, short) {
            (Node { value: Value::Table(entries), .. }, _) => entries,
            (node @ Node { value: Value::Text(_) | Value::Number(_), .. }, Some(short)) => {
                vec![Entry { key: short.to_owned(), at: at.clone(), node }]
            }
            (node, short) => {
                let or_text = if short.is_some() { "text or " } else { "" };
                let wanted = format!("{or_text}a table, `{header}`");
                self.wrong_type(key, &node.at, &wanted, &node.value);
                return None;
            }
        };
        Some(Table { report: self.report, at, header, entries, known: Vec::new() })
    }

    /// The tables under `key`, each written as `header`.
    pub(super) fn tables(&mut self, key: &'static str, header: &'static str) -> Vec<Table<'a>> {
        let Some(Entry { at, node, .. }) = self.take(key) else { return Vec::new() };
        let Value::List(nodes) = node.value else {
            let reason = Reason::new(format!("`{key}` must be a list of tables"));
            self.report.problem(&at, reason.hint(format!("write `{header}`, with two brackets")));
            return Vec::new();
        };
        self.inner(key, header, nodes)
    }

    /// The table under `key`, or several in a list, each written as `header`.
    pub(super) fn one_or_more(
        &mut self,
        key: &'static str,
        header: &'static str,
    ) -> Vec<Table<'a>> {
        let Some(Entry { node, .. }) = self.take(key) else { return Vec::new() };
        let nodes = if let Value::List(nodes) = node.value { nodes } else { vec![node] };
        self.inner(key, header, nodes)
    }

    fn inner(&self, key: &str, header: &'static str, nodes: Vec<Node>) -> Vec<Table<'a>> {
        let mut tables = Vec::new();
        for Node { at, value } in nodes {
            if let Value::Table(entries) = value {
                let known = Vec::new();
                tables.push(Table { report: self.report, at, header, entries, known });
            } else {
                self.wrong_type(key, &at, &format!("a table, `{header}`"), &value);
            }
        }
        tables
    }

    /// The keys and texts of the table under `key`, whose keys are free to choose.
    pub(super) fn pairs(&mut self, key: &'static str) -> Vec<(Given<String>, Given<String>)> {
        let Some(table) = self.table(key, "headers = { name = \"value\" }", None) else {
            return Vec::new();
        };
        let pair = |Entry { key, at, node }| {
            let value = self.parse(&key, node, &|text| Ok(text.to_owned()))?;
            Some((Given { at, value: key }, value))
        };
        table.entries.into_iter().filter_map(pair).collect()
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn finish(self) {
        debug_assert!(
            places::are_listed(self.header, &self.known),
            "places.rs lacks a key of {}: {:?}",
            self.header,
            self.known
        );
        for Entry { key, at, .. } in self.entries {
            let inside = match self.header {
                "" => String::new(),
                header => format!(" in `{header}`"),
            };
            let reason = Reason::new(format!("unknown key {}{inside}", literal(&key)));
            let hint = match (places::only_place_of(&key), nearest(&key, &self.known)) {
                (Some(header), _) => format!("it belongs in `{header}`"),
                (None, Some(known)) => format!("did you mean `{known}`?"),
                (None, None) => format!("known here: `{}`", self.known.join("`, `")),
            };
            self.report.problem(&at, reason.hint(hint));
        }
    }

    fn wrong_type(&self, key: &str, at: &At, wanted: &str, found: &Value) {
        let found = match found {
            Value::Text(_) => "text",
            Value::Number(_) => "a number",
            Value::Truth(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(name) => name,
        };
        let reason = about(key, at, &format!("must be {wanted}, not {found}"));
        self.report.problem(at, reason);
    }
}

/// The key goes before the message, unless the place names the setting already.
fn about(key: &str, at: &At, message: &str) -> Reason {
    match at {
        At::File(_) => Reason::new(format!("{}: {message}", literal(key))),
        At::Option(_) | At::Environment(_) => Reason::new(message),
    }
}
