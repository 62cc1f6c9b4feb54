//! What `podnudge sync` reads of ConfigMaps and Secrets: when their content was edited, from the metadata alone. Pure.
//!
//! `metadata.managedFields` has an entry for each manager of the object: the fields that it has set, and when it has
//! changed one of them last. The content is in `data` and `binaryData`; so the newest time of an entry with one of
//! these is that of the last edit of the content, and labels and annotations of other managers do not change it. A
//! manager that has set both, such as `kubectl edit`, has one time for both: then an edit of a label counts, too.
//! Kubernetes writes whole seconds.
//!
//! Two edits within a second have the same time, and before Kubernetes 1.25 the time does not follow an edit that sets no
//! other fields. So a change that none of the other entries shows counts as an edit of the content, too.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::api_error::ApiError;
use crate::clock::UnixTime;
use crate::reason::Reason;
use crate::shown;

/// The most bytes of a name, a version or a UID: those of Kubernetes have at most 253.
const LONGEST: usize = 256;
const VERSION: &str = "resourceVersion";

/// One state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectState {
    /// Its name.
    pub name: String,
    /// Another one for each object, also of the same name.
    pub uid: String,
    /// Another one for each state (`resourceVersion`).
    pub version: String,
    /// When its content was edited.
    pub content: Content,
}

/// When the content of an object was edited last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The object has no `managedFields`: it is not known.
    Unknown,
    /// It has no content.
    Empty,
    /// In this second.
    Edited {
        /// By the clock of the API server, in whole seconds.
        at: UnixTime,
        /// Another one if another manager has changed something: a digest of their entries.
        others: u64,
    },
}

impl Content {
    /// The second of the last edit, if it is known.
    #[must_use]
    pub fn edited_at(self) -> Option<UnixTime> {
        match self {
            Self::Edited { at, .. } => Some(at),
            Self::Unknown | Self::Empty => None,
        }
    }

    /// Whether the content was edited between this state of an object and a later one.
    pub(super) fn is_edited_in(self, later: Self) -> bool {
        match (self, later) {
            (Self::Unknown, _) | (_, Self::Unknown) => true,
            (Self::Edited { at: before, others: last }, Self::Edited { at, others }) => {
                before != at || last == others
            }
            (before, after) => before != after,
        }
    }
}

/// A part of a list of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectsPage {
    /// The objects of this part.
    pub objects: Vec<ObjectState>,
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

/// A line of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectEvent {
    /// The object was created or changed.
    Present(ObjectState),
    /// It was deleted: its name, and the version of the deletion.
    Deleted(String, String),
    /// Nothing has changed until this version.
    Bookmark(String),
}

impl ObjectState {
    /// Reads the metadata of an object (`PartialObjectMetadata`).
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(item: &[u8]) -> Result<Self, Reason> {
        let object = serde_json::from_slice::<Value>(item);
        Self::of(&object.map_err(|_| Reason::new("an item of the list is not an object"))?)
    }

    fn of(object: &Value) -> Result<Self, Reason> {
        let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        Ok(Self {
            name: checked(object, "name")?,
            uid: checked(object, "uid")?,
            version: checked(object, VERSION)?,
            content: content(managers.map(Vec::as_slice).unwrap_or_default()),
        })
    }
}

impl PageEnd {
    /// Reads a list of which the items were taken out.
    ///
    /// # Errors
    /// If it is no list.
    pub fn parse(list: &[u8]) -> Result<Self, Reason> {
        let list = serde_json::from_slice::<Value>(list)
            .map_err(|_| Reason::new("the answer is not a list, or is cut off"))?;
        let next = list.pointer("/metadata/continue").and_then(Value::as_str);
        let next = next.filter(|next| !next.is_empty()).map(str::to_owned);
        Ok(Self { version: checked(&list, VERSION)?, next })
    }
}

