//! Options and environment variables, which take precedence over the file. Pure.

use std::collections::BTreeMap;

use super::define::{Form, Section};
use super::options::Flag;
use super::parsers;
use super::problem::{At, Report};
use super::tree::{Entries, Node, Value, tables};
use podnudge_core::reason::Reason;

/// The settings of options and environment variables; later ones override earlier ones.
pub type Overrides = Vec<Override>;

/// One setting from outside the file.
#[derive(Debug, Clone)]
pub struct Override {
    /// The option or the environment variable.
    pub at: At,
    /// The option that it sets.
    pub flag: Flag,
    /// One value, or several for a list.
    pub values: Vec<String>,
}

impl Override {
    /// Whether it is a switch set to `false`, which removes the setting of the file.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.flag.is_switch() && self.values == ["false"]
    }

    /// Whether it turns a proof on or off, which presets do, too.
    fn is_of_proof(&self) -> bool {
        self.flag.path.iter().any(|key| key == "verify")
            && matches!(self.flag.definition.form, Form::Bool)
    }

    fn value(&self) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        let node = |value| Node { at: self.at.clone(), value };
        match (&self.flag.definition.form, self.values.as_slice()) {
            (Form::Bool, [_]) => Value::Bool(!self.is_off()),
            (Form::Table(..), [_]) => Value::Table(BTreeMap::new()),
            (_, [words]) if self.flag.line.is_split => {
                Value::List(words.split_whitespace().map(text).map(node).collect())
            }
            (_, [one]) => text(one),
            (_, several) => Value::List(several.iter().map(|one| node(text(one))).collect()),
        }
    }
}

/// Sets the values of options and environment variables in the tree of the file.
pub(super) fn overlay(root: &mut Entries, overrides: &[Override], report: &Report<'_>) {
    for setting in overrides {
        let (at, flag) = (&setting.at, &setting.flag);
        let path: Vec<&str> = flag.path.iter().map(String::as_str).collect();
        let rules = tables(root, "rule").count();
        let not_boolean = setting.values.iter().find_map(|text| parsers::boolean(text).err());
        match not_boolean.filter(|_| flag.is_switch()) {
            Some(reason) => report.problem(at, reason),
            None if path.first() == Some(&"rule") && rules > 1 => {
                let message = format!("only valid with a single rule, and the file has {rules}");
                report.problem(at, Reason::new(message).hint("set it in the rule in the file"));
            }
            // A preset would set it again. It is removed after that.
            None if setting.is_off() && !setting.is_of_proof() => remove(root, &path),
            None => {
                let node = Node { at: at.clone(), value: setting.value() };
                set(report.file, root, &path, node, report);
            }
        }
    }
}

/// Removes the proofs that a switch has turned off, once presets have added theirs.
pub(super) fn remove_proofs(root: &mut Entries, overrides: &[Override]) {
    for setting in overrides.iter().filter(|setting| setting.is_off() && setting.is_of_proof()) {
        let path: Vec<&str> = setting.flag.path.iter().map(String::as_str).collect();
        remove(root, &path);
    }
}

fn remove(entries: &mut Entries, path: &[&str]) {
    match path {
        [] => {}
        [key] => _ = entries.remove(*key),
        [key, rest @ ..] => tables(entries, key).for_each(|table| remove(table, rest)),
    }
}

/// Sets the value at a path of keys. Options are for the only rule, and add tables to its lists.
/// A table or list that is something else in the file is reported when it is read.
fn set(
    section: &'static Section,
    entries: &mut Entries,
    path: &[&str],
    node: Node,
    report: &Report<'_>,
) {
    let [key, rest @ ..] = path else { return };
    let at = node.at.clone();
    match section.setting(key).map(|definition| definition.form) {
        Some(Form::Table(inner, _)) if !rest.is_empty() => {
            let (_, slot) = slot(entries, key, &at, Value::Table(BTreeMap::new()));
            if let Value::Table(entries) = &mut slot.value {
                set(inner, entries, rest, node, report);
            }
        }
        Some(Form::Tables(inner, _)) => {
            let (_, slot) = slot(entries, key, &at, Value::List(Vec::new()));
            let Value::List(tables) = &mut slot.value else { return };
            if *key != "rule" || tables.is_empty() {
                tables.push(Node { at, value: Value::Table(BTreeMap::new()) });
            }
            if let Some(Node { value: Value::Table(entries), .. }) = tables.last_mut() {
                match rest {
                    [.., "ca-file"] => set_ca_file(entries, &node, report),
                    _ => set(inner, entries, rest, node, report),
                }
            }
        }
        _ => match (&node.value, entries.get(*key)) {
            // A table that is there keeps its entries.
            (Value::Table(_), Some((_, Node { value: Value::Table(_), .. }))) => {}
            _ => slot(entries, key, &at, Value::Bool(true)).1 = node,
        },
    }
}

/// The value at a key, which is added if it is missing.
fn slot<'a>(entries: &'a mut Entries, key: &str, at: &At, value: Value) -> &'a mut (At, Node) {
    let missing = || (at.clone(), Node { at: at.clone(), value });
    entries.entry(key.to_owned()).or_insert_with(missing)
}

/// Sets the CA file of every https request of the rule.
fn set_ca_file(rule: &mut Entries, node: &Node, report: &Report<'_>) {
    let is_https = |(_, url): &(At, Node)| matches!(&url.value, Value::Text(url) if url.to_ascii_lowercase().starts_with("https:"));
    let mut is_used = false;
    for (key, url) in [("http", "url"), ("verify", "http"), ("check", "http")] {
        for request in tables(rule, key).filter(|request| request.get(url).is_some_and(is_https)) {
            is_used = true;
            slot(request, "ca-file", &node.at, Value::Bool(true)).1 = node.clone();
        }
    }
    if !is_used {
        let reason = Reason::new("a CA file is only valid with an https URL");
        report.problem(&node.at, reason.hint("leave it out, or write https:// in the URL"));
    }
}
