//! What podnudge reads of ConfigMaps and Secrets: their metadata (`PartialObjectMetadata` of `meta.k8s.io/v1`), listed
//! and watched; and which changes of an object are edits of its content (`writers.rs`). Annotations are not kept: that of
//! `kubectl apply` has the content in it. Pure.

mod name;
mod watch_line;
mod writers;

use std::time::Duration;

use serde_json::Value;

use crate::api_error::ApiError;
use crate::clock::UnixTime;
use crate::reason::Reason;
pub use name::{ObjectKind, ObjectName};
pub use watch_line::Line;
pub use writers::Writers;

/// The most bytes of a name, a version or a UID: those of Kubernetes have at most 253.
const LONGEST: usize = 256;
const VERSION: &str = "resourceVersion";

/// What is read of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The name of the object.
    pub name: String,
    /// What it is like.
    pub state: State,
}

/// One state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Another one for each object, also of the same name.
    pub uid: String,
    /// Another one for each state (`resourceVersion`).
    pub version: String,
    /// Who has written it, if that is known.
    pub writers: Option<Writers>,
}

/// A list of objects, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectsPage {
    /// The objects of this part.
    pub objects: Vec<Metadata>,
    /// Where the list goes on, and its version.
    pub end: PageEnd,
}

/// What a part of a list says of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEnd {
    /// The version of the list, from which a watch goes on.
    pub version: String,
    /// With this parameter, the next part follows.
    pub next: Option<String>,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object was created or changed.
    Present(Metadata),
    /// The object was deleted; the version is that of the deletion.
    Deleted(Metadata),
    /// Nothing has changed until this version.
    Bookmark(String),
}

impl Metadata {
    /// Reads the metadata of an object.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(item: &[u8]) -> Result<Self, Reason> {
        let object = serde_json::from_slice::<Value>(item);
        Self::of(&object.map_err(|_| Reason::new("an item of the list is not an object"))?)
    }

    fn of(object: &Value) -> Result<Self, Reason> {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let (uid, version) = (text(object, "uid")?, text(object, VERSION)?);
        let writers = entries.and_then(|entries| Writers::of(entries));
        Ok(Self { name: text(object, "name")?, state: State { uid, version, writers } })
    }
}

impl State {
    /// Whether it is the same state.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (&self.uid, &self.version) == (&other.uid, &other.version)
    }

    /// Whether the one request that has made this state out of the one before has surely left the content as it was. That
    /// content was learned so long ago.
    #[must_use]
    pub fn keeps_content(&self, before: &Self, age: Duration) -> bool {
        let writers = self.writers.zip(before.writers);
        self.uid == before.uid
            && writers.is_some_and(|(writers, before)| writers.keeps_content(&before, age))
    }

    /// When the content was edited last, by the clock of the API server, in whole seconds. Before Kubernetes 1.25 this
    /// does not follow each edit of a value.
    #[must_use]
    pub fn content_at(&self) -> Option<UnixTime> {
        self.writers.and_then(|writers| writers.content_at())
    }
}

impl ObjectsPage {
    /// Reads a list.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(list: &[u8]) -> Result<Self, Reason> {
        let list = read_list(list)?;
        let objects = match list.get("items") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().map(Metadata::of).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(Reason::new("the answer is not a list: its items are none")),
        };
        Ok(Self { objects, end: PageEnd::of(&list)? })
    }
}

impl PageEnd {
    /// Reads a list of which the items were taken out.
    ///
    /// # Errors
    /// If it is no list.
    pub fn parse(list: &[u8]) -> Result<Self, Reason> {
        Self::of(&read_list(list)?)
    }

    fn of(list: &Value) -> Result<Self, Reason> {
        let next = list.pointer("/metadata/continue").and_then(Value::as_str);
        let next = next.filter(|next| !next.is_empty()).map(str::to_owned);
        Ok(Self { version: text(list, VERSION)?, next })
    }
}

impl WatchEvent {
    /// Reads a line of a watch; `None` for an event of a later Kubernetes.
    ///
    /// # Errors
    /// If the watch cannot go on: the server says so, or the line is no event.
    pub fn parse(line: &[u8]) -> Result<Option<Self>, ApiError> {
        let Some(line) = Line::parse(line)? else { return Ok(None) };
        let event = match line {
            Line::Present(object) => Metadata::of(&object).map(Self::Present),
            Line::Deleted(object) => Metadata::of(&object).map(Self::Deleted),
            Line::Bookmark(object) => text(&object, VERSION).map(Self::Bookmark),
        };
        event.map(Some).map_err(ApiError::Unusable)
    }
}

fn read_list(list: &[u8]) -> Result<Value, Reason> {
    serde_json::from_slice(list)
        .map_err(|error| Reason::new(format!("the answer is not a list, or is cut off: {error}")))
}

