//! Writes settings as the file writes them. Pure.

use std::fmt::Write as _;

use toml::Value;

use super::define::{Form, Relation, Section, Settings, Writer, key_of};

/// A table as it is written: its own keys, then the tables in it.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The key of each line, and the line.
    lines: Vec<(String, String)>,
    tables: Vec<(&'static str, Page)>,
}

impl Writer for Page {
    fn value(&mut self, name: &str, form: &Form, text: String) {
        self.line(name, &literal(form, text));
    }

    fn optional(&mut self, name: &str, form: &Form, text: Option<String>, without: &str) {
        match text {
            Some(text) => self.value(name, form, text),
            None => self.without(name, without),
        }
    }

    fn list(&mut self, name: &str, form: &Form, texts: Vec<String>, without: &str) {
        if texts.is_empty() {
            return self.without(name, without);
        }
        let values: Vec<_> = texts.into_iter().map(|text| literal(form, text)).collect();
        self.line(name, &format!("[{}]", values.join(", ")));
    }

    fn tables<'a, S: Settings + 'a>(
        &mut self,
        name: &str,
        tables: impl IntoIterator<Item = &'a S>,
    ) {
        let written: Vec<_> = tables.into_iter().map(Self::of).collect();
        if !S::SECTION.is_inline() {
            self.tables.extend(written.into_iter().map(|table| (S::SECTION.header, table)));
            return;
        }
        let written: Vec<_> = written.iter().map(Self::in_one_line).collect();
        match written.as_slice() {
            [] => {}
            [one] => self.line(name, one),
            several => self.line(name, &format!("[{}]", several.join(", "))),
        }
    }

    fn pairs(&mut self, name: &str, pairs: impl Iterator<Item = (String, String)>) {
        let pairs: toml::Table = pairs.map(|(name, value)| (name, Value::from(value))).collect();
        if !pairs.is_empty() {
            self.line(name, &Value::Table(pairs).to_string());
        }
    }
}

impl Page {
    pub(super) fn of<S: Settings>(table: &S) -> Self {
        let mut writer = Self::default();
        table.write(&mut writer);
        S::SECTION.all_relations().into_iter().for_each(|relation| writer.keep(relation));
        writer
    }

    fn in_one_line(&self) -> String {
        let lines: Vec<_> = self.lines.iter().map(|(_, line)| line.as_str()).collect();
        format!("{{ {} }}", lines.join(", "))
    }

    fn without(&mut self, name: &str, without: &str) {
        if !without.is_empty() {
            let key = key_of(name);
            let line = format!("# {key}: {without}");
            self.lines.push((key, line));
        }
    }

    fn line(&mut self, name: &str, value: &str) {
        let key = key_of(name);
        let line = format!("{key} = {value}");
        self.lines.push((key, line));
    }

    /// Leaves out defaults that are not valid with what is set.
    fn keep(&mut self, relation: &Relation) {
        let Relation::Needs(keys, others) = relation else { return };
        let is_set = |(key, line): &(String, String)| {
            others.contains(&key.as_str()) && !line.starts_with('#')
        };
        if !self.lines.iter().any(is_set) {
            self.lines.retain(|(key, _)| !keys.contains(&key.as_str()));
        }
    }

    pub(super) fn table(&mut self, table: Self, section: &Section) {
        self.tables.push((section.header, table));
    }

    /// Puts the actions into this order.
    pub(super) fn order(&mut self, actions: &[&str]) {
        let place = |header: &str| {
            let of = header.strip_prefix("[rule.")?.strip_suffix(']')?;
            actions.iter().position(|action| *action == of)
        };
        let first = self.tables.iter().position(|(header, _)| place(header).is_some());
        let (mut these, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.tables).into_iter().partition(|(one, _)| place(one).is_some());
        these.sort_by_key(|(header, _)| place(header));
        let mut all = others;
        let at = first.unwrap_or_default().min(all.len());
        all.splice(at..at, these);
        self.tables = all;
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
}

fn literal(form: &Form, text: String) -> String {
    match form {
        Form::Number(..) | Form::Truth | Form::Scalar => text,
        _ => Value::from(text).to_string(),
    }
}
