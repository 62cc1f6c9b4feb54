//! Reads the tables of the tree of settings, each setting once, as its definition says. Pure.
//!
//! This is done by hand instead of through serde, which stops at the first wrong type or unknown
//! key: here each is noted and the reading goes on.

use super::define::{Definition, Form, PairError, Reader, Section, Settings, Type, key_of};
use super::place::Place;
use super::problem::{At, Report, nearest};
use super::raw::{Entry, Node, Value};
use super::relations;
use super::types::fits;
use crate::reason::Reason;
use crate::shown::literal;

/// A table being read: what is asked for is taken out, and what nobody asked for is unknown.
pub(super) struct Table<'a> {
    place: Place<'a>,
    /// All that the file may hold.
    root: &'static Section,
    header: &'static str,
    entries: Vec<Entry>,
}

/// Reads the settings of a table; `None` only after a problem was reported.
pub(super) fn read<S: Settings>(
    place: Place<'_>,
    root: &'static Section,
    entries: Vec<Entry>,
) -> Option<S> {
    for entry in &entries {
        place.inner(&entry.key).note(&entry.at, &entry.node.at);
    }
    let mut table = Table { place, root, header: S::SECTION.header, entries };
    let settings = S::read(&mut table);
    for relation in S::SECTION.all_relations() {
        relations::judge(&table.place, relation);
    }
    table.finish(S::SECTION);
    let mut settings = settings?;
    settings.judge(&table.place);
    Some(settings)
}

/// The settings of a table in which nothing is set; `None` if one is required.
pub(super) fn defaults<S: Settings>() -> Option<S> {
    let report = Report::new("", "", &|_| None, None);
    read(Place::root(&report), S::SECTION, Vec::new())
}

impl Reader for Table<'_> {
    fn optional<T>(&mut self, name: &str, kind: &'static Type<T>) -> Option<T> {
        let key = key_of(name);
        let node = self.take(&key)?.node;
        self.parse(&key, &node, kind)
    }

    fn defaulted<T>(&mut self, name: &str, default: &str, kind: &'static Type<T>) -> Option<T> {
        let given = self.optional(name, kind);
        given.or_else(|| (kind.parse)(default).ok())
    }

    fn required<T>(&mut self, name: &str, example: &str, kind: &'static Type<T>) -> Option<T> {
        self.require(name, example);
        self.optional(name, kind)
    }

    fn list<T>(&mut self, name: &str, kind: &'static Type<T>) -> Vec<T> {
        let key = key_of(name);
        let nodes = self.nodes(&key);
        nodes.iter().filter_map(|node| self.parse(&key, node, kind)).collect()
    }

    fn filled<T>(&mut self, name: &str, example: &str, kind: &'static Type<T>) -> Vec<T> {
        self.require(name, example);
        let values = self.list(name, kind);
        self.refuse_empty_list(name, example);
        values
    }

    fn table<S: Settings>(&mut self, name: &str, short: Option<&'static str>) -> Option<S> {
        match self.inner(name, S::SECTION, short) {
            Some((place, entries)) => read(place, self.root, entries),
            None => read(self.place.inner(&key_of(name)), self.root, Vec::new()),
        }
    }

    fn optional_table<S: Settings>(&mut self, name: &str) -> Option<S> {
        let (place, entries) = self.inner(name, S::SECTION, None)?;
        read(place, self.root, entries)
    }

    fn tables<S: Settings>(&mut self, name: &str, may_be_one: bool) -> Vec<S> {
        let key = key_of(name);
        let Some(Entry { at, node, .. }) = self.take(&key) else { return Vec::new() };
        let nodes = match node.value {
            Value::List(nodes) => nodes,
            _ if may_be_one => vec![node],
            _ => {
                let reason = Reason::new(format!("`{key}` must be a list of tables"));
                let hint = format!("write `{}`, with two brackets", S::SECTION.header);
                self.place.report.problem(&at, reason.hint(hint));
                return Vec::new();
            }
        };
        if nodes.is_empty() {
            self.place.inner(&key).note_empty_list();
        }
        let mut tables = Vec::new();
        for (n, Node { at, value }) in nodes.into_iter().enumerate() {
            let place = self.place.nth(&key, n);
            if let Value::Table(entries) = value {
                place.note(&at, &at);
                tables.extend(read(place, self.root, entries));
            } else {
                self.wrong_type(&key, &at, &format!("a table, `{}`", example(S::SECTION)), &value);
            }
        }
        tables
    }

    fn pairs<T>(
        &mut self,
        name: &str,
        accept: impl Fn(&str, &str) -> Result<T, PairError>,
    ) -> Vec<T> {
        let key = key_of(name);
        let Some(Entry { node, .. }) = self.take(&key) else { return Vec::new() };
        let Value::Table(entries) = node.value else {
            let wanted = format!("a table, `{key} = {{ name = \"value\" }}`");
            self.wrong_type(&key, &node.at, &wanted, &node.value);
            return Vec::new();
        };
        let pair = |Entry { key, at, node }: Entry| {
            let (text, _) = self.text(&key, &Form::Text(""), &node)?;
            if !self.is_right(&key, &Form::Text(""), &node, &text) {
                return None;
            }
            match accept(&key, &text) {
                Ok(pair) => return Some(pair),
                Err(PairError::Name(reason)) => self.place.report.problem(&at, reason),
                Err(PairError::Text(reason)) => self.place.report.problem(&node.at, reason),
            }
            None
        };
        entries.into_iter().filter_map(pair).collect()
    }
}

