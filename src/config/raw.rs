//! The configuration as it was written: a tree of settings, each with its place, from the file
//! and with options and environment variables laid over it. Pure.

use toml::de::{DeTable, DeValue};

use super::define::{Form, Section};
use super::options::{Flag, flags};
use super::problem::{At, Report};
use crate::reason::Reason;
use crate::shown;

/// What options and environment variables set. They go before the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The settings; those of later ones go before those of earlier ones.
    pub settings: Vec<Override>,
}

/// One setting from outside the file.
#[derive(Debug, Clone)]
pub struct Override {
    /// The option or the environment variable.
    pub at: At,
    /// The name of the option.
    pub option: &'static str,
    /// One value, or several for a list.
    pub values: Vec<String>,
}

/// A setting's value and where it starts.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
}

/// What TOML can say, as far as podnudge has a use for it.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Number(String),
    Truth(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A date or a float.
    Other(&'static str),
}

/// One key of a table.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: At,
    pub(super) node: Node,
}

/// Reads the file. A syntax error is one problem and ends it.
pub(super) fn read(text: &str, report: &Report<'_>) -> Option<Vec<Entry>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let place = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    // The first in the file, and there the innermost; the others mostly follow from it.
    let Some(error) = errors.iter().rev().min_by_key(|error| place(error)) else {
        return Some(entries(table.into_inner()));
    };
    let message = error.message().replace('\n', ", ");
    let reason = Reason::new(format!("not TOML: {}", shown::text(&message)));
    report.problem(&At::File(place(error)), reason);
    None
}

fn entries(table: DeTable<'_>) -> Vec<Entry> {
    let entry = |(key, value): (toml::Spanned<_>, toml::Spanned<_>)| {
        let at = At::File(key.span().start);
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        Entry { key: key.into_owned(), at, node: node(value) }
    };
    table.into_iter().map(entry).collect()
}

fn node(value: toml::Spanned<DeValue<'_>>) -> Node {
    let at = At::File(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => Value::Number(number.to_string()),
        DeValue::Boolean(truth) => Value::Truth(truth),
        DeValue::Array(items) => Value::List(items.into_iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(entries(table)),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { at, value }
}

/// Lays options and environment variables over the file: those for podnudge itself over
/// `[agent]`, those for a rule over the only rule there is (or over a new one).
pub(super) fn overlay(
    root: &mut Vec<Entry>,
    overrides: &Overrides,
    file: &'static Section,
    report: &Report<'_>,
) {
    let flags = flags(file);
    for setting in &overrides.settings {
        let Some(flag) = flags.iter().find(|flag| flag.line.name == setting.option) else {
            continue;
        };
        let Some(value) = value(flag, setting) else { continue };
        let node = Node { at: setting.at.clone(), value };
        let path: Vec<&str> = flag.path.iter().map(String::as_str).collect();
        let ["rule", path @ ..] = path.as_slice() else {
            set(root, &path, node);
            continue;
        };
        let rules = slot(root, "rule", &setting.at, || Value::List(Vec::new()));
        let Value::List(rules) = &mut rules.value else { continue };
        if rules.is_empty() {
            rules.push(Node { at: setting.at.clone(), value: Value::Table(Vec::new()) });
        }
        match rules.as_mut_slice() {
            [Node { value: Value::Table(rule), .. }] => match path {
                _ if setting.option == "ca-file" => set_ca_file(rule, &node, report),
                [list, key] if flag.adds_table => add_table(rule, list, key, node),
                path => set(rule, path, node),
            },
            [_] => {}
            rules => report.problem(
                &setting.at,
                Reason::new(format!(
                    "cannot tell which of the {} rules of the file this is meant for",
                    rules.len()
                ))
                .hint("write it into the rule in the file; options change a rule only if it is the only one"),
            ),
        }
    }
}

/// What an option sets; `None` if nothing.
fn value(flag: &Flag, setting: &Override) -> Option<Value> {
    let text = |text: &str| Value::Text(text.to_owned());
    let node = |value| Node { at: setting.at.clone(), value };
    match (&flag.definition.form, setting.values.as_slice()) {
        (Form::Table(..), [truth]) if truth == "true" => Some(Value::Table(Vec::new())),
        (Form::Table(..), [truth]) if truth == "false" => None,
        (_, [words]) if flag.line.is_split => {
            Some(Value::List(words.split_whitespace().map(text).map(node).collect()))
        }
        (_, [one]) => Some(text(one)),
        (_, several) => Some(Value::List(several.iter().map(|one| node(text(one))).collect())),
    }
}

fn add_table(rule: &mut Vec<Entry>, list: &str, key: &str, node: Node) {
    let at = node.at.clone();
    let list = slot(rule, list, &at, || Value::List(Vec::new()));
    if let Value::List(tables) = &mut list.value {
        let entry = Entry { key: key.to_owned(), at: at.clone(), node };
        tables.push(Node { at, value: Value::Table(vec![entry]) });
    }
}

/// The CA file serves every https request of the rule.
fn set_ca_file(rule: &mut [Entry], node: &Node, report: &Report<'_>) {
    let mut used = false;
    for (key, url) in [("http", "url"), ("verify", "http"), ("check", "http")] {
        for request in tables(rule, key) {
            if matches!(find(request, url), Some(Value::Text(url)) if is_https(url)) {
                used = true;
                set(request, &["ca-file"], node.clone());
            }
        }
    }
    if !used {
        let reason = Reason::new("a CA file is only valid with an https URL");
        report.problem(&node.at, reason.hint("leave it out, or write https:// in the URL"));
    }
}

fn is_https(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"))
}

/// The table at `key`, or the tables in the list there.
fn tables<'a>(entries: &'a mut [Entry], key: &str) -> impl Iterator<Item = &'a mut Vec<Entry>> {
    let node = entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node);
    let nodes = match node {
        Some(Node { value: Value::List(nodes), .. }) => nodes.as_mut_slice(),
        Some(node) => std::slice::from_mut(node),
        None => &mut [],
    };
    nodes.iter_mut().filter_map(|node| match &mut node.value {
        Value::Table(table) => Some(table),
        _ => None,
    })
}

fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Value> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value)
}

fn set(entries: &mut Vec<Entry>, path: &[&str], node: Node) {
    let [key, rest @ ..] = path else { return };
    let slot = slot(entries, key, &node.at, || Value::Table(Vec::new()));
    if rest.is_empty() {
        // A table that is there keeps what it holds.
        if !matches!((&slot.value, &node.value), (Value::Table(_), Value::Table(_))) {
            *slot = node;
        }
        return;
    }
    if *key == "jitter" && matches!(slot.value, Value::Text(_)) {
        let window = Entry { key: "window".to_owned(), at: slot.at.clone(), node: slot.clone() };
        slot.value = Value::Table(vec![window]);
    }
    // A table that is something else in the file is reported when it is read.
    if let Value::Table(inner) = &mut slot.value {
        set(inner, rest, node);
    }
}

fn slot<'a>(
    entries: &'a mut Vec<Entry>,
    key: &str,
    at: &At,
    value: impl FnOnce() -> Value,
) -> &'a mut Node {
    let index = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        let node = Node { at: at.clone(), value: value() };
        entries.push(Entry { key: key.to_owned(), at: at.clone(), node });
        entries.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "found or pushed just above")]
    &mut entries[index].node
}
