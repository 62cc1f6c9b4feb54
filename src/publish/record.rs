//! The record of a publish directory: which digests are good or quarantined. A small file beside
//! the generations, replaced by a rename.

use std::{fmt, io};

use serde::{Deserialize, Serialize};

use super::directory::Dir;
use crate::system::files::{FileError, LARGEST};
use podnudge_core::event::{Published, Standing};
use podnudge_core::evidence::Evidence;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// Hidden from the application like the kubelet's own names.
pub(super) const FILE: &str = "..podnudge.json";

/// The longest reason and the longest hint, in bytes. With `MOST_QUARANTINED` of them the file stays
/// smaller than what is read.
const MAX_MESSAGE: usize = 3000;
const MAX_HINT: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Record {
    /// Published by `podnudge once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) for_start: Option<Digest>,
    /// The last good digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) good: Option<Digest>,
    /// How podnudge knew that the application ran it.
    pub(super) evidence: Evidence,
    /// Whether the action for the current generation, or its proof, is outstanding.
    pub(super) is_open: bool,
    /// The quarantined digests, the oldest first.
    pub(super) bad: Vec<QuarantinedDigest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuarantinedDigest {
    pub(super) digest: Digest,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    hint: Option<String>,
}

impl QuarantinedDigest {
    fn new((digest, reason): &(Digest, Reason)) -> Self {
        Self {
            digest: *digest,
            message: shown::block(&reason.message, MAX_MESSAGE),
            hint: reason.hint.as_ref().map(|hint| shown::block(hint, MAX_HINT)),
        }
    }

    pub(super) fn into_pair(self) -> (Digest, Reason) {
        (self.digest, Reason { message: self.message, hint: self.hint })
    }
}

/// Why the record cannot be loaded.
#[derive(Debug)]
pub(super) enum LoadError {
    /// podnudge did not write the file.
    Invalid(Reason),
    /// The file cannot be read.
    Failed(Reason),
}

impl From<LoadError> for Reason {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Invalid(reason) | LoadError::Failed(reason) => reason,
        }
    }
}

impl Record {
    /// The digest for a rollback: the last good one, otherwise the one that the application was
    /// started with.
    pub(super) fn last_good(&self) -> Option<Digest> {
        self.good.or(self.for_start)
    }

    pub(super) fn is_quarantined(&self, digest: Digest) -> bool {
        self.bad.iter().any(|bad| bad.digest == digest)
    }

    /// Releases a digest from quarantine, because it is tried again or is good.
    pub(super) fn release(&mut self, digest: Digest) {
        self.bad.retain(|bad| bad.digest != digest);
    }

    /// Quarantines a digest; forgets the oldest ones beyond the limit.
    pub(super) fn quarantine(&mut self, bad: &(Digest, Reason)) {
        self.release(bad.0);
        self.bad.push(QuarantinedDigest::new(bad));
        let surplus = self.bad.len().saturating_sub(Published::MOST_QUARANTINED);
        self.bad.drain(..surplus);
        self.good = self.good.filter(|good| *good != bad.0);
        self.for_start = self.for_start.filter(|digest| *digest != bad.0);
    }

    /// The standing of a published digest.
    pub(super) fn standing(&self, digest: Digest) -> Standing {
        match digest {
            _ if self.is_open => Standing::Unproven,
            _ if self.good == Some(digest) => Standing::Good,
            _ if self.for_start == Some(digest) => Standing::ForStart,
            _ => Standing::Unproven,
        }
    }

    /// Parses a record, which another process may have written.
    pub(super) fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes).map(Self::bounded)
    }

    /// Loads the record; a missing file is an empty record.
    pub(super) fn load(dir: &Dir) -> Result<Self, LoadError> {
        let path = shown::path(&dir.path().join(FILE));
        let message = |error: &dyn fmt::Display| format!("cannot read `{path}`: {error}");
        let invalid = |error: &dyn fmt::Display| {
            LoadError::Invalid(
                Reason::new(message(error)).hint("restart podnudge: it creates a new one"),
            )
        };
        match dir.folder().read(FILE, LARGEST) {
            Ok(bytes) => match Self::parse(&bytes) {
                Ok(record) => Ok(record),
                // The error itself may repeat what the file says.
                Err(error) => Err(invalid(&format!(
                    "it is not what podnudge wrote (line {}, column {})",
                    error.line(),
                    error.column()
                ))),
            },
            Err(FileError::System(error)) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(error @ (FileError::NotAFile(_) | FileError::TooLarge(_))) => Err(invalid(&error)),
            Err(FileError::System(error)) => Err(LoadError::Failed(Reason::new(message(&error)).hint(
                format!(
                    "it records the good and the quarantined content; uid {} must be able to read it: run podnudge as the same uid in all containers, or set fsGroup in the pod's securityContext; or remove it to start over",
                    rustix::process::geteuid().as_raw()
                ),
            ))),
        }
    }

    /// Forgets what is beyond the limits, and makes the texts harmless where they are shown: a neighbour
    /// may have written the file.
    fn bounded(mut self) -> Self {
        let surplus = self.bad.len().saturating_sub(Published::MOST_QUARANTINED);
        self.bad.drain(..surplus);
        for bad in &mut self.bad {
            bad.message = shown::block(&bad.message, MAX_MESSAGE);
            bad.hint = bad.hint.take().map(|hint| shown::block(&hint, MAX_HINT));
        }
        self
    }

    pub(super) fn save(&self, dir: &Dir) -> Result<(), Reason> {
        dir.replace_file(FILE, &serde_json::to_vec(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantined_digest_is_not_good() {
        let (one, two) = (Digest([1; 32]), Digest([2; 32]));
        let bad = |digest| (digest, Reason::new("it did not work"));
        let mut record = Record { good: Some(one), for_start: Some(two), ..Record::default() };
        record.quarantine(&bad(two));
        assert_eq!(
            (record.last_good(), record.for_start, record.is_quarantined(two)),
            (Some(one), None, true)
        );
        record.release(two);
        assert!(!record.is_quarantined(two));
        record.quarantine(&bad(one));
        assert_eq!(record.last_good(), None);
    }
}
