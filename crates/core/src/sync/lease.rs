//! The Lease by which one `podnudge sync` of a namespace is the leader, and whose annotation has the edits under way.
//! Pure. What others have written into it goes back unchanged.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::clock::UnixTime;
use crate::reason::Reason;

/// The annotation with the edits.
const RECORD: &str = "podnudge.io/sync-edits";

/// A Lease (`coordination.k8s.io/v1`).
#[derive(Debug, Clone, PartialEq)]
pub struct SyncLease(Value);

impl SyncLease {
    /// Reads an object of the API server.
    ///
    /// # Errors
    /// If it is no Lease.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        let is_none = |why: &str| Reason::new(format!("the answer is not a Lease: {why}"));
        let object: Value =
            serde_json::from_slice(body).map_err(|error| is_none(&error.to_string()))?;
        if object.get("kind").is_some_and(|kind| kind != "Lease") {
            return Err(is_none("an object of another kind"));
        }
        let is_object =
            |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
        let metadata = object.get("metadata");
        let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
        if !is_object(object.get("spec")) || !is_object(annotations) {
            return Err(is_none("`spec` or `annotations` is not an object"));
        }
        let lease = Self(object);
        if lease.version().is_empty() {
            return Err(is_none("it has no `resourceVersion`"));
        }
        Ok(lease)
    }

    /// One that does not exist yet.
    #[must_use]
    pub(super) fn new(name: &str) -> Self {
        Self(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {},
        }))
    }

    /// Whether it exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        !self.version().is_empty()
    }

    /// Changes with each change of the object; empty if it does not exist yet.
    #[must_use]
    pub fn version(&self) -> &str {
        self.text("metadata", "resourceVersion").unwrap_or_default()
    }

    /// Who holds it, unless it was given back.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.text("spec", "holderIdentity").filter(|holder| !holder.is_empty())
    }

    /// For how long it is held after each change.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let seconds = self.0.get("spec")?.get("leaseDurationSeconds")?;
        seconds.as_u64().map(Duration::from_secs)
    }

    /// The edits, as the last leader has written them.
    #[must_use]
    pub(super) fn record(&self) -> Option<&str> {
        self.0.get("metadata")?.get("annotations")?.get(RECORD)?.as_str()
    }

    /// The body of the request that writes it.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// Held by this one from now on, or renewed; with this record, if there is one.
    #[must_use]
    pub(super) fn held(
        mut self,
        holder: &str,
        duration: Duration,
        now: UnixTime,
        record: Option<&str>,
    ) -> Self {
        let time = Value::from(self.next_time(now));
        if self.holder() != Some(holder) {
            let last = self.0.pointer("/spec/leaseTransitions").and_then(Value::as_i64);
            let was_held = self.0.pointer("/spec/acquireTime").is_some_and(|at| !at.is_null());
            let transitions = last.unwrap_or(0).saturating_add(i64::from(was_held));
            self.set("spec", "leaseTransitions", transitions.min(i64::from(i32::MAX)).into());
            self.set("spec", "acquireTime", time.clone());
        }
        self.set("spec", "holderIdentity", holder.into());
        self.set("spec", "leaseDurationSeconds", duration.as_secs().max(1).into());
        self.set("spec", "renewTime", time);
        if let Some(record) = record {
            let annotations = self.0.pointer("/metadata/annotations");
            let mut annotations =
                annotations.filter(|it| it.is_object()).cloned().unwrap_or_else(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(RECORD.to_owned(), record.into());
            }
            self.set("metadata", "annotations", annotations);
        }
        self
    }

    /// The Lease without a holder: another podnudge may take it.
    #[must_use]
    pub(super) fn given_back(mut self, now: UnixTime) -> Self {
        let time = self.next_time(now);
        self.set("spec", "holderIdentity", "".into());
        self.set("spec", "renewTime", time.into());
        self
    }

    fn text(&self, part: &str, key: &str) -> Option<&str> {
        self.0.get(part)?.get(key)?.as_str()
    }

    fn set(&mut self, part: &str, key: &str, value: Value) {
        let Some(object) = self.0.as_object_mut() else { return };
        let part = object.entry(part).or_insert_with(|| json!({}));
        if part.is_null() {
            *part = json!({});
        }
        if let Some(part) = part.as_object_mut() {
            part.insert(key.to_owned(), value);
        }
    }

    /// Others see by the version that the holder is alive, and an update that changes nothing makes no version.
    fn next_time(&self, now: UnixTime) -> String {
        let text = |time: Duration| {
            let time = SystemTime::UNIX_EPOCH + time;
            humantime::format_rfc3339_micros(time).to_string()
        };
        let time = text(now.0);
        if self.text("spec", "renewTime") == Some(time.as_str()) {
            return text(now.0 + Duration::from_micros(1));
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: &str = r#"{"kind":"Lease","future":[1],"metadata":{"name":"s","resourceVersion":"7","labels":{"a":"b"},"annotations":{"other/key":"kept"}},"spec":{"holderIdentity":"one","leaseDurationSeconds":15,"leaseTransitions":4,"acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"1970-01-01T00:00:09.000000Z"}}"#;

    fn value(lease: &SyncLease) -> Value {
        serde_json::from_slice(&lease.body()).expect("it is JSON")
    }

    #[test]
    fn a_lease_keeps_what_others_have_written() {
        let lease = SyncLease::parse(HELD.as_bytes()).expect("it is a Lease");
        let (fifteen, nine) = (Duration::from_secs(15), UnixTime(Duration::from_secs(9)));
        let read = (lease.version(), lease.holder(), lease.duration(), lease.record());
        assert_eq!(read, ("7", Some("one"), Some(fifteen), None));
        let mut wanted = value(&lease);
        let taken = lease.clone().held("two", fifteen, nine, Some("record"));
        wanted["metadata"]["annotations"][RECORD] = "record".into();
        wanted["spec"] = json!({
            "holderIdentity": "two", "leaseDurationSeconds": 15, "leaseTransitions": 5,
            "acquireTime": "1970-01-01T00:00:09.000001Z", "renewTime": "1970-01-01T00:00:09.000001Z",
        });
        assert_eq!((value(&taken), taken.record()), (wanted, Some("record")));
        let renewed = value(&taken.clone().held("two", fifteen, nine, None));
        assert_eq!(renewed["spec"]["leaseTransitions"], 5);
        let back = taken.given_back(nine);
        assert_eq!((back.holder(), back.record(), back.version()), (None, Some("record"), "7"));
    }

    #[test]
    fn a_new_lease_and_what_is_none() {
        let new = SyncLease::new("s");
        assert!(!new.exists());
        let held = new.held("one", Duration::from_millis(500), UnixTime::default(), Some("r"));
        assert_eq!(value(&held)["spec"]["leaseTransitions"], 0);
        assert_eq!((held.duration(), held.record()), (Some(Duration::from_secs(1)), Some("r")));
        for text in [
            "",
            "[]",
            "{}",
            r#"{"kind":"Status","metadata":{"resourceVersion":"1"}}"#,
            r#"{"metadata":{"resourceVersion":"1"},"spec":[]}"#,
            r#"{"metadata":{"resourceVersion":"1","annotations":1}}"#,
        ] {
            assert!(SyncLease::parse(text.as_bytes()).is_err(), "{text}");
        }
        let bare = r#"{"metadata":{"resourceVersion":"1"},"spec":null}"#;
        let bare = SyncLease::parse(bare.as_bytes()).expect("it is a Lease");
        let held = bare.held("one", Duration::from_secs(15), UnixTime::default(), None);
        assert_eq!(held.holder(), Some("one"));
    }
}
