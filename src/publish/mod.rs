//! Performs `Publish`, `RollBack` and `Approve`: podnudge writes accepted content to a directory
//! that the application reads instead of the volumes.
//!
//! Reads the volumes; writes only below `publish.dir`, in the layout of a kubelet volume: `..data`
//! points to a generation, `..2026_11_21_10_06_20.123456789.DIGEST`, and each key's link leads
//! through it. A generation gets that name when it is complete and on disk, and only then one
//! rename replaces `..data`. So a kill at any step, or a full disk, leaves the old generation or
//! the new one. `record.rs` stores what must survive besides: which digest is the last good one, and
//! which ones are quarantined.

mod access;
mod directory;
#[cfg(feature = "compat")]
pub(crate) mod expand;
#[cfg(test)]
#[path = "../../tests/fuzz/publish.rs"]
mod fuzz;
mod generation;
mod lock;
mod publisher;
mod record;
mod write;

pub use lock::{Holder, Lock};
use podnudge_config::Rule;
use podnudge_core::clock::{Now, UnixTime};
use podnudge_core::command::RollBack;
use podnudge_core::event::{Publication, Published};
use podnudge_core::evidence::Evidence;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;
pub use publisher::Publisher;

/// Why a publish directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", reason.message)]
pub struct PublishError {
    reason: Reason,
}

impl From<Reason> for PublishError {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

impl PublishError {
    /// What happened, and how to fix it.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// How the operator can fix it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.reason.hint.clone()
    }
}

/// The publisher of a rule, if it has a publish directory.
pub(crate) fn publisher(rule: &Rule) -> Option<Publisher<'_>> {
    let publish = rule.settings.publish.as_ref()?;
    Some(Publisher { publish, volumes: &rule.settings.watch, keys: &rule.keys })
}

/// Opens the publish directory of a rule, if it has one, and returns its state.
///
/// # Errors
/// If it cannot be written to.
pub(crate) fn open(rule: &Rule, now: Now) -> Result<Published, PublishError> {
    Ok(publisher(rule).map(|publisher| publisher.open(now)).transpose()?.unwrap_or_default())
}

/// Publishes the volumes' content, if it has this digest, and if all its keys have the digest
/// `full_digest` that the checks have seen.
pub(crate) fn publish(
    rule: &Rule,
    digest: Digest,
    full_digest: Option<Digest>,
    now: UnixTime,
) -> Publication {
    publisher(rule)
        .map_or(Publication::Done, |publisher| publisher.publish(digest, full_digest, now))
}

/// The digest that is published now; `None` if there is none. Makes the links to its files anew that are missing.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn repair(rule: &Rule) -> Result<Option<Digest>, Reason> {
    publisher(rule).map_or(Ok(None), Publisher::repair)
}

/// Whether a process has read the current generation since it was published.
pub(crate) fn was_read(rule: &Rule) -> bool {
    publisher(rule).is_some_and(Publisher::was_read)
}

/// Quarantines a digest, and publishes an older generation again.
pub(crate) fn roll_back(rule: &Rule, back: RollBack) -> Publication {
    let RollBack { to, failed, reason } = back;
    publisher(rule)
        .map_or(Publication::Done, |publisher| publisher.roll_back(to, &(failed, reason)))
}

/// Records that the published digest is good.
///
/// # Errors
/// If that cannot be written.
pub(crate) fn approve(rule: &Rule, digest: Digest, evidence: Evidence) -> Result<(), Reason> {
    publisher(rule).map_or(Ok(()), |publisher| publisher.approve(digest, evidence))
}