impl ObjectEvent {
    /// Reads a line of a watch; `None` for an event of a later Kubernetes.
    ///
    /// # Errors
    /// If the watch cannot go on: the server says so, or the line is no event.
    pub fn parse(line: &[u8]) -> Result<Option<Self>, ApiError> {
        let line = serde_json::from_slice::<Value>(line).unwrap_or_default();
        let kind = line.get("type").and_then(Value::as_str);
        let object = line.get("object").filter(|object| object.is_object());
        let Some((kind, object)) = kind.zip(object) else {
            return Err(ApiError::Unusable(Reason::new("a line of the watch is no event")));
        };
        let read = match kind {
            "ERROR" => return Err(ended(object)),
            "BOOKMARK" => checked(object, VERSION).map(Self::Bookmark),
            "ADDED" | "MODIFIED" => ObjectState::of(object).map(Self::Present),
            "DELETED" => ObjectState::of(object).map(|it| Self::Deleted(it.name, it.version)),
            // A later Kubernetes may have more types.
            _ => return Ok(None),
        };
        read.map(Some).map_err(ApiError::Unusable)
    }
}

/// The server has ended the watch with this `metav1.Status`.
fn ended(status: &Value) -> ApiError {
    let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
    let message = shown::one_line(message.as_bytes());
    let reason = Reason::new(format!("the API server ended the watch: {message}"));
    match status.get("code").and_then(Value::as_u64) {
        Some(410) => ApiError::Gone(reason),
        Some(429) => ApiError::Throttled(reason, None),
        _ => ApiError::Failed(reason, None),
    }
}

fn content(managers: &[Value]) -> Content {
    let has_content = |manager: &&Value| {
        let fields = manager.get("fieldsV1");
        fields.is_some_and(|it| it.get("f:data").is_some() || it.get("f:binaryData").is_some())
    };
    if managers.is_empty() {
        return Content::Unknown;
    }
    if !managers.iter().any(|manager| has_content(&manager)) {
        return Content::Empty;
    }
    let time = |manager: &Value| parse_time(manager.get("time")?.as_str()?);
    match managers.iter().filter(has_content).filter_map(time).max() {
        Some(at) => {
            let others = managers.iter().filter(|manager| !has_content(manager));
            Content::Edited { at, others: digest(others) }
        }
        None => Content::Unknown,
    }
}

