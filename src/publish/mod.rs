//! Performs `Publish`, `RollBack` and `Approve`: the application reads what has passed from a
//! directory that podnudge writes, instead of from the volumes.
//!
//! Reads the volumes; writes only below `publish.dir`, in the kubelet's shape. There, `..data`
//! names a generation, `..2026_11_21_10_06_20.123456789.DIGEST`, and each key's link leads through
//! it. A generation gets that name when it is whole and on disk, and only then `..data` is turned,
//! by one rename: killed at any step, or out of space, podnudge leaves the old generation or the
//! new one. `record.rs` is what outlives it besides: which digest was verified last, and which
//! ones must not be used again.

mod access;
mod directory;
mod generation;
mod lock;
mod place;
mod record;
mod write;

use crate::clock::{Now, UnixTime};
use crate::config::Rule;
use crate::core::command::RollBack;
use crate::core::event::{Publication, Published};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;
pub use lock::Lock;
pub use place::Place;

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
    /// What happened, and what can be done about it.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What can be done about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.reason.hint.clone()
    }
}

/// Where a rule publishes, if it does.
pub(crate) fn place(rule: &Rule) -> Option<Place<'_>> {
    let publish = rule.settings.publish.as_ref()?;
    Some(Place { publish, volumes: &rule.settings.watch, keys: &rule.keys })
}

/// Opens the publish directory of a rule, if it has one, and tells what is in it.
///
/// # Errors
/// If it cannot be written to.
pub(crate) fn open(rule: &Rule, now: Now) -> Result<Published, PublishError> {
    Ok(place(rule).map(|place| place.open(now)).transpose()?.unwrap_or_default())
}

/// Publishes what is on disk, if it has this digest, and the other one over all of it that the
/// checks have seen.
pub(crate) fn publish(
    rule: &Rule,
    digest: Digest,
    whole: Option<Digest>,
    now: UnixTime,
) -> Publication {
    place(rule).map_or(Publication::Done, |place| place.publish(digest, whole, now))
}

/// The digest that the application reads now; `None` if there is nothing to read.
///
/// # Errors
/// If that cannot be told.
pub(crate) fn current(rule: &Rule) -> Result<Option<Digest>, Reason> {
    place(rule).map_or(Ok(None), Place::current)
}

/// Whether a process has read what is published since it was published.
pub(crate) fn was_read(rule: &Rule) -> bool {
    place(rule).is_some_and(Place::was_read)
}

/// Goes back to an older publication.
pub(crate) fn roll_back(rule: &Rule, back: RollBack) -> Publication {
    let RollBack { to, failed, reason } = back;
    place(rule).map_or(Publication::Done, |place| place.roll_back(to, &(failed, reason)))
}

/// Remembers that what is published was verified.
///
/// # Errors
/// If that cannot be written.
pub(crate) fn approve(rule: &Rule, digest: Digest) -> Result<(), Reason> {
    place(rule).map_or(Ok(()), |place| place.approve(digest))
}
