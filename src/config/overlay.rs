//! Options and environment variables, which take precedence over the file. Pure.

use super::define::{Form, Section};
use super::options::{Flag, flags};
use super::problem::{At, Report};
use super::tree::{Entry, Node, Value, find, slot, tables};
use crate::reason::Reason;

/// The settings of options and environment variables.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Later settings override earlier ones.
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

/// Sets the values of options and environment variables in the tree of the file.
pub(super) fn overlay(
    root: &mut Vec<Entry>,
    overrides: &Overrides,
    file: &'static Section,
    report: &Report<'_>,
) {
    let flags = flags(file);
    for setting in &overrides.settings {
        let flag = flags.iter().find(|flag| flag.line.name == setting.option);
        let Some((flag, value)) = flag.and_then(|flag| Some((flag, value(flag, setting)?))) else {
            continue;
        };
        let node = Node { at: setting.at.clone(), value };
        let path: Vec<&str> = flag.path.iter().map(String::as_str).collect();
        set(file, root, &path, node, report);
    }
}

/// The value that an option sets; `None` if it sets nothing.
fn value(flag: &Flag, setting: &Override) -> Option<Value> {
    let text = |text: &str| Value::Text(text.to_owned());
    let node = |value| Node { at: setting.at.clone(), value };
    match (&flag.definition.form, setting.values.as_slice()) {
        (Form::Table(..), [switch]) if switch == "true" => Some(Value::Table(Vec::new())),
        (Form::Table(..), [switch]) if switch == "false" => None,
        (_, [words]) if flag.line.is_split => {
            Some(Value::List(words.split_whitespace().map(text).map(node).collect()))
        }
        (_, [one]) => Some(text(one)),
        (_, several) => Some(Value::List(several.iter().map(|one| node(text(one))).collect())),
    }
}

/// Sets the value at a path of keys. Options are for the only rule, and add tables to its lists.
/// A table or list that is something else in the file is reported when it is read.
fn set(
    section: &'static Section,
    entries: &mut Vec<Entry>,
    path: &[&str],
    node: Node,
    report: &Report<'_>,
) {
    let [key, rest @ ..] = path else { return };
    let at = node.at.clone();
    match section.setting(key).map(|definition| definition.form) {
        Some(Form::Table(inner, short)) if !rest.is_empty() => {
            let slot = slot(entries, key, &at, || Value::Table(Vec::new()));
            if let (Some(short), Value::Text(_) | Value::Number { .. }) = (short, &slot.value) {
                let key = short.to_owned();
                let value = Entry { key, at: slot.at.clone(), node: slot.clone() };
                slot.value = Value::Table(vec![value]);
            }
            if let Value::Table(entries) = &mut slot.value {
                set(inner, entries, rest, node, report);
            }
        }
        Some(Form::Tables(inner, _)) => {
            let slot = slot(entries, key, &at, || Value::List(Vec::new()));
            let Value::List(tables) = &mut slot.value else { return };
            if *key != "rule" || tables.is_empty() {
                tables.push(Node { at: at.clone(), value: Value::Table(Vec::new()) });
            }
            if *key == "rule" && tables.len() > 1 {
                return several_rules(tables.len(), &at, report);
            }
            if let Some(Node { value: Value::Table(entries), .. }) = tables.last_mut() {
                match rest {
                    [.., "ca-file"] => set_ca_file(entries, &node, report),
                    _ => set(inner, entries, rest, node, report),
                }
            }
        }
        _ => {
            let slot = slot(entries, key, &at, || node.value.clone());
            // A table that is there keeps its entries.
            if !matches!((&slot.value, &node.value), (Value::Table(_), Value::Table(_))) {
                *slot = node;
            }
        }
    }
}

fn several_rules(rules: usize, at: &At, report: &Report<'_>) {
    let message = format!("cannot tell which of the {rules} rules of the file this is meant for");
    let hint =
        "write it into the rule in the file; options change a rule only if it is the only one";
    report.problem(at, Reason::new(message).hint(hint));
}

/// Sets the CA file of every https request of the rule.
fn set_ca_file(rule: &mut [Entry], node: &Node, report: &Report<'_>) {
    let mut used = false;
    for (key, url) in [("http", "url"), ("verify", "http"), ("check", "http")] {
        for request in tables(rule, key) {
            if matches!(find(request, url), Some(Value::Text(url)) if is_https(url)) {
                used = true;
                *slot(request, "ca-file", &node.at, || Value::Bool(true)) = node.clone();
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
