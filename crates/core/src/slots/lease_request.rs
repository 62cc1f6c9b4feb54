//! A request about a Lease, and how a slot is passed on. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use super::lease::Lease;
use super::waiter::Waiter;
use crate::clock::UnixTime;

/// A request about a Lease.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseRequest {
    /// Read the one with this name.
    Read(String),
    /// Create the Lease.
    Create(Lease),
    /// Replace the Lease, unless it has changed since it was read.
    Update(Lease),
    /// Say in the Lease with this name who waits, whatever else it says.
    LineUp(String, Waiter),
    /// Pass the slot on, whoever has lined up since the Lease was read.
    PassOn(Pass),
}

/// A slot is passed on: its holder and who gets it must be as they were seen, and else the Lease may have changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    before: Lease,
    to: Waiter,
    duration: Duration,
    now: UnixTime,
}

impl LeaseRequest {
    /// The name of the Lease.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Read(name) | Self::LineUp(name, _) => name,
            Self::Create(lease) | Self::Update(lease) => lease.name(),
            Self::PassOn(pass) => pass.before.name(),
        }
    }
}

impl Lease {
    /// The request that writes it.
    #[must_use]
    pub fn write(self) -> LeaseRequest {
        if self.version().is_empty() {
            LeaseRequest::Create(self)
        } else {
            LeaseRequest::Update(self)
        }
    }
}

impl Pass {
    /// Passes the slot of this Lease on to this replica.
    #[must_use]
    pub fn new(before: Lease, to: Waiter, duration: Duration, now: UnixTime) -> Self {
        Self { before, to, duration, now }
    }

    /// What the Lease is then; `None` if it is not carried out.
    #[must_use]
    pub fn applied_to(&self, lease: Lease) -> Option<Lease> {
        let waiting = |lease: &Lease| lease.entry_of(&self.to.holder).cloned();
        let seen = waiting(&self.before);
        let is_as_seen = seen.is_none() || waiting(&lease) == seen;
        let may = lease.holder() == self.before.holder() && is_as_seen;
        may.then(|| lease.passed_on_to(self.to.clone(), self.duration, self.now))
    }

    /// The body of a JSON patch (RFC 6902) that does it. A merge patch has no conditions, and a replacement would fail
    /// whenever somebody has lined up meanwhile.
    #[must_use]
    pub fn patch(&self) -> Vec<u8> {
        const ANNOTATIONS: &str = "/metadata/annotations/";
        let before = &self.before;
        let after = before.clone().passed_on_to(self.to.clone(), self.duration, self.now);
        let step = |op: &str, (folder, key): (&str, &str), value: Option<&Value>| {
            let path = folder.to_owned() + &key.replace('~', "~0").replace('/', "~1");
            let mut step = json!({"op": op, "path": path});
            if let (Some(value), Some(step)) = (value, step.as_object_mut()) {
                step.insert("value".to_owned(), value.clone());
            }
            step
        };
        let key = self.to.key();
        let holder = before.spec().get("holderIdentity");
        let mut steps = vec![step("test", ("/spec/", "holderIdentity"), holder)];
        if let Some(waits) = before.annotations().get(&key) {
            steps.push(step("test", (ANNOTATIONS, &key), Some(waits)));
        }
        for (key, value) in after.spec() {
            steps.push(step("add", ("/spec/", key), Some(value)));
        }
        for (key, _) in
            before.annotations().iter().filter(|(key, _)| !after.annotations().contains_key(*key))
        {
            steps.push(step("remove", (ANNOTATIONS, key), None));
        }
        if before.annotations().is_empty() {
            steps.push(step("add", ("/metadata/", "annotations"), Some(&json!({}))));
        }
        if !before.annotations().contains_key(&key) {
            steps.push(step("add", (ANNOTATIONS, &key), after.annotations().get(&key)));
        }
        Value::Array(steps).to_string().into_bytes()
    }
}