/// A text of the metadata that must be there.
fn text(object: &Value, key: &str) -> Result<String, Reason> {
    let text = object.get("metadata").and_then(|it| it.get(key)).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty() && text.len() <= LONGEST);
    text.map(str::to_owned).ok_or_else(|| {
        Reason::new("the answer has an object without a usable name, `uid` or `resourceVersion`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLY: &str = r#"{"manager":"kubectl","time":"2026-01-01T00:00:05Z","fieldsV1":{"f:data":{".":{},"f:a":{}}}}"#;
    const LABEL: &str = r#"{"manager":"label","time":"2026-01-01T00:00:09Z","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}}"#;

    fn object(entries: &str) -> String {
        format!(
            r#"{{"kind":"PartialObjectMetadata","metadata":{{"name":"app","uid":"u1","resourceVersion":"7","annotations":{{"a":"b"}},"managedFields":{entries}}}}}"#
        )
    }

    fn metadata(entries: &str) -> Metadata {
        Metadata::parse(object(entries).as_bytes()).expect("it is an object")
    }

    #[test]
    fn the_content_has_the_time_of_its_writers() {
        let seconds = |entries: &str| {
            let at = metadata(entries).state.content_at();
            at.map(|at| at.0.as_secs() - 1_767_225_600)
        };
        assert_eq!(seconds(&format!("[{APPLY}]")), Some(5));
        assert_eq!(seconds(&format!("[{LABEL},{APPLY}]")), Some(5));
        let binary = APPLY.replace("f:data", "f:binaryData").replace(":05Z", ":07Z");
        assert_eq!(seconds(&format!("[{binary},{APPLY}]")), Some(7));
        let timeless = r#"[{"fieldsV1":{"f:data":{}}}]"#;
        for unknown in [&format!("[{LABEL}]"), timeless, "[]", "null", "7", "[7]"] {
            assert_eq!(seconds(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_state_keeps_the_content_if_its_writers_say_so() {
        let keeps = |before: &str, after: &str, age: u64| {
            let [before, after] = [before, after].map(|entries| metadata(entries).state);
            after.keeps_content(&before, Duration::from_secs(age))
        };
        let (bare, labelled) = (format!("[{APPLY}]"), format!("[{APPLY},{LABEL}]"));
        assert!(keeps(&bare, &labelled, 0), "a label");
        assert!(keeps(&labelled, &labelled.replace(":09Z", ":10Z"), 0), "it was changed");
        assert!(keeps(&labelled, &bare, 2), "it was removed");
        assert!(!keeps(&labelled, &bare, 1), "perhaps with an edit in the same second");
        assert!(!keeps(&bare, &bare.replace(":05Z", ":06Z"), 9));
        assert!(!keeps(&bare, &bare, 9), "twice within a second, or before Kubernetes 1.25");
        let empty = format!("[{LABEL}]");
        assert!(!keeps(&empty, &labelled, 9) && !keeps(&labelled, &empty, 9));
        assert!(!keeps("[]", "[]", 9) && !keeps("[]", &bare, 9), "nothing is known");
        let state = metadata(&labelled).state;
        let other = State { uid: "u2".to_owned(), ..metadata(&bare).state };
        assert!(!state.keeps_content(&other, Duration::from_secs(9)), "another object");
        assert!(state.is(&metadata(&bare).state) && !state.is(&other));
    }

    #[test]
    fn a_list_has_its_own_version_and_perhaps_a_next_part() {
        let list = |items: &str, next: &str| {
            let text = format!(
                r#"{{"metadata":{{"resourceVersion":"12","continue":"{next}"}},"items":{items}}}"#
            );
            let page = ObjectsPage::parse(text.as_bytes());
            if let Ok(page) = &page {
                assert_eq!(PageEnd::parse(text.as_bytes()).as_ref(), Ok(&page.end));
            }
            page
        };
        let end = |next: Option<&str>| {
            let next = next.map(str::to_owned);
            PageEnd { version: "12".to_owned(), next }
        };
        let one = format!("[{}]", object("[]"));
        let page = ObjectsPage { objects: vec![metadata("[]")], end: end(Some("abc")) };
        assert_eq!(list(&one, "abc"), Ok(page));
        let none = Ok(ObjectsPage { objects: Vec::new(), end: end(None) });
        assert_eq!([list("[]", ""), list("null", "")], [none.clone(), none]);
        for items in [r#"[{"metadata":{"name":"app","resourceVersion":"1"}}]"#, "7", "[7]"] {
            assert!(list(items, "").is_err(), "{items}");
        }
        for text in ["", "{}", r#"{"metadata":{"resourceVersion":""},"items":[]}"#] {
            assert!(ObjectsPage::parse(text.as_bytes()).is_err(), "{text}");
            assert!(PageEnd::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_watch_tells_states_deletions_and_versions() {
        let event = |kind: &str, object: &str| {
            WatchEvent::parse(format!(r#"{{"object":{object},"type":"{kind}"}}"#).as_bytes())
        };
        let (text, metadata) = (object("[]"), metadata("[]"));
        assert_eq!(event("ADDED", &text), Ok(Some(WatchEvent::Present(metadata.clone()))));
        assert_eq!(event("DELETED", &text), Ok(Some(WatchEvent::Deleted(metadata))));
        let mark = r#"{"kind":"PartialObjectMetadata","metadata":{"resourceVersion":"90"}}"#;
        assert_eq!(event("BOOKMARK", mark), Ok(Some(WatchEvent::Bookmark("90".to_owned()))));
        assert_eq!(event("LATER", &text), Ok(None));
        assert!(matches!(event("ERROR", r#"{"code":410}"#), Err(ApiError::Gone(_))));
        for object in ["{}", mark] {
            let error = event("ADDED", object);
            assert!(matches!(error, Err(ApiError::Unusable(_))), "{object}: {error:?}");
        }
    }
}
