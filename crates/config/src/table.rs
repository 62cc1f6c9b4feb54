//! Reads the tables of the tree of settings, each setting once, as its definition says. Pure.
//!
//! This is done by hand instead of through serde, which stops at the first wrong type or unknown
//! key: this module reports each problem and continues.

use std::collections::BTreeSet;

use super::define::{Definition, Form, Presence, Section, Single, Type};
use super::place::{Place, Spot};
use super::problem::{At, nearest};
use super::relations;
use super::tree::{Entries, Node, Value};
use super::types::check_bounds;
use super::yaml;
use podnudge_core::reason::Reason;
use podnudge_core::shown::{self, literal};

/// A table that is being read. Each read takes its entry; entries that remain are unknown keys.
pub(super) struct Table<'a> {
    pub(super) place: Place<'a>,
    section: &'static Section,
    entries: Entries,
}

/// Why a name or its text is refused, where the file may choose the names.
#[derive(Debug)]
pub(super) enum PairError {
    Name(Reason),
    Text(Reason),
}

impl<'a> Table<'a> {
    pub(super) fn new(place: Place<'a>, section: &'static Section, entries: Entries) -> Self {
        for (key, (at, node)) in &entries {
            place.inner(key).record(at, &node.at);
        }
        Self { place, section, entries }
    }

    /// The value at a key, if it is there and valid.
    pub(super) fn value<T>(&mut self, key: &str, kind: &Type<T>) -> Option<T> {
        let (_, node) = self.entries.remove(key)?;
        self.parse(key, &node, kind)
    }

    /// The valid values of the list at a key, or the single value there.
    pub(super) fn values<T>(&mut self, key: &str, kind: &Type<T>) -> Vec<T> {
        let Some((_, node)) = self.entries.remove(key) else { return Vec::new() };
        let nodes = if let Value::List(nodes) = node.value { nodes } else { vec![node] };
        let value = |(n, node): (usize, &Node)| {
            self.place.nth(key, n).record(&node.at, &node.at);
            self.parse(key, node, kind)
        };
        nodes.iter().enumerate().filter_map(value).collect()
    }

    /// The entries of the table at a key. A value in its place sets the key `short`, if there is one.
    pub(super) fn take_table(
        &mut self,
        key: &str,
        section: &Section,
        short: Option<&str>,
    ) -> Option<Entries> {
        let (_, node) = self.entries.remove(key)?;
        match node.value {
            Value::Table(entries) => Some(entries),
            value => {
                let or_text = if short.is_some() { "text or " } else { "" };
                let wanted = format!("{or_text}a table, `{}`", example(section));
                let hint = as_table(key, section, &value);
                self.wrong_type(key, &Node { value, ..node }, &wanted, hint);
                None
            }
        }
    }

    /// The tables in the list at a key, or what may stand in its place.
    pub(super) fn take_tables(
        &mut self,
        key: &str,
        section: &Section,
        single: Single,
    ) -> Vec<(Place<'a>, Entries)> {
        let Some((at, node)) = self.entries.remove(key) else { return Vec::new() };
        let nodes = match node.value {
            Value::List(nodes) => nodes,
            _ if single == Single::Table => vec![node],
            _ => {
                let reason = Reason::new(format!("`{key}` must be a list of tables"));
                let hint = if self.place.report.is_yaml {
                    "begin each of them with `- `, or put them in brackets".to_owned()
                } else {
                    format!("write `{}`, with two brackets", section.header)
                };
                self.place.report.problem(&at, reason.hint(hint));
                // It is not an empty list.
                self.place.nth(key, 0).record(&at, &node.at);
                Vec::new()
            }
        };
        let mut tables = Vec::new();
        for (n, node) in nodes.into_iter().enumerate() {
            let place = self.place.nth(key, n);
            place.record(&node.at, &node.at);
            if let Value::Table(entries) = node.value {
                tables.push((place, entries));
            } else {
                let hint = as_table(key, section, &node.value).filter(|_| section.is_inline());
                self.wrong_type(key, &node, &format!("a table, `{}`", example(section)), hint);
            }
        }
        tables
    }

