//! The publish directories of the rules: opening them at start, and what the core asks for.
//!
//! Reads the volumes; writes only below `publish.dir` (`volume/publish.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::clock::{Now, UnixTime};
use crate::config::Rule;
use crate::core::event::{Publication, Published, RollBack, RuleId};
use crate::reason::Reason;
use crate::shown;
use crate::volume::publish::Place;
use crate::volume::snapshot::Digest;

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
    let publish = rule.publish.as_ref()?;
    Some(Place { publish, volumes: &rule.watch, keys: &rule.keys })
}

/// Opens the publish directories of all rules, and tells what is in them.
///
/// # Errors
/// If one cannot be written to.
pub(crate) fn open(rules: &[Rule], now: Now) -> Result<BTreeMap<RuleId, Published>, PublishError> {
    let mut published = BTreeMap::new();
    for (n, rule) in rules.iter().enumerate() {
        if let Some(place) = place(rule) {
            published.insert(RuleId(n), place.open(now)?);
        }
    }
    Ok(published)
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

/// Takes back what is published.
pub(crate) fn roll_back(rule: &Rule, back: RollBack) -> Publication {
    let RollBack { to, bad, reason } = back;
    place(rule).map_or(Publication::Done, |place| place.roll_back(to, &(bad, reason)))
}

/// Remembers that what is published was verified.
///
/// # Errors
/// If that cannot be written.
pub(crate) fn approve(rule: &Rule, digest: Digest) -> Result<(), Reason> {
    place(rule).map_or(Ok(()), |place| place.approve(digest))
}

/// Whether this file is there, and so pauses a rule.
pub(crate) fn paused_by(file: &Path) -> Option<Reason> {
    let reason = Reason::new(format!("paused by the file `{}`", shown::path(file)));
    file.symlink_metadata().is_ok().then(|| reason.hint("remove it, or force the reload"))
}

/// What the application mounts and reads.
pub(crate) fn read_by_application(rule: &Rule) -> &[PathBuf] {
    match &rule.publish {
        Some(publish) => std::slice::from_ref(&publish.dir),
        None => &rule.watch,
    }
}
