//! Reads the tables of the tree of settings, each setting once, as its definition says. Pure.
//!
//! This is done by hand instead of through serde, which stops at the first wrong type or unknown
//! key: here each is noted and the reading goes on.

use super::define::{Definition, Form, Section, Type};
use super::place::Place;
use super::problem::{At, nearest};
use super::relations;
use super::tree::{Entry, Node, Value};
use super::types::check_bounds;
use crate::reason::Reason;
use crate::shown::literal;

/// A table that is being read. Each read takes its entry; entries that remain are unknown keys.
pub(super) struct Table<'a> {
    place: Place<'a>,
    /// The section of the whole file.
    pub(super) root: &'static Section,
    section: &'static Section,
    entries: Vec<Entry>,
}

/// A name and a text, where the file may choose the names.
pub(super) trait Pair: Sized + 'static {
    fn parse(name: &str, text: &str) -> Result<Self, PairError>;

    fn print(&self) -> (String, String);
}

/// Why a pair is refused.
#[derive(Debug)]
pub(super) enum PairError {
    Name(Reason),
    Text(Reason),
}

impl<'a> Table<'a> {
    pub(super) fn new(
        place: Place<'a>,
        root: &'static Section,
        section: &'static Section,
        entries: Vec<Entry>,
    ) -> Self {
        for entry in &entries {
            place.inner(&entry.key).note(&entry.at, &entry.node.at);
        }
        Self { place, root, section, entries }
    }

    /// The value at a key, if it is there and valid.
    pub(super) fn value<T>(&mut self, name: &str, kind: &Type<T>) -> Option<T> {
        let key = key_of(name);
        let node = self.take(&key)?.node;
        self.parse(&key, &node, kind)
    }

    /// The valid values of the list at a key, or the single value there.
    pub(super) fn values<T>(&mut self, name: &str, kind: &Type<T>) -> Vec<T> {
        let key = key_of(name);
        let nodes = self.nodes(&key);
        nodes.iter().filter_map(|node| self.parse(&key, node, kind)).collect()
    }