    /// The valid pairs of the table at a key.
    pub(super) fn pairs<N: PartialEq, T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str, &str) -> Result<(N, T), PairError>,
    ) -> Vec<(N, T)> {
        let Some((_, node)) = self.entries.remove(key) else { return Vec::new() };
        let Value::Table(entries) = node.value else {
            let wanted = format!("a table, `{key} = {{ name = … }}`");
            self.wrong_type(key, &node, &wanted, None);
            return Vec::new();
        };
        let mut pairs: Vec<(N, T)> = Vec::new();
        for (key, (at, node)) in entries {
            let Some((text, is_quoted)) = self.text(&key, &Form::Text(""), &node) else { continue };
            match parse(&key, &text) {
                _ if !is_quoted => self.refuse_number(&key, &node, &text),
                Ok((name, _)) if pairs.iter().any(|(other, _)| *other == name) => {
                    let reason = Reason::new(format!("{} is set twice", literal(&key)));
                    let hint = "the names of headers are case-insensitive";
                    self.place.report.problem(&at, reason.hint(hint));
                }
                Ok(pair) => pairs.push(pair),
                Err(PairError::Name(reason)) => self.place.report.problem(&at, reason),
                Err(PairError::Text(reason)) => self.place.report.problem(&node.at, reason),
            }
        }
        pairs
    }

    pub(super) fn require(&self, key: &str, example: &str) {
        if !self.place.has(key) {
            let reason = Reason::new(format!("`{}` needs `{key}`", self.section.header));
            self.place.problem(Spot::Table, reason.hint(format!("for example `{example}`")));
        }
    }

    pub(super) fn refuse_empty_list(&self, key: &str, hint: &str) {
        if self.place.has_empty_list(key) {
            let reason = Reason::new(format!("`{key}` is empty"));
            self.place.problem(Spot::Value(key), reason.hint(hint));
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

    fn parse<T>(&self, key: &str, node: &Node, kind: &Type<T>) -> Option<T> {
        let key = self.written_key(key);
        let (text, is_quoted) = self.text(key, &kind.form, node)?;
        match check_bounds(&kind.form, &text).and_then(|()| (kind.parse)(&text)) {
            Ok(value) if is_quoted => return Some(value),
            Ok(_) => self.refuse_number(key, node, &text),
            Err(reason) => {
                let message = with_key(key, &node.at, &reason.message).message;
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
        let is_outside = matches!(node.at, At::Option(_) | At::Environment(_));
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
        let hint = match (form, &node.value) {
            (Form::Number(..), Value::Text(text)) if text.parse::<u32>().is_ok() => {
                let is_in_list = self.place.at(Spot::Value(key)) != node.at;
                let line = if is_in_list { text.clone() } else { format!("`{key} = {text}`") };
                Some(format!("write {line}, without quotes"))
            }
            (Form::Bool, Value::Text(text)) if self.place.report.is_yaml => {
                yaml::boolean_of_1_1(text)
                    .map(|truth| format!("write `{truth}`; YAML 1.2 reads `{text}` as text"))
            }
            _ => None,
        };
        self.wrong_type(key, node, wanted, hint);
        None
    }

    fn refuse_number(&self, key: &str, node: &Node, text: &str) {
        let reason = with_key(key, &node.at, "must be text in quotes, not a number");
        self.place.report.problem(&node.at, reason.hint(format!("write \"{text}\"")));
    }

    fn refuse_unknown_keys(&self) {
        let known: Vec<String> = self.section.settings().into_iter().map(Definition::key).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for (key, (at, _)) in &self.entries {
            let inside = match self.section.header {
                "" => String::new(),
                header => format!(" in `{header}`"),
            };
            let reason = Reason::new(format!("unknown key {}{inside}", literal(key)));
            let mut elsewhere = BTreeSet::new();
            headers_with(self.place.report.file, key, &mut elsewhere);
            // The beginning of a longer key.
            let longer = |known: &&str| {
                known.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('-'))
            };
            let similar = nearest(key, &known).or_else(|| known.iter().copied().find(longer));
            let hint = match (elsewhere.first(), similar) {
                (Some(header), _) if elsewhere.len() == 1 && !header.is_empty() => {
                    format!("it belongs in `{header}`")
                }
                (_, Some(known)) => format!("did you mean `{known}`?"),
                (_, None) => format!("known here: `{}`", known.join("`, `")),
            };
            self.place.report.problem(at, reason.hint(hint));
        }
    }

    fn wrong_type(&self, key: &str, node: &Node, wanted: &str, hint: Option<String>) {
        let found = match node.value {
            Value::Text(_) => "text",
            Value::Number { .. } => "a number",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(name) => name,
        };
        let reason = with_key(key, &node.at, &format!("must be {wanted}, not {found}"));
        self.place.report.problem(&node.at, Reason { hint, ..reason });
    }

    /// The key that the user has written: that of the table, if a value stands in its place.
    fn written_key<'k>(&'k self, key: &'k str) -> &'k str {
        let is_short = self.place.key(key).is_some_and(|at| at == self.place.at(Spot::Table));
        if is_short { self.place.name() } else { key }
    }
}

/// How to write a table in place of text: the text is its first required setting, or also the second one
/// if it is written like `name == 1`. A table with more is not guessed.
fn as_table(key: &str, section: &Section, value: &Value) -> Option<String> {
    let Value::Text(text) = value else { return None };
    let settings = section.settings();
    let required = settings.iter().filter_map(|setting| match setting.presence {
        Presence::Required(example) => Some((setting.key(), example)),
        _ => None,
    });
    let entries = match required.collect::<Vec<_>>().as_slice() {
        [(only, _)] => format!("{only} = {}", quoted(text)),
        [(first, _), (second, example)] => match comparison(text) {
            Some((name, value)) => format!("{first} = {}, {second} = {value}", quoted(name)),
            None if text.contains(char::is_whitespace) => return None,
            None => format!("{first} = {}, {example}", quoted(text)),
        },
        _ => return None,
    };
    Some(format!("write `{key} = {{ {} }}`", shown::text(&entries)))
}

/// The two sides of a comparison such as `name == 1`, if the second can be compared with.
fn comparison(text: &str) -> Option<(&str, &str)> {
    let is_between = |c: char| c == '=' || c.is_whitespace();
    let (name, value) = text.trim().rsplit_once(is_between)?;
    let is_text = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    let is_value = is_text || value.parse::<i64>().is_ok() || value.parse::<bool>().is_ok();
    let name = name.trim_end_matches(is_between);
    (is_value && !name.is_empty()).then_some((name, value))
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
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
fn with_key(key: &str, at: &At, message: &str) -> Reason {
    match at {
        At::File(_) | At::Preset(_) => Reason::new(format!("{}: {message}", literal(key))),
        At::Option(_) | At::Environment(_) => Reason::new(message),
    }
}

/// The headers of all tables that have this key.
fn headers_with(section: &'static Section, key: &str, headers: &mut BTreeSet<&'static str>) {
    headers.extend(section.setting(key).map(|_| section.header));
    for definition in section.settings() {
        if let Form::Table(inner, _) | Form::Tables(inner, _) = definition.form {
            headers_with(inner, key, headers);
        }
    }
}
