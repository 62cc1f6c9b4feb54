//! The configuration file as a tree of keys and values, each with its place. Pure.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{At, Report};
use podnudge_core::collect;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// A value, and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
}

impl Node {
    /// A table with this value at the key `short`, which is written at `at`.
    pub(super) fn within(self, at: &At, short: &str) -> Self {
        let entry = |node| (short.to_owned(), (at.clone(), node));
        Self { at: self.at.clone(), value: Value::Table([entry(self)].into()) }
    }
}

/// The TOML values that podnudge uses.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Number {
        /// As the file writes it.
        text: String,
        /// The number in decimal.
        decimal: String,
    },
    Bool(bool),
    List(Vec<Node>),
    Table(Entries),
    /// A date or a float.
    Other(&'static str),
}

/// The keys of a table: the place of each, and its value.
pub(super) type Entries = BTreeMap<String, (At, Node)>;

/// Parses the file; `None` after a syntax error was reported.
pub(super) fn read(text: &str, report: &Report<'_>) -> Option<Entries> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let place = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    // Only the first, and the innermost there: the others mostly follow from it.
    let Some(error) = errors.iter().rev().min_by_key(|error| place(error)) else {
        return Some(entries(table.into_inner(), report));
    };
    let message = error.message().replace('\n', ", ");
    let reason = Reason::new(format!("not TOML: {}", shown::text(&message)));
    let reason = reason.hint(match other_format(text) {
        Some(format) => format!(
            "this looks like {format}, which needs a file with the ending `.yaml` or `.json`"
        ),
        None => {
            "text is in quotes, a list in brackets, and each key is in its table once".to_owned()
        }
    });
    report.problem(&report.at(place(error)), reason);
    None
}

/// Another format that the text looks like, judged by its first line.
pub(super) fn other_format(text: &str) -> Option<&'static str> {
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let first = text.lines().map(str::trim).find(is_content)?;
    let key = first.split_once(':').map_or("", |(key, _)| key);
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_yaml = first == "---"
        || first.starts_with("- ")
        || (!key.is_empty() && key.chars().all(is_key) && !first.contains('='));
    match first.chars().next() {
        Some('{') => Some("JSON"),
        _ => is_yaml.then_some("YAML"),
    }
}

fn entries(table: DeTable<'_>, report: &Report<'_>) -> Entries {
    let entry = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, Spanned<_>)| {
        let at = report.at(key.span().start);
        (key.into_inner().into_owned(), (at, node(value, report)))
    };
    collect::map(table.into_iter().map(entry))
}

fn node(value: Spanned<DeValue<'_>>, report: &Report<'_>) -> Node {
    let at = report.at(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let text = number.to_string();
            let value = i64::from_str_radix(number.as_str(), number.radix());
            let decimal = value.map_or_else(|_| text.clone(), |value| value.to_string());
            Value::Number { text, decimal }
        }
        DeValue::Boolean(truth) => Value::Bool(truth),
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item, report)).collect())
        }
        DeValue::Table(table) => Value::Table(entries(table, report)),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { at, value }
}

/// The table at a key, or the tables in the list there.
pub(super) fn tables<'a>(
    entries: &'a mut Entries,
    key: &str,
) -> impl Iterator<Item = &'a mut Entries> {
    let nodes = match entries.get_mut(key).map(|(_, node)| node) {
        Some(Node { value: Value::List(nodes), .. }) => nodes.as_mut_slice(),
        Some(node) => std::slice::from_mut(node),
        None => &mut [],
    };
    nodes.iter_mut().filter_map(|node| match &mut node.value {
        Value::Table(table) => Some(table),
        _ => None,
    })
}
