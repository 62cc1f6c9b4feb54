//! One Lease (`coordination.k8s.io/v1`): reads what the protocol of the slots needs, and changes only that.
//! Pure.
//!
//! An object is kept as the JSON that the server sent, and goes back with a few fields changed: so what a
//! newer API server has added to it, and labels and annotations of others, are preserved. Types with named
//! fields would drop what they do not know. Those of kube-core and k8s-openapi would also add 0.25 MiB and 22 crates.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::halt::{self, ANNOTATION, Halt, rfc3339};
use super::waiter::{self, Waiter};
use crate::clock::UnixTime;
use crate::reason::Reason;

const API_VERSION: &str = "coordination.k8s.io/v1";

/// The holder of a Lease that was missing: it never renews it. No pod has it, because a holder has an underscore.
pub(super) const NOBODY: &str = "nobody";

type Entries = Map<String, Value>;

/// A Lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    metadata: Entries,
    annotations: Entries,
    spec: Entries,
    /// The other fields of the object.
    rest: Entries,
    name: String,
    /// Empty if the object does not exist yet.
    version: String,
    holder: Option<String>,
    duration: Option<Duration>,
    /// In their order.
    line: Vec<Waiter>,
}

impl Lease {
    /// Reads an object of the API server.
    ///
    /// # Errors
    /// If it is no Lease, or the fields that matter have other types than Kubernetes documents.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        let object = serde_json::from_slice(body);
        Self::of(object.map_err(|error| is_no_lease(&error.to_string()))?)
    }

    /// Reads an object of the API server that was parsed.
    ///
    /// # Errors
    /// As for [`Lease::parse`].
    pub fn of(object: Value) -> Result<Self, Reason> {
        let Value::Object(mut rest) = object else { return Err(is_no_lease("not an object")) };
        if rest.get("kind").is_some_and(|kind| kind != "Lease") {
            return Err(is_no_lease("an object of another kind"));
        }
        let part = |table: &mut Entries, key: &str| match table.remove(key) {
            None | Some(Value::Null) => Ok(Entries::new()),
            Some(Value::Object(entries)) => Ok(entries),
            Some(_) => Err(is_no_lease(&format!("`{key}` is not an object"))),
        };
        let mut metadata = part(&mut rest, "metadata")?;
        let annotations = part(&mut metadata, "annotations")?;
        let spec = part(&mut rest, "spec")?;
        let text = |entries: &Entries, key: &str| match entries.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(is_no_lease(&format!("`{key}` is not text"))),
        };
        let required = |key: &str| {
            text(&metadata, key)?.ok_or_else(|| is_no_lease(&format!("it has no `{key}`")))
        };
        let duration = match spec.get("leaseDurationSeconds") {
            None | Some(Value::Null) => None,
            Some(seconds) => {
                let seconds = seconds.as_u64().ok_or_else(|| {
                    is_no_lease("`leaseDurationSeconds` is not a number of seconds")
                })?;
                Some(Duration::from_secs(seconds))
            }
        };
        Ok(Self {
            line: waiter::line(&annotations),
            name: required("name")?,
            version: required("resourceVersion")?,
            holder: text(&spec, "holderIdentity")?,
            duration,
            metadata,
            annotations,
            spec,
            rest,
        })
    }

    /// One that does not exist yet, and that nobody holds.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let entry = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        Self {
            metadata: [entry("name", name)].into_iter().collect(),
            annotations: Entries::new(),
            spec: Entries::new(),
            rest: [entry("apiVersion", API_VERSION), entry("kind", "Lease")].into_iter().collect(),
            name: name.to_owned(),
            version: String::new(),
            holder: None,
            duration: None,
            line: Vec::new(),
        }
    }

    /// The name of the Lease.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes with each change of the object; empty if it does not exist yet.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Who holds it, unless it was given back.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// For how long it is held after each change.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// What the Lease says of this replica in its line, also if it was passed the slot, or is offered another one.
    #[must_use]
    pub fn entry_of(&self, holder: &str) -> Option<&Waiter> {
        self.line.iter().find(|next| next.holder == holder)
    }

    /// The replicas that wait for it, in their order.
    #[must_use]
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = &Waiter> {
        let waits =
            |next: &&Waiter| next.offered.is_none() && Some(next.holder.as_str()) != self.holder();
        self.line.iter().filter(waits)
    }

    /// The one that is offered this slot.
    #[must_use]
    pub fn offered_to(&self, slot: usize) -> Option<&Waiter> {
        self.line.iter().find(|next| next.offered == Some(slot))
    }

    /// The token of one that comes behind all others. `number` is a random one.
    #[must_use]
    pub fn last_token(&self, number: u32) -> String {
        waiter::last_token(&self.line, number)
    }

    pub(super) fn spec(&self) -> &Entries {
        &self.spec
    }

    pub(super) fn annotations(&self) -> &Entries {
        &self.annotations
    }

    /// The digests that failed; only on the first slot's Lease.
    #[must_use]
    pub fn halts(&self) -> Vec<Halt> {
        let text = self.annotations.get(ANNOTATION).and_then(Value::as_str);
        text.map(halt::parse).unwrap_or_default()
    }

    /// The body of a request that writes it.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let (mut object, mut metadata) = (self.rest.clone(), self.metadata.clone());
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), self.annotations.clone().into());
        }
        object.insert("metadata".to_owned(), metadata.into());
        object.insert("spec".to_owned(), self.spec.clone().into());
        Value::Object(object).to_string().into_bytes()
    }

    /// Held by this holder from now on, or renewed. Those that waited at another holder's time do not any more: they may be
    /// gone. Who was offered another slot before this one was given back may not have read that yet.
    #[must_use]
    pub fn held_by(self, holder: &str, duration: Duration, now: UnixTime) -> Self {
        let is_renewed = self.holder.as_deref() == Some(holder);
        let was_given_back = self.holder.is_none();
        let stays = |next: &Waiter| was_given_back && next.offered.is_some();
        let lease = if is_renewed { self } else { self.with_line(stays) };
        lease.written_for(holder, duration, now)
    }

    /// Given back: nobody waits for it. Who was offered another slot may not have read that yet.
    #[must_use]
    pub fn given_back(self, now: UnixTime) -> Self {
        let time = self.next_time(now);
        let mut lease = self.with_line(|next| next.offered.is_some());
        lease.spec.insert("holderIdentity".to_owned(), "".into());
        lease.spec.insert("renewTime".to_owned(), time.into());
        Self { holder: None, ..lease }
    }

    /// Passed on to this one. Its name stays: its token shows that it got it. Who waits goes on to wait.
    #[must_use]
    pub fn passed_on_to(self, next: Waiter, duration: Duration, now: UnixTime) -> Self {
        let before = self.holder.clone();
        let holder = next.holder.clone();
        // Who was offered another slot while it waited behind the one that had this may not have read that yet.
        let had = before.as_deref().and_then(|before| self.entry_of(before));
        let had = had.map(|had| had.token.clone());
        let stays = |it: &Waiter| {
            Some(&it.holder) != before.as_ref()
                && (it.offered.is_none() || Some(&it.token) > had.as_ref())
        };
        self.with_line(stays).lined_up(next).written_for(&holder, duration, now)
    }

    /// With another slot offered to the last that waits, and to nobody else: whoever was offered it before had it before.
    #[must_use]
    pub fn offered(self, slot: usize) -> Self {
        let lease = self.with_line(|next| next.offered != Some(slot));
        let last = lease.waiting().next_back().cloned();
        match last {
            Some(next) => lease.lined_up(Waiter { offered: Some(slot), ..next }),
            None => lease,
        }
    }

    fn written_for(self, holder: &str, duration: Duration, now: UnixTime) -> Self {
        // Kubernetes stores 32 bits.
        const MOST: u64 = i32::MAX.unsigned_abs() as u64;
        let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
        let seconds = seconds.clamp(1, MOST);
        let time = self.next_time(now);
        let mut spec = self.spec;
        if self.holder.as_deref() != Some(holder) {
            let last = spec.get("leaseTransitions").and_then(Value::as_u64).unwrap_or(0);
            let was_held = spec.get("acquireTime").is_some_and(|at| !at.is_null());
            let transitions = last.saturating_add(u64::from(was_held)).min(MOST);
            spec.insert("leaseTransitions".to_owned(), transitions.into());
            spec.insert("acquireTime".to_owned(), json!(time));
        }
        spec.insert("holderIdentity".to_owned(), holder.into());
        spec.insert("leaseDurationSeconds".to_owned(), seconds.into());
        spec.insert("renewTime".to_owned(), time.into());
        let duration = Some(Duration::from_secs(seconds));
        Self { spec, holder: Some(holder.to_owned()), duration, ..self }
    }

    /// As the server stores it, with this version.
    #[must_use]
    pub fn stored_as(mut self, version: &str) -> Self {
        self.metadata.insert("resourceVersion".to_owned(), version.into());
        Self { version: version.to_owned(), ..self }
    }

    /// With this one in the line.
    #[must_use]
    pub fn lined_up(mut self, next: Waiter) -> Self {
        self.annotations.insert(next.key(), next.text().into());
        self.line.retain(|it| it.holder != next.holder);
        next.enter(&mut self.line);
        self
    }

    /// Without this one in the line.
    #[must_use]
    pub fn left_by(self, holder: &str) -> Self {
        self.with_line(|next| next.holder != holder)
    }

    /// With only these in the line.
    fn with_line(mut self, stays: impl Fn(&Waiter) -> bool) -> Self {
        let line = std::mem::take(&mut self.line);
        let (line, gone): (Vec<Waiter>, Vec<Waiter>) = line.into_iter().partition(|it| stays(it));
        for next in gone {
            self.annotations.remove(&next.key());
        }
        Self { line, ..self }
    }

    /// With these digests that failed.
    #[must_use]
    pub fn with_halts(mut self, halts: &[Halt]) -> Self {
        match halt::write(halts) {
            Some(text) => self.annotations.insert(ANNOTATION.to_owned(), text.into()),
            None => self.annotations.remove(ANNOTATION),
        };
        self
    }

    /// The time of a renewal, for people. An update that changes nothing would not change the version
    /// either, by which others see that the holder is alive; so if the clock stands still, it is the next
    /// microsecond.
    fn next_time(&self, now: UnixTime) -> String {
        let time = rfc3339(now);
        let last = self.spec.get("renewTime").and_then(Value::as_str);
        if last != Some(time.as_str()) {
            return time;
        }
        rfc3339(UnixTime(now.0.saturating_add(Duration::from_micros(1))))
    }
}

