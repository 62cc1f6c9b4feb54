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

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::Value;

use crate::clock::UnixTime;

/// How long after an edit of the content another one may have the same time: the API server writes whole seconds.
const SAME_SECOND: Duration = Duration::from_secs(2);
/// The fields that are content. `stringData` of a Secret: the server turns it into `data`, but a writer that applies it
/// owns it under this name.
const CONTENT: [&str; 3] = ["f:data", "f:binaryData", "f:stringData"];
/// What tells a writer from others, and when it has written last.
const WRITER: [&str; 5] = ["manager", "operation", "apiVersion", "subresource", "time"];

/// The entries of one state of an object, as numbers computed from them: they may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writers {
    count: NonZeroU32,
    /// From all entries.
    all: u64,
    /// From those that own content: the writer, the time, and which keys.
    of_content: u64,
    /// The newest time of those entries, in seconds since the epoch; 0 if it is not known.
    content_at: u64,
    /// The newest time of the other entries, in seconds since the epoch; 0 if it is not known.
    others_at: u64,
}

/// What has made a new state of an object out of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// An edit of the content, as far as can be told.
    Content,
    /// A writer that owns no content.
    OtherWriter,
    /// The removal of a label or an annotation: it leaves no time, so it may hide an edit of the content in the second of
    /// the one before.
    Removal,
}

impl Writers {
    /// `None` without entries: then nothing is known.
    pub(super) fn of(entries: &[Value]) -> Option<Self> {
        let count = NonZeroU32::new(u32::try_from(entries.len()).unwrap_or(u32::MAX))?;
        let mut writers = Self { count, all: 0, of_content: 0, content_at: 0, others_at: 0 };
        for entry in entries {
            // Their order says nothing.
            writers.all = writers.all.wrapping_add(number(entry));
            let newest = if let Some(content) = content(entry) {
                let writer = WRITER.map(|key| entry.get(key));
                writers.of_content = writers.of_content.wrapping_add(number(&(writer, content)));
                &mut writers.content_at
            } else {
                &mut writers.others_at
            };
            let time = entry.get("time").and_then(Value::as_str).and_then(UnixTime::parse);
            *newest = time.unwrap_or_default().0.as_secs().max(*newest);
        }
        Some(writers)
    }

    /// When the content was edited last, by the clock of the API server, in whole seconds. Before Kubernetes 1.25 this
    /// does not follow each edit of a value.
    pub(super) fn content_at(&self) -> Option<UnixTime> {
        (self.content_at > 0).then_some(UnixTime(Duration::from_secs(self.content_at)))
    }

    /// Whether the one request that has made this state out of the one before has surely left the content as it was. That
    /// content was learned so long ago.
    pub(super) fn keeps_content(&self, before: &Self, age: Duration) -> bool {
        match self.cause(before) {
            Cause::Content => false,
            Cause::OtherWriter => true,
            Cause::Removal => age >= SAME_SECOND,
        }
    }

    fn cause(&self, before: &Self) -> Cause {
        if self.of_content != before.of_content || self.all == before.all {
            Cause::Content
        } else if self.others_at > before.others_at || self.count > before.count {
            Cause::OtherWriter
        } else {
            Cause::Removal
        }
    }
}

/// The content that the writer owns, if any. Fields that cannot be understood may be content.
fn content(entry: &Value) -> Option<[Option<&Value>; 3]> {
    let fields = entry.get("fieldsV1").filter(|fields| !fields.is_null())?;
    if !fields.is_object() {
        return Some([Some(fields), None, None]);
    }
    let names = CONTENT.map(|key| fields.get(key).filter(|names| !names.is_null()));
    names.iter().any(Option::is_some).then_some(names)
}

/// Another number for each value.
fn number(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
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
        let entries: Vec<Value> =
            entries.iter().map(|entry| serde_json::from_str(entry).expect("it is JSON")).collect();
        Writers::of(&entries).expect("there are entries")
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
        assert!(Writers::of(&[serde_json::json!({})]).is_some());
    }
}
