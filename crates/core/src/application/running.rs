//! The digest that the application runs, and how podnudge knows that.

use crate::clock::UnixTime;
use crate::event::Known;
use crate::evidence::Evidence;
use crate::snapshot::Digest;

/// The digest that the application is known, or at start assumed, to run; none after anything was sent and until it is
/// verified.
#[derive(Debug, Default)]
pub(super) struct Running {
    digest: Option<Digest>,
    /// The last evidence, also while the digest is unknown.
    evidence: Evidence,
}

impl Running {
    pub(super) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The evidence for the digest.
    pub(super) fn evidence(&self) -> Evidence {
        self.digest.map_or(Evidence::None, |_| self.evidence)
    }

    pub(super) fn last_evidence(&self) -> Evidence {
        self.evidence
    }

    pub(super) fn set(&mut self, digest: Option<Digest>, evidence: Evidence) {
        (self.digest, self.evidence) = (digest, evidence);
    }

    /// Makes the digest unknown.
    pub(super) fn forget(&mut self) {
        self.digest = None;
    }

    /// Drops the evidence: the process that ran the digest is gone.
    pub(super) fn drop_evidence(&mut self) {
        self.evidence = Evidence::None;
    }

    /// The state to save.
    pub(super) fn known(&self, at: UnixTime) -> Known {
        Known { running: self.digest, evidence: self.evidence(), at }
    }
}