fn is_no_lease(why: &str) -> Reason {
    Reason::new(format!("the answer is not a Lease: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::LeaseRequest;

    fn parse(text: &str) -> Lease {
        Lease::parse(text.as_bytes()).expect("it is a Lease")
    }

    const HELD: &str = r#"{
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "future": [1],
        "metadata": {
            "name": "web-0", "resourceVersion": "7", "labels": {"a": "b"},
            "annotations": {"other/key": "kept"}
        },
        "spec": {
            "holderIdentity": "web-1_u_r", "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "1970-01-01T00:00:09.000000Z",
            "strategy": "x"
        }
    }"#;

    #[test]
    fn what_podnudge_does_not_know_goes_back_unchanged() {
        let lease = parse(HELD);
        assert_eq!(
            (lease.name(), lease.version(), lease.holder(), lease.duration()),
            ("web-0", "7", Some("web-1_u_r"), Some(Duration::from_secs(15)))
        );
        let before: Value = serde_json::from_str(HELD).expect("it is JSON");
        assert_eq!(serde_json::from_slice::<Value>(&lease.body()).expect("it is JSON"), before);
        let at = UnixTime(Duration::from_secs(9));
        let taken = lease.clone().held_by("me", Duration::from_millis(1500), at);
        let after: Value = serde_json::from_slice(&taken.body()).expect("it is JSON");
        let mut wanted = before;
        wanted["spec"] = json!({
            "holderIdentity": "me", "leaseDurationSeconds": 2, "leaseTransitions": 5,
            "acquireTime": "1970-01-01T00:00:09.000001Z", "renewTime": "1970-01-01T00:00:09.000001Z",
            "strategy": "x"
        });
        assert_eq!(after, wanted);
        let back = lease.given_back(UnixTime(Duration::from_secs(10)));
        assert_eq!((back.holder(), back.version()), (None, "7"));
    }

    #[test]
    fn a_lease_is_made_once_and_its_halts_are_beside_the_annotations_of_others() {
        let made = Lease::new("web-0");
        let (holder, wall) = ("me", UnixTime::default());
        assert!(matches!(made.clone().write(), LeaseRequest::Create(_)));
        let body: Value =
            serde_json::from_slice(&made.held_by(holder, Duration::from_secs(15), wall).body())
                .expect("it is JSON");
        assert_eq!(body["spec"]["leaseTransitions"], 0);
        assert_eq!(body["metadata"], json!({ "name": "web-0" }));
        let halt = Halt::new(crate::snapshot::Digest([1; 32]), holder, wall, &Reason::new("x"));
        let halted = parse(HELD).with_halts(std::slice::from_ref(&halt));
        let again = Lease::parse(&halted.body()).expect("it is a Lease");
        assert_eq!(again.halts(), [halt]);
        assert_eq!(again.with_halts(&[]), parse(HELD));
    }

    #[test]
    fn what_is_no_lease_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"kind":"Status","metadata":{"name":"a","resourceVersion":"1"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":1}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"1"},"spec":[]}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"holderIdentity":1}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"leaseDurationSeconds":-1}}"#,
        ] {
            assert!(Lease::parse(text.as_bytes()).is_err(), "{text}");
        }
        let bare = parse(r#"{"metadata":{"name":"a","resourceVersion":"1"}}"#);
        assert_eq!((bare.holder(), bare.duration()), (None, None));
    }
}
