//! The configuration file as a tree of keys and values, each with its place. Pure.

use toml::de::{DeTable, DeValue};

use super::problem::{At, Report};
use crate::reason::Reason;
use crate::shown;

/// A value, and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
}

/// The TOML values that podnudge uses.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Number {
        /// As the file writes it.
        text: String,
        /// The same number in decimal.
        decimal: String,
    },
    Bool(bool),
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

/// Parses the file; `None` after a syntax error was reported.
pub(super) fn read(text: &str, report: &Report<'_>) -> Option<Vec<Entry>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let place = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    // Only the first, and the innermost there: the others mostly follow from it.
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
        DeValue::Integer(number) => {
            let text = number.to_string();
            let value = i64::from_str_radix(number.as_str(), number.radix());
            let decimal = value.map_or_else(|_| text.clone(), |value| value.to_string());
            Value::Number { text, decimal }
        }
        DeValue::Boolean(truth) => Value::Bool(truth),
        DeValue::Array(items) => Value::List(items.into_iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(entries(table)),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { at, value }
}

/// The table at a key, or the tables in the list there.
pub(super) fn tables<'a>(
    entries: &'a mut [Entry],
    key: &str,
) -> impl Iterator<Item = &'a mut Vec<Entry>> {
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

pub(super) fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Value> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value)
}

/// The value at a key, which is added if it is missing.
pub(super) fn slot<'a>(
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
