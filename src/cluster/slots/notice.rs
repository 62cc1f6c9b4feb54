//! What is to be written for the other replicas: which digests failed. Pure.

use crate::cluster::halts::{self, Halt};
use crate::cluster::lease::Lease;
use crate::volume::snapshot::Digest;

/// A change of the digests that failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Notice {
    Halt(Halt),
    Clear(Digest),
}

impl Notice {
    pub(super) fn digest(&self) -> Digest {
        match self {
            Self::Halt(halt) => halt.digest,
            Self::Clear(digest) => *digest,
        }
    }

    pub(super) fn applied_to(&self, mut halts: Vec<Halt>) -> Vec<Halt> {
        match self {
            Self::Halt(halt) => halts::add(&mut halts, halt.clone()),
            Self::Clear(digest) => halts.retain(|halt| halt.digest != *digest),
        }
        halts
    }

    /// Whether the Lease says so already.
    pub(super) fn is_told(&self, first: &Lease) -> bool {
        let mut halts = first.halts().into_iter();
        match self {
            Self::Halt(halt) => halts.any(|other| other.digest == halt.digest),
            Self::Clear(digest) => halts.all(|other| other.digest != *digest),
        }
    }
}
