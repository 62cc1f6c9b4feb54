//! What podnudge reads of ConfigMaps and Secrets: their metadata (`PartialObjectMetadata` of `meta.k8s.io/v1`),
//! listed and watched. Annotations are not kept: that of `kubectl apply` has the content in it. Pure.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::managed_fields::{Entry, Writers, parse_time};
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::UnixTime;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The most bytes of a version or a UID: Kubernetes' are far shorter.
const LONGEST: usize = 256;

/// One state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Another one for each object, also of the same name.
    pub uid: String,
    /// Another one for each state (`resourceVersion`).
    pub version: String,
    /// When it was edited last, by the clock of the API server, in whole seconds. Before Kubernetes 1.25 this
    /// does not follow each edit of a value.
    pub edited_at: Option<UnixTime>,
    /// Who has written it, if that is known.
    pub writers: Option<Writers>,
}

/// A list of the one object that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The version of the list, from which a watch goes on.
    pub version: String,
    /// The object, if it exists.
    pub object: Option<Metadata>,
}

/// A line of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object was created or changed.
    Present(Metadata),
    /// It was deleted; the version is that of the deletion.
    Deleted(Metadata),
    /// Nothing has changed until this version.
    Bookmark(String),
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: ObjectMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    resource_version: String,
    #[serde(default)]
    creation_timestamp: Option<String>,
    #[serde(borrow, default)]
    managed_fields: Option<Vec<Entry<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<Object<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

#[derive(Deserialize)]
struct Line<T> {
    r#type: String,
    object: T,
}

/// `metav1.Status`, in an event of the type ERROR.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
    #[serde(default)]
    code: u16,
}

impl Listing {
    /// Reads a list of the object with this name.
    ///
    /// # Errors
    /// If it is no such list.
    pub(super) fn parse(body: &[u8], name: &str) -> Result<Self, Reason> {
        let list: List<'_> = serde_json::from_slice(body)
            .map_err(|error| Reason::new(format!("the answer is not a list: {}", told(&error))))?;
        let version = checked(list.metadata.resource_version)?;
        let mut items = list.items.unwrap_or_default().into_iter();
        let object = items.find(|item| item.metadata.name == name);
        Ok(Self { version, object: object.map(Metadata::new).transpose()? })
    }
}

impl WatchEvent {
    /// Reads a line of a watch of the object with this name; `None` for an event of another object.
    ///
    /// # Errors
    /// If the watch cannot go on: the server says so, or the line is no event.
    pub(super) fn parse(line: &[u8], name: &str) -> Result<Option<Self>, ApiError> {
        let broken = |reason: Reason| ApiError::Unusable(reason);
        let is_none = |error: serde_json::Error| {
            broken(Reason::new(format!("a line of the watch is no event: {}", told(&error))))
        };
        // The type of the object depends on that of the event, which need not come first.
        let Line::<IgnoredAny> { r#type, .. } = serde_json::from_slice(line).map_err(is_none)?;
        if r#type == "ERROR" {
            let Line::<Status> { object: Status { message, code }, .. } =
                serde_json::from_slice(line).map_err(is_none)?;
            let message = shown::one_line(message.as_bytes());
            let reason = Reason::new(format!("the API server ended the watch: {message}"));
            return Err(if code == 410 { ApiError::Gone(reason) } else { broken(reason) });
        }
        let Line::<Object<'_>> { object, .. } = serde_json::from_slice(line).map_err(is_none)?;
        if r#type == "BOOKMARK" {
            return checked(object.metadata.resource_version)
                .map(|version| Some(Self::Bookmark(version)))
                .map_err(broken);
        }
        if object.metadata.name != name {
            return Ok(None);
        }
        let metadata = Metadata::new(object).map_err(broken)?;
        Ok(match r#type.as_str() {
            "ADDED" | "MODIFIED" => Some(Self::Present(metadata)),
            "DELETED" => Some(Self::Deleted(metadata)),
            // A later Kubernetes may have more types.
            _ => None,
        })
    }
}

impl Metadata {
    fn new(object: Object<'_>) -> Result<Self, Reason> {
        let ObjectMeta { uid, resource_version, creation_timestamp, managed_fields, .. } =
            object.metadata;
        let entries = managed_fields.unwrap_or_default();
        let created_at = creation_timestamp.as_deref().and_then(parse_time);
        let edited_at = entries.iter().filter_map(Entry::time).chain(created_at).max();
        let writers = Writers::of(&entries);
        Ok(Self { uid: checked(uid)?, version: checked(resource_version)?, edited_at, writers })
    }
}