/// FNV-1a, which is enough to see a difference.
fn digest<'a>(managers: impl Iterator<Item = &'a Value>) -> u64 {
    let texts = managers.flat_map(|manager| {
        ["manager", "operation", "time"].map(|key| manager.get(key).and_then(Value::as_str))
    });
    let bytes = texts.flat_map(|text| text.unwrap_or_default().bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The time in a field of an object, in whole seconds.
pub(super) fn parse_time(text: &str) -> Option<UnixTime> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(UnixTime(Duration::from_secs(since.as_secs())))
}

fn checked(object: &Value, key: &str) -> Result<String, Reason> {
    let text = object.get("metadata").and_then(|it| it.get(key)).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty() && text.len() <= LONGEST);
    text.map(str::to_owned).ok_or_else(|| {
        Reason::new("the answer has an object without a usable name, `uid` or `resourceVersion`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(managers: &str) -> ObjectState {
        let text = format!(
            r#"{{"metadata":{{"name":"app","uid":"u","resourceVersion":"7","annotations":{{"a":"b"}},"managedFields":{managers}}}}}"#
        );
        ObjectState::parse(text.as_bytes()).expect("it is an object")
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime(Duration::from_secs(1_767_225_600 + seconds))
    }

    const APPLY: &str = r#"{"manager":"kubectl","time":"2026-01-01T00:00:05Z","fieldsV1":{"f:data":{".":{},"f:a":{}}}}"#;
    const LABEL: &str = r#"{"manager":"label","time":"2026-01-01T00:00:09Z","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}}"#;

    #[test]
    fn the_content_has_the_time_of_the_managers_of_data() {
        let edited = |managers: &str| state(managers).content.edited_at();
        assert_eq!(edited(&format!("[{APPLY}]")), Some(at(5)));
        assert_eq!(edited(&format!("[{LABEL},{APPLY}]")), Some(at(5)));
        let binary = APPLY.replace("f:data", "f:binaryData").replace(":05Z", ":07Z");
        assert_eq!(edited(&format!("[{APPLY},{binary}]")), Some(at(7)));
        assert_eq!(state(&format!("[{LABEL}]")).content, Content::Empty);
        assert_eq!([state("[]").content, state("null").content], [Content::Unknown; 2]);
        let timeless = r#"[{"fieldsV1":{"f:data":{}}}]"#;
        assert_eq!(state(timeless).content, Content::Unknown);
    }

    #[test]
    fn only_a_new_time_of_the_content_is_an_edit_or_a_change_that_no_other_manager_shows() {
        let content = |managers: &str| state(managers).content;
        let is_edit = |before: &str, after: &str| content(before).is_edited_in(content(after));
        let (bare, labelled) = (format!("[{APPLY}]"), format!("[{APPLY},{LABEL}]"));
        let later = bare.replace(":05Z", ":06Z");
        assert!(is_edit(&bare, &later));
        assert!(is_edit(&labelled, &later));
        assert!(is_edit(&later, &bare), "a manager has withdrawn");
        assert!(!is_edit(&bare, &labelled), "a label");
        assert!(!is_edit(&labelled, &bare), "the label was removed");
        assert!(!is_edit(&labelled, &labelled.replace(":09Z", ":10Z")), "it was changed");
        assert!(is_edit(&bare, &bare), "twice within a second, or before Kubernetes 1.25");
        let empty = format!("[{LABEL}]");
        assert!(is_edit(&empty, &bare) && is_edit(&bare, &empty) && !is_edit(&empty, &empty));
        assert!(is_edit("[]", "[]"), "each version may be one");
    }

    #[test]
    fn a_list_and_the_lines_of_a_watch_are_read() {
        let end = |text: &str| PageEnd::parse(text.as_bytes());
        let version = "12".to_owned();
        assert_eq!(
            end(r#"{"metadata":{"resourceVersion":"12","continue":"abc"},"items":[]}"#),
            Ok(PageEnd { version: version.clone(), next: Some("abc".to_owned()) })
        );
        let last = end(r#"{"metadata":{"resourceVersion":"12","continue":""},"items":null}"#);
        assert_eq!(last, Ok(PageEnd { version, next: None }));
        assert!(end(r#"{"metadata":{"resourceVersion":""}}"#).is_err());
        let event = |kind: &str, object: &str| {
            ObjectEvent::parse(format!(r#"{{"object":{object},"type":"{kind}"}}"#).as_bytes())
        };
        let object = r#"{"metadata":{"name":"app","uid":"u","resourceVersion":"7"}}"#;
        assert!(matches!(event("ADDED", object), Ok(Some(ObjectEvent::Present(_)))));
        let deleted = ObjectEvent::Deleted("app".to_owned(), "7".to_owned());
        assert_eq!(event("DELETED", object), Ok(Some(deleted)));
        let mark = r#"{"metadata":{"resourceVersion":"9"}}"#;
        assert_eq!(event("BOOKMARK", mark), Ok(Some(ObjectEvent::Bookmark("9".to_owned()))));
        assert_eq!(event("LATER", object), Ok(None));
        assert!(matches!(event("ERROR", r#"{"code":410}"#), Err(ApiError::Gone(_))));
        assert!(matches!(event("ERROR", r#"{"code":429}"#), Err(ApiError::Throttled(..))));
        for text in ["", "{", r#"{"type":"ADDED","object":{}}"#, r#"{"type":"ADDED","object":1}"#] {
            let error = ObjectEvent::parse(text.as_bytes());
            assert!(matches!(error, Err(ApiError::Unusable(_))), "{text}: {error:?}");
        }
    }
}
