//! Who has written an object, and when (`metadata.managedFields`): tells an edit of the content of a ConfigMap or a
//! Secret from one of a label or an annotation. Pure.
//!
//! The API server keeps an entry for each writer: a manager and its kind of request. When a request changes fields, its
//! writer's entry owns them, and has the time of the request, in whole seconds. Fields that a request removes leave all
//! entries, which keep their times. Before Kubernetes 1.25, an entry whose fields stay the same keeps its time, so that
//! another value of a key leaves no trace. So each change counts as an edit of the content, unless the entries exclude
//! that.
//!
//! Entries do not say which of their fields were written: a writer of content that changes only its label counts as if
//! it had changed the content.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::value::RawValue;

use podnudge_core::clock::UnixTime;

/// The entries of one state of an object, as numbers computed from them: they may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writers {
    /// From all entries.
    all: u64,
    /// From those that own content: the writer, the time, and which keys.
    of_content: u64,
    /// How many others there are, and the newest of their times.
    others: (usize, Option<UnixTime>),
}

/// What has made a new state of an object out of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An edit of the content, as far as can be told.
    Content,
    /// A writer that owns no content.
    OtherWriter,
    /// The removal of a label or an annotation: it leaves no time, so it may hide an edit of the content in the second of
    /// the one before.
    Removal,
}

/// An entry, as the API server sends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry<'a> {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    time: Option<String>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

/// Of the fields, those that are content.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default, rename = "f:data")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "f:binaryData")]
    binary: Option<&'a RawValue>,
    /// Of a Secret: the server turns it into `data`, but a writer that applies it owns it under this name.
    #[serde(borrow, default, rename = "f:stringData")]
    text: Option<&'a RawValue>,
}

impl Writers {
    /// `None` without entries: then nothing is known.
    pub(super) fn of(entries: &[Entry<'_>]) -> Option<Self> {
        let mut writers = Self { all: 0, of_content: 0, others: (0, None) };
        for entry in entries {
            let fields = entry.fields.map_or("", RawValue::get);
            writers.all = writers.all.wrapping_add(entry.number(&[fields]));
            if let Some(content) = entry.content() {
                writers.of_content = writers.of_content.wrapping_add(entry.number(&content));
            } else {
                let (count, newest) = writers.others;
                writers.others = (count + 1, newest.max(entry.time()));
            }
        }
        (!entries.is_empty()).then_some(writers)
    }

    /// What has made this state out of the one before, with one request.
    pub(super) fn cause(&self, before: &Self) -> Cause {
        let ((count, newest), (count_before, newest_before)) = (self.others, before.others);
        if self.of_content != before.of_content || self.all == before.all {
            Cause::Content
        } else if newest > newest_before || count > count_before {
            Cause::OtherWriter
        } else {
            Cause::Removal
        }
    }
}

impl Entry<'_> {
    pub(super) fn time(&self) -> Option<UnixTime> {
        self.time.as_deref().and_then(parse_time)
    }

    /// The names of the content that the writer owns, if any. Fields that cannot be understood may be content.
    fn content(&self) -> Option<[&str; 3]> {
        let fields = self.fields?.get();
        let Ok(Content { data, binary, text }) = serde_json::from_str(fields) else {
            return Some([fields, "", ""]);
        };
        let names = [data, binary, text].map(|names| names.map_or("", RawValue::get));
        names.iter().any(|names| !names.is_empty()).then_some(names)
    }

    /// Another number for each entry.
    fn number(&self, fields: &[&str]) -> u64 {
        let Self { manager, operation, api_version, subresource, time, .. } = self;
        let mut hasher = DefaultHasher::new();
        (manager, operation, api_version, subresource, time, fields).hash(&mut hasher);
        hasher.finish()
    }
}

/// A time as Kubernetes writes it.
pub(super) fn parse_time(text: &str) -> Option<UnixTime> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // Whole seconds are what Kubernetes writes.
    Some(UnixTime(Duration::from_secs(since.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{"f:data":{".":{},"f:a.conf":{}}}"#;
    const LABEL: &str = r#"{"f:metadata":{"f:labels":{".":{},"f:team":{}}}}"#;

    fn entry(manager: &str, second: &str, fields: &str) -> String {
        let time = if second.is_empty() {
            String::new()
        } else {
            format!(r#","time":"2026-01-01T00:00:{second}Z""#)
        };
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1"{time},"fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
        )
    }

    fn writers(entries: &[String]) -> Writers {
        let entries: Vec<Entry<'_>> =
            entries.iter().map(|entry| serde_json::from_str(entry).unwrap()).collect();
        Writers::of(&entries).unwrap()
    }

    #[test]
    fn an_edit_of_the_content_is_told_from_one_of_a_label() {
        let before = || vec![entry("apply", "10", DATA), entry("label", "20", LABEL)];
        let cause = |after: &[String]| writers(after).cause(&writers(&before()));
        let [data, label] = [&before()[0], &before()[1]].map(String::clone);
        let more = r#"{"f:data":{".":{},"f:a.conf":{},"f:b.conf":{}}}"#;
        let with_label = DATA.replacen('{', r#"{"f:metadata":{"f:annotations":{}},"#, 1);
        for (what, after, expected) in [
            ("a label", vec![data.clone(), entry("label", "30", LABEL)], Cause::OtherWriter),
            (
                "an annotation by another writer",
                vec![data.clone(), label.clone(), entry("argocd", "21", LABEL)],
                Cause::OtherWriter,
            ),
            (
                "an annotation in the second of the label",
                vec![data.clone(), label.clone(), entry("argocd", "20", LABEL)],
                Cause::OtherWriter,
            ),
            ("a label is removed", vec![data.clone()], Cause::Removal),
            ("a value", vec![entry("apply", "11", DATA), label.clone()], Cause::Content),
            ("a value, in the same second", before(), Cause::Content),
            ("another order", vec![label.clone(), data.clone()], Cause::Content),
            ("a key is added", vec![entry("apply", "10", more), label.clone()], Cause::Content),
            ("all keys are removed", vec![label.clone()], Cause::Content),
            (
                "another writer of a value",
                vec![entry("edit", "30", DATA), label.clone()],
                Cause::Content,
            ),
            (
                "binary data",
                vec![
                    data.clone(),
                    label.clone(),
                    entry("b", "30", r#"{"f:binaryData":{"f:x":{}}}"#),
                ],
                Cause::Content,
            ),
            (
                "a Secret that is applied with text",
                vec![
                    data.clone(),
                    label.clone(),
                    entry("b", "30", r#"{"f:stringData":{"f:x":{}}}"#),
                ],
                Cause::Content,
            ),
            (
                "the writer of the content changes a label",
                vec![entry("apply", "30", &with_label), label.clone()],
                Cause::Content,
            ),
            (
                "fields of another form",
                vec![data.clone(), label.clone(), entry("b", "30", r#"{"f:data":7}"#)],
                Cause::Content,
            ),
            (
                "no fields that can be read",
                vec![data.clone(), label.clone(), entry("b", "30", "7")],
                Cause::Content,
            ),
            ("no time", vec![data, entry("label", "", LABEL)], Cause::Removal),
        ] {
            assert_eq!(cause(&after), expected, "{what}");
        }
    }

    #[test]
    fn without_entries_nothing_is_known() {
        assert_eq!(Writers::of(&[]), None);
        let empty: Entry<'_> = serde_json::from_str("{}").unwrap();
        assert!(Writers::of(&[empty]).is_some());
    }
}
