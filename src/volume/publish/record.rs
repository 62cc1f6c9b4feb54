//! What is known of the digests in a publish directory: a small file beside the generations,
//! replaced by a rename.

use serde::{Deserialize, Serialize};

use super::dir::Dir;
use crate::core::event::{Reason, Standing};
use crate::files::{self, LARGEST};
use crate::volume::snapshot::Digest;

/// Hidden from the application as the kubelet's own names are.
pub(super) const FILE: &str = "..podnudge.json";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Record {
    /// Put there by `podnudge once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) for_start: Option<Digest>,
    /// Verified last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) good: Option<Digest>,
    /// Whether the application may not have been told of what is published.
    pub(super) is_open: bool,
    /// Not to be used again, the oldest first.
    pub(super) bad: Vec<Bad>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bad {
    pub(super) digest: Digest,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    hint: Option<String>,
}

impl Bad {
    pub(super) fn new((digest, reason): &(Digest, Reason)) -> Self {
        Self { digest: *digest, message: reason.message.clone(), hint: reason.hint.clone() }
    }

    pub(super) fn into_pair(self) -> (Digest, Reason) {
        (self.digest, Reason { message: self.message, hint: self.hint })
    }
}

impl Record {
    /// What can be gone back to: what the application was started with is better than what does not
    /// work.
    pub(super) fn last_good(&self) -> Option<Digest> {
        self.good.or(self.for_start)
    }

    /// How far a published digest is proven.
    pub(super) fn standing(&self, digest: Digest) -> Standing {
        match digest {
            _ if self.is_open => Standing::Trying,
            _ if self.good == Some(digest) => Standing::Good,
            _ if self.for_start == Some(digest) => Standing::ForStart,
            _ => Standing::Trying,
        }
    }

    /// What is recorded; nothing, where that cannot be read: then nothing is relied on.
    pub(super) fn load(dir: &Dir) -> Self {
        let bytes = files::read(&dir.path().join(FILE), LARGEST);
        bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub(super) fn save(&self, dir: &Dir) -> Result<(), Reason> {
        dir.replace(FILE, &serde_json::to_vec(self).unwrap_or_default())
    }
}