fn checked(text: String) -> Result<String, Reason> {
    if text.is_empty() || text.len() > LONGEST {
        let message = "the answer has an object without a usable `uid` or `resourceVersion`";
        return Err(Reason::new(message));
    }
    Ok(text)
}

/// The place of an error, without the text around it.
fn told(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "it is not JSON",
        _ => "it lacks fields, or has other types",
    };
    format!("{what} (column {})", error.column())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OBJECT: &str = r#"{"kind":"PartialObjectMetadata","metadata":{"name":"app","uid":"u1","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"},"managedFields":[{"manager":"a","time":"2026-01-01T00:00:09Z"},{"manager":"b","time":"2026-01-01T00:00:05Z"},{"manager":"c"}]}}"#;

    fn metadata() -> Metadata {
        let edited_at = Some(UnixTime(Duration::from_secs(1_767_225_609)));
        let entry = |manager, time: &str| format!(r#"{{"manager":"{manager}"{time}}}"#);
        let entries = [
            entry("a", r#","time":"2026-01-01T00:00:09Z""#),
            entry("b", r#","time":"2026-01-01T00:00:05Z""#),
            entry("c", ""),
        ];
        let entries = entries.iter().map(|entry| serde_json::from_str(entry).unwrap());
        let writers = Writers::of(&entries.collect::<Vec<_>>());
        Metadata { uid: "u1".to_owned(), version: "7".to_owned(), edited_at, writers }
    }

    fn event(kind: &str, object: &str) -> Result<Option<WatchEvent>, ApiError> {
        WatchEvent::parse(format!(r#"{{"object":{object},"type":"{kind}"}}"#).as_bytes(), "app")
    }

    #[test]
    fn a_list_has_its_own_version_and_at_most_the_one_object() {
        let list = |items: &str| {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"12"}},"items":{items}}}"#);
            Listing::parse(text.as_bytes(), "app")
        };
        let version = "12".to_owned();
        assert_eq!(
            list(&format!("[{OBJECT}]")),
            Ok(Listing { version: version.clone(), object: Some(metadata()) })
        );
        let none = Ok(Listing { version, object: None });
        assert_eq!([list("[]"), list("null")], [none.clone(), none.clone()]);
        assert_eq!(list(&format!("[{}]", OBJECT.replace("\"app\"", "\"b\""))), none);
        assert!(list(r#"[{"metadata":{"name":"app","resourceVersion":"1"}}]"#).is_err(), "no uid");
        for text in ["", "{}", r#"{"metadata":{"resourceVersion":""},"items":[]}"#] {
            assert!(Listing::parse(text.as_bytes(), "app").is_err(), "{text}");
        }
    }

    #[test]
    fn a_watch_tells_of_this_object_only_and_of_its_own_end() {
        assert_eq!(event("ADDED", OBJECT), Ok(Some(WatchEvent::Present(metadata()))));
        assert_eq!(event("MODIFIED", OBJECT), Ok(Some(WatchEvent::Present(metadata()))));
        assert_eq!(event("DELETED", OBJECT), Ok(Some(WatchEvent::Deleted(metadata()))));
        assert_eq!(event("MODIFIED", &OBJECT.replace("\"app\"", "\"b\"")), Ok(None));
        assert_eq!(event("LATER", OBJECT), Ok(None));
        let mark = r#"{"kind":"PartialObjectMetadata","metadata":{"resourceVersion":"90"}}"#;
        assert_eq!(event("BOOKMARK", mark), Ok(Some(WatchEvent::Bookmark("90".to_owned()))));
        let gone = event("ERROR", r#"{"kind":"Status","code":410,"message":"too old\u001b"}"#);
        assert!(matches!(gone, Err(ApiError::Gone(reason)) if reason.message.contains("too old")));
        let other = event("ERROR", r#"{"kind":"Status","code":500,"message":"etcd"}"#);
        assert!(matches!(other, Err(ApiError::Unusable(_))), "{other:?}");
        for text in ["", "{", "[]", r#"{"type":"ADDED"}"#, r#"{"type":"ERROR","object":1}"#] {
            let error = WatchEvent::parse(text.as_bytes(), "app");
            assert!(matches!(error, Err(ApiError::Unusable(_))), "{text}: {error:?}");
        }
    }
}