impl<'a> Table<'a> {
    fn take(&mut self, key: &str) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(index))
    }

    fn refuse_empty_list(&self, name: &str, example: &str) {
        let key = key_of(name);
        if self.place.has_empty_list(&key) {
            let reason = Reason::new(format!("`{key}` is empty"));
            self.place.wrong(&key, reason.hint(format!("for example `{example}`")));
        }
    }

    /// The values of a list, or one alone.
    fn nodes(&mut self, key: &str) -> Vec<Node> {
        let Some(Entry { node, .. }) = self.take(key) else { return Vec::new() };
        let nodes = if let Value::List(nodes) = node.value { nodes } else { vec![node] };
        if nodes.is_empty() {
            self.place.inner(key).note_empty_list();
        }
        for (n, node) in nodes.iter().enumerate() {
            self.place.nth(key, n).note(&node.at, &node.at);
        }
        nodes
    }

    fn require(&self, name: &str, example: &str) {
        let key = key_of(name);
        if !self.place.has(&key) {
            let reason = Reason::new(format!("`{}` needs `{key}`", self.header));
            let at = self.place.at();
            self.place.report.problem(&at, reason.hint(format!("for example `{example}`")));
        }
    }

    /// One copy of this for each type: what can be is in those below.
    fn parse<T>(&self, key: &str, node: &Node, kind: &'static Type<T>) -> Option<T> {
        let (text, is_text) = self.text(key, &kind.form, node)?;
        match (kind.parse)(&text) {
            Ok(value) => self.is_right(key, &kind.form, node, &text).then_some(value),
            Err(reason) => {
                self.refuse(key, node, is_text, reason);
                None
            }
        }
    }

    fn refuse(&self, key: &str, node: &Node, is_text: bool, reason: Reason) {
        let message = about(key, &node.at, &reason.message).message;
        let quotes = if is_text { "" } else { ", in quotes" };
        let hint = reason.hint.map(|hint| hint + quotes);
        self.place.report.problem(&node.at, Reason { message, hint });
    }

    /// The text of a value that is within the bounds of the form, and whether it is in quotes where it
    /// should be.
    fn text(&self, key: &str, form: &Form, node: &Node) -> Option<(String, bool)> {
        let (text, is_text) = self.any_text(key, form, node)?;
        match fits(form, &text) {
            Ok(()) => Some((text, is_text)),
            Err(reason) => {
                self.refuse(key, node, is_text, reason);
                None
            }
        }
    }

    fn any_text(&self, key: &str, form: &Form, node: &Node) -> Option<(String, bool)> {
        let is_outside = !matches!(node.at, At::File(_));
        let wanted = match (form, &node.value) {
            (Form::Word(_), Value::Text(text) | Value::Number(text))
            | (Form::Number(..) | Form::Scalar, Value::Number(text)) => {
                return Some((text.clone(), true));
            }
            (Form::Truth | Form::Scalar, Value::Truth(truth)) => {
                return Some((truth.to_string(), true));
            }
            (Form::Scalar, Value::Text(text)) => {
                return Some((serde_json::Value::from(text.as_str()).to_string(), true));
            }
            (Form::Number(..) | Form::Truth, Value::Text(text)) if is_outside => {
                return Some((text.clone(), true));
            }
            (Form::Number(..), _) => "a whole number",
            (Form::Truth, _) => "`true` or `false`, without quotes",
            (Form::Scalar, _) => "text in quotes, a whole number, `true` or `false`",
            (_, Value::Text(text)) => return Some((text.clone(), true)),
            (_, Value::Number(text)) => return Some((text.clone(), false)),
            _ => "text in quotes",
        };
        self.wrong_type(key, &node.at, wanted, &node.value);
        None
    }

    /// Whether a number stands where text should, which it could be.
    fn is_right(&self, key: &str, form: &Form, node: &Node, text: &str) -> bool {
        let takes_numbers = matches!(form, Form::Word(_) | Form::Number(..) | Form::Scalar);
        let is_right = takes_numbers || !matches!(node.value, Value::Number(_));
        if !is_right {
            let reason = about(key, &node.at, "must be text in quotes, not a number");
            self.place.report.problem(&node.at, reason.hint(format!("write \"{text}\"")));
        }
        is_right
    }

    /// A text in its place is taken as the table's setting `short`, if there is one.
    fn inner(
        &mut self,
        name: &str,
        section: &Section,
        short: Option<&'static str>,
    ) -> Option<(Place<'a>, Vec<Entry>)> {
        let key = key_of(name);
        let Entry { at, node, .. } = self.take(&key)?;
        let entries = match (node, short) {
            (Node { value: Value::Table(entries), .. }, _) => entries,
            (node @ Node { value: Value::Text(_) | Value::Number(_), .. }, Some(short)) => {
                vec![Entry { key: short.to_owned(), at, node }]
            }
            (node, short) => {
                let or_text = if short.is_some() { "text or " } else { "" };
                let wanted = format!("{or_text}a table, `{}`", example(section));
                self.wrong_type(&key, &node.at, &wanted, &node.value);
                return None;
            }
        };
        Some((self.place.inner(&key), entries))
    }

    /// Reports the keys that nobody asked for.
    fn finish(&self, section: &Section) {
        let known: Vec<String> = section.settings().into_iter().map(Definition::key).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for Entry { key, at, .. } in &self.entries {
            let inside = match self.header {
                "" => String::new(),
                header => format!(" in `{header}`"),
            };
            let reason = Reason::new(format!("unknown key {}{inside}", literal(key)));
            let elsewhere = only_place_of(self.root, key);
            let hint = match (elsewhere, nearest(key, &known)) {
                (Some(header), _) => format!("it belongs in `{header}`"),
                (None, Some(known)) => format!("did you mean `{known}`?"),
                (None, None) => format!("known here: `{}`", known.join("`, `")),
            };
            self.place.report.problem(at, reason.hint(hint));
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
        self.place.report.problem(at, reason);
    }
}

