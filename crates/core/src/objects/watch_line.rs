//! A line of a watch of the Kubernetes API: what has happened, and the object. Pure.

use serde_json::Value;

use crate::api_error::ApiError;
use crate::reason::Reason;
use crate::shown;

/// An event, with the object that it is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// The object was created or changed.
    Present(Value),
    /// The object was deleted; the version is that of the deletion.
    Deleted(Value),
    /// Nothing has changed until the version of this object, which has nothing else.
    Bookmark(Value),
}

impl Line {
    /// Reads a line; `None` for an event of a later Kubernetes.
    ///
    /// # Errors
    /// If the watch cannot go on: the server says so, or the line is no event.
    pub fn parse(line: &[u8]) -> Result<Option<Self>, ApiError> {
        let is_none = |why: &str| {
            ApiError::Unusable(Reason::new(format!("a line of the watch is no event: {why}")))
        };
        let mut event: Value =
            serde_json::from_slice(line).map_err(|error| is_none(&error.to_string()))?;
        let object = event.get_mut("object").map(Value::take).filter(Value::is_object);
        let kind = event.get("type").and_then(Value::as_str);
        let Some((kind, object)) = kind.zip(object) else {
            return Err(is_none("it lacks a type or an object"));
        };
        Ok(match kind {
            "ADDED" | "MODIFIED" => Some(Self::Present(object)),
            "DELETED" => Some(Self::Deleted(object)),
            "BOOKMARK" => Some(Self::Bookmark(object)),
            "ERROR" => return Err(ended(&object)),
            _ => None,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, object: &str) -> Result<Option<Line>, ApiError> {
        Line::parse(format!(r#"{{"object":{object},"type":"{kind}"}}"#).as_bytes())
    }

    #[test]
    fn a_line_has_an_object_or_tells_the_end_of_the_watch() {
        let object = || serde_json::json!({"a": 1});
        let text = r#"{"a":1}"#;
        assert_eq!(line("ADDED", text), Ok(Some(Line::Present(object()))));
        assert_eq!(line("MODIFIED", text), Ok(Some(Line::Present(object()))));
        assert_eq!(line("DELETED", text), Ok(Some(Line::Deleted(object()))));
        assert_eq!(line("BOOKMARK", text), Ok(Some(Line::Bookmark(object()))));
        assert_eq!(line("LATER", text), Ok(None));
        let gone = line("ERROR", r#"{"kind":"Status","code":410,"message":"too old\u001b"}"#);
        assert!(matches!(gone, Err(ApiError::Gone(reason)) if reason.message.contains("too old")));
        assert!(matches!(line("ERROR", r#"{"code":429}"#), Err(ApiError::Throttled(..))));
        let other = line("ERROR", r#"{"code":500,"message":"etcd"}"#);
        assert!(matches!(&other, Err(ApiError::Failed(..))), "{other:?}");
        for text in
            ["", "{", "[]", "{}", r#"{"type":"ADDED"}"#, r#"{"type":"ERROR","object":1}"#, "{}{}"]
        {
            let error = Line::parse(text.as_bytes());
            assert!(matches!(error, Err(ApiError::Unusable(_))), "{text}: {error:?}");
        }
    }
}