    /// The table at a key. A value in its place sets the key `short`, if there is one.
    pub(super) fn inner(
        &mut self,
        name: &str,
        section: &Section,
        short: Option<&'static str>,
    ) -> Option<(Place<'a>, Vec<Entry>)> {
        let key = key_of(name);
        let Entry { at, node, .. } = self.take(&key)?;
        let entries = match (node, short) {
            (Node { value: Value::Table(entries), .. }, _) => entries,
            (node @ Node { value: Value::Text(_) | Value::Number { .. }, .. }, Some(short)) => {
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

    /// The place of the table at a key.
    pub(super) fn place_of(&self, name: &str) -> Place<'a> {
        self.place.inner(&key_of(name))
    }

    /// The tables in the list at a key, or where `may_be_one`, the single table there.
    pub(super) fn inner_list(
        &mut self,
        name: &str,
        section: &Section,
        may_be_one: bool,
    ) -> Vec<(Place<'a>, Vec<Entry>)> {
        let key = key_of(name);
        let Some(Entry { at, node, .. }) = self.take(&key) else { return Vec::new() };
        let nodes = match node.value {
            Value::List(nodes) => nodes,
            _ if may_be_one => vec![node],
            _ => {
                let reason = Reason::new(format!("`{key}` must be a list of tables"));
                let hint = format!("write `{}`, with two brackets", section.header);
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
                tables.push((place, entries));
            } else {
                self.wrong_type(&key, &at, &format!("a table, `{}`", example(section)), &value);
            }
        }
        tables
    }

    /// The valid pairs of the table at a key.
    pub(super) fn pairs<P: Pair>(&mut self, name: &str) -> Vec<P> {
        let key = key_of(name);
        let Some(Entry { node, .. }) = self.take(&key) else { return Vec::new() };
        let Value::Table(mut entries) = node.value else {
            let wanted = format!("a table, `{key} = {{ name = \"value\" }}`");
            self.wrong_type(&key, &node.at, &wanted, &node.value);
            return Vec::new();
        };
        entries.sort_by(|one, other| one.at.cmp(&other.at));
        let mut pairs: Vec<P> = Vec::new();
        for Entry { key, at, node } in entries {
            let Some((text, is_quoted)) = self.text(&key, &Form::Text(""), &node) else { continue };
            match P::parse(&key, &text) {
                _ if !is_quoted => self.refuse_number(&key, &node, &text),
                Ok(pair) if pairs.iter().any(|other| other.print().0 == pair.print().0) => {
                    let reason = Reason::new(format!("{} is set twice", literal(&key)));
                    self.place
                        .report
                        .problem(&at, reason.hint("the names of headers are case-insensitive"));
                }
                Ok(pair) => pairs.push(pair),
                Err(PairError::Name(reason)) => self.place.report.problem(&at, reason),
                Err(PairError::Text(reason)) => self.place.report.problem(&node.at, reason),
            }
        }
        pairs.sort_by_key(P::print);
        pairs
    }

    pub(super) fn require(&self, name: &str, example: &str) {
        let key = key_of(name);
        if !self.place.has(&key) {
            let reason = Reason::new(format!("`{}` needs `{key}`", self.section.header));
            let at = self.place.at();
            self.place.report.problem(&at, reason.hint(format!("for example `{example}`")));
        }
    }

    pub(super) fn refuse_empty_list(&self, name: &str, hint: &str) {
        let key = key_of(name);
        if self.place.has_empty_list(&key) {
            self.place.wrong(&key, Reason::new(format!("`{key}` is empty")).hint(hint));
        }
    }

    /// Reports keys that contradict each other, and unknown keys.
    pub(super) fn finish(self) -> Place<'a> {
        for relation in self.section.all_relations() {
            relations::check(&self.place, relation);
        }
        self.refuse_unknown_keys();
        self.place
    }

    fn take(&mut self, key: &str) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(index))
    }

    /// The values of a list, or a single value.
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

    fn parse<T>(&self, key: &str, node: &Node, kind: &Type<T>) -> Option<T> {
        let (text, is_quoted) = self.text(key, &kind.form, node)?;
        match check_bounds(&kind.form, &text).and_then(|()| (kind.parse)(&text)) {
            Ok(value) if is_quoted => return Some(value),
            Ok(_) => self.refuse_number(key, node, &text),
            Err(reason) => {
                let message = about(key, &node.at, &reason.message).message;
                let hint = match reason.hint {
                    Some(hint) if !is_quoted => Some(hint + "; put the value in quotes"),
                    hint => hint,
                };
                self.place.report.problem(&node.at, Reason { message, hint });
            }
        }
        None
    }

    /// The text of a value of this form, and false if it is a number that should be in quotes.
    fn text(&self, key: &str, form: &Form, node: &Node) -> Option<(String, bool)> {
        let is_outside = !matches!(node.at, At::File(_));
        let wanted = match (form, &node.value) {
            (
                Form::Number(..) | Form::Scalar | Form::TextOrNumber(_),
                Value::Number { decimal, .. },
            ) => return Some((decimal.clone(), true)),
            (Form::Bool | Form::Scalar, Value::Bool(value)) => {
                return Some((value.to_string(), true));
            }
            (Form::Scalar, Value::Text(text)) => {
                return Some((serde_json::Value::from(text.as_str()).to_string(), true));
            }
            (Form::Number(..), Value::Text(text)) if is_outside => {
                return Some((text.clone(), true));
            }
            (Form::Number(..), _) => "a whole number",
            (Form::Bool, _) => "`true` or `false`, without quotes",
            (Form::Scalar, _) => "text in quotes, a whole number, `true` or `false`",
            (_, Value::Text(text)) => return Some((text.clone(), true)),
            (_, Value::Number { text, .. }) => return Some((text.clone(), false)),
            _ => "text in quotes",
        };
        self.wrong_type(key, &node.at, wanted, &node.value);
        None
    }

    fn refuse_number(&self, key: &str, node: &Node, text: &str) {
        let reason = about(key, &node.at, "must be text in quotes, not a number");
        self.place.report.problem(&node.at, reason.hint(format!("write \"{text}\"")));
    }

    fn refuse_unknown_keys(&self) {
        let known: Vec<String> = self.section.settings().into_iter().map(Definition::key).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for Entry { key, at, .. } in &self.entries {
            let inside = match self.section.header {
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
            Value::Number { .. } => "a number",
            Value::Bool(_) => "true or false",
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
    let mut with_key = root.tree().into_iter().filter(|section| section.setting(key).is_some());
    let section = with_key.next().filter(|section| !section.header.is_empty())?;
    with_key.next().is_none().then_some(section.header)
}

fn key_of(name: &str) -> String {
    name.replace('_', "-")
}