/// How the file writes a table.
fn example(section: &Section) -> String {
    if !section.is_inline() {
        return section.header.to_owned();
    }
    let keys = section.settings().into_iter().map(|definition| format!("{} = …", definition.key()));
    format!("{} = {{ {} }}", section.header, keys.collect::<Vec<_>>().join(", "))
}

/// The key goes before the message, unless the place names the setting already.
fn about(key: &str, at: &At, message: &str) -> Reason {
    match at {
        At::File(_) => Reason::new(format!("{}: {message}", literal(key))),
        At::Option(_) | At::Environment(_) => Reason::new(message),
    }
}

/// The only table that has this key, if there is one.
fn only_place_of(root: &'static Section, key: &str) -> Option<&'static str> {
    let mut with_key = sections(root)
        .into_iter()
        .filter(|section| section.settings().iter().any(|definition| definition.key() == key));
    let section = with_key.next().filter(|section| !section.header.is_empty())?;
    with_key.next().is_none().then_some(section.header)
}

/// A section and all those in it, each once.
pub(super) fn sections(root: &'static Section) -> Vec<&'static Section> {
    let mut all: Vec<&'static Section> = vec![root];
    for definition in root.settings() {
        if let Form::Table(section, _) | Form::Tables(section, _) = definition.form {
            for inner in sections(section) {
                if !all.iter().any(|known| known.header == inner.header) {
                    all.push(inner);
                }
            }
        }
    }
    all
}
