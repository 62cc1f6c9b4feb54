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

/// A slot is passed on to a replica in its line. The `spec` and what that replica wrote must be as they were seen: each
/// renewal and each new holder changes the `spec`. Others may have lined up meanwhile.
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
    /// Passes the slot of this Lease on to this replica, which waits in its line.
    #[must_use]
    pub fn new(before: Lease, to: Waiter, duration: Duration, now: UnixTime) -> Self {
        Self { before, to, duration, now }
    }

    /// What the Lease is then; `None` if it is not carried out.
    #[must_use]
    pub fn applied_to(&self, lease: Lease) -> Option<Lease> {
        let (before, after) = (&self.before, self.after(self.before.clone()));
        let key = self.to.key();
        let is_as_seen = lease.spec() == before.spec()
            && lease.annotations().get(&key) == before.annotations().get(&key)
            && removed(before, &after).all(|key| lease.annotations().contains_key(key));
        is_as_seen.then(|| self.after(lease))
    }

    /// The body of a JSON patch (RFC 6902) that does it. A merge patch has no conditions, and a replacement would fail
    /// whenever somebody has lined up meanwhile.
    #[must_use]
    pub fn patch(&self) -> Vec<u8> {
        let before = &self.before;
        let after = self.after(before.clone());
        let path = |key: &str| {
            format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"))
        };
        let key = self.to.key();
        let mut steps = vec![
            json!({"op": "test", "path": "/spec", "value": before.spec()}),
            json!({"op": "test", "path": path(&key), "value": before.annotations().get(&key)}),
            json!({"op": "replace", "path": "/spec", "value": after.spec()}),
        ];
        let remove = |key: &String| json!({"op": "remove", "path": path(key)});
        steps.extend(removed(before, &after).map(remove));
        Value::Array(steps).to_string().into_bytes()
    }

    fn after(&self, lease: Lease) -> Lease {
        lease.passed_on_to(self.to.clone(), self.duration, self.now)
    }
}

/// The annotations that are not there any more.
fn removed<'a>(before: &'a Lease, after: &'a Lease) -> impl Iterator<Item = &'a String> {
    before.annotations().keys().filter(|key| !after.annotations().contains_key(*key))
}
