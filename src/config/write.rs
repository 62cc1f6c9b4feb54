//! Writes settings as the file writes them. Pure.

use std::fmt::Write as _;

use toml::Value;

use super::define::{Form, Relation, Section};

/// A table of the file: its own lines, then the tables in it.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The key of each line, and the line.
    lines: Vec<(String, String)>,
    tables: Vec<(&'static str, Page)>,
}

impl Page {
    pub(super) fn value(&mut self, name: &str, form: &Form, text: String) {
        self.line(name, &literal(form, text));
    }

    pub(super) fn list(&mut self, name: &str, form: &Form, texts: impl Iterator<Item = String>) {
        let values: Vec<_> = texts.map(|text| literal(form, text)).collect();
        self.line(name, &format!("[{}]", values.join(", ")));
    }

    /// Tables at one key; inline, if the section is written inline.
    pub(super) fn tables(&mut self, name: &str, section: &Section, tables: Vec<Self>) {
        if !section.is_inline() {
            self.tables.extend(tables.into_iter().map(|table| (section.header, table)));
            return;
        }
        let inline: Vec<_> = tables.iter().map(Self::inline).collect();
        match inline.as_slice() {
            [] => {}
            [one] => self.line(name, one),
            several => self.line(name, &format!("[{}]", several.join(", "))),
        }
    }

    pub(super) fn pairs(&mut self, name: &str, pairs: impl Iterator<Item = (String, String)>) {
        let pairs: toml::Table = pairs.map(|(name, value)| (name, Value::from(value))).collect();
        if !pairs.is_empty() {
            self.line(name, &Value::Table(pairs).to_string());
        }
    }

    /// A comment for a setting without a value, which says what that means.
    pub(super) fn unset(&mut self, name: &str, meaning: &str) {
        if !meaning.is_empty() {
            let key = name.replace('_', "-");
            let line = format!("# {key}: {meaning}");
            self.lines.push((key, line));
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
            chunk.sort_by_key(|(header, _)| rank(header));
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

    fn line(&mut self, name: &str, value: &str) {
        let key = name.replace('_', "-");
        let line = format!("{key} = {value}");
        self.lines.push((key, line));
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
