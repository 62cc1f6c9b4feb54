//! Writes settings as the file writes them. Pure.

use std::fmt::Write as _;

use toml::Value;

use super::define::{Form, Relation, Section};
use podnudge_core::collect;

/// A table of the file: its own lines, then the tables in it.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The key of each line, and the line.
    lines: Vec<(String, String)>,
    tables: Vec<(&'static str, Page)>,
}

impl Page {
    pub(super) fn value(&mut self, key: &str, form: &Form, text: String) {
        self.line(key, &literal(form, text));
    }

    pub(super) fn list(&mut self, key: &str, form: &Form, texts: impl Iterator<Item = String>) {
        let values: Vec<_> = texts.map(|text| literal(form, text)).collect();
        self.line(key, &format!("[{}]", values.join(", ")));
    }

    /// Tables at one key; inline, if the section is written inline.
    pub(super) fn tables(&mut self, key: &str, section: &Section, tables: Vec<Self>) {
        if !section.is_inline() {
            self.tables.extend(tables.into_iter().map(|table| (section.header, table)));
            return;
        }
        let inline: Vec<_> = tables.iter().map(Self::inline).collect();
        match inline.as_slice() {
            [] => {}
            [one] => self.line(key, one),
            several => self.line(key, &format!("[{}]", several.join(", "))),
        }
    }

    pub(super) fn pairs(&mut self, key: &str, pairs: impl Iterator<Item = (String, String)>) {
        let pairs: toml::Table = pairs.map(|(name, value)| (name, Value::from(value))).collect();
        if !pairs.is_empty() {
            self.line(key, &Value::Table(pairs).to_string());
        }
    }

    /// A comment for a setting without a value, which says what that means.
    pub(super) fn unset(&mut self, key: &str, meaning: &str) {
        if !meaning.is_empty() {
            self.lines.push((key.to_owned(), format!("# {key}: {meaning}")));
        }
    }

    /// Leaves out defaults that are only valid together with a key that is not set.
    pub(super) fn drop_unneeded(&mut self, section: &Section) {
        for relation in section.all_relations() {
            let Relation::Needs(keys, others) = relation else { continue };
            let is_set = |(key, line): &(String, String)| {
                others.contains(&key.as_str()) && !line.starts_with('#')
            };
            if !self.lines.iter().any(is_set) {
                self.lines.retain(|(key, _)| !keys.contains(&key.as_str()));
            }
        }
    }

    /// Sorts the tables of the actions; they are next to each other.
    pub(super) fn sort_actions(&mut self, order: &[&str]) {
        let rank = |header: &str| {
            let key = header.strip_prefix("[rule.")?.strip_suffix(']')?;
            order.iter().position(|action| *action == key)
        };
        let is_action = |(header, _): &(&str, Self)| rank(header).is_some();
        let actions = self.tables.chunk_by_mut(|one, next| is_action(one) == is_action(next));
        for chunk in actions {
            collect::sort(chunk, |(header, _)| rank(header));
        }
    }

    pub(super) fn text(self) -> String {
        let mut text: String = self.lines.into_iter().map(|(_, line)| line + "\n").collect();
        for (header, table) in self.tables {
            let gap = if text.is_empty() { "" } else { "\n" };
            // Writing to a `String` cannot fail.
            _ = write!(text, "{gap}{header}\n{}", table.text());
        }
        text
    }

    fn line(&mut self, key: &str, value: &str) {
        self.lines.push((key.to_owned(), format!("{key} = {value}")));
    }

    fn inline(&self) -> String {
        let lines: Vec<_> = self.lines.iter().map(|(_, line)| line.as_str()).collect();
        format!("{{ {} }}", lines.join(", "))
    }
}

fn literal(form: &Form, text: String) -> String {
    match form {
        Form::Number(..) | Form::Bool | Form::Scalar => text,
        _ => Value::from(text).to_string(),
    }
}
