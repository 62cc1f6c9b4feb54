//! What is to be written for the other replicas: which digests failed. Pure.

use super::halt::{self, Halt};
use super::lease::Lease;
use crate::snapshot::Digest;

/// A change of the digests that failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Notice {
    Halt(Halt),
    /// Content that failed works after all. What was said of it since stays.
    Clear(Halt),
}

impl Notice {
    pub(super) fn digest(&self) -> Digest {
        match self {
            Self::Halt(halt) | Self::Clear(halt) => halt.digest,
        }
    }

    /// The digest that the other replicas are not to use any more, if it says so.
    pub(super) fn halted(&self) -> Option<Digest> {
        match self {
            Self::Halt(halt) => Some(halt.digest),
            Self::Clear(_) => None,
        }
    }

    pub(super) fn applied_to(&self, mut halts: Vec<Halt>) -> Vec<Halt> {
        match self {
            Self::Halt(halt) => halt::add(&mut halts, halt.clone()),
            Self::Clear(halt) => halts.retain(|other| other != halt),
        }
        halts
    }

    /// Whether the Lease says so already.
    pub(super) fn is_told(&self, first: &Lease) -> bool {
        let mut halts = first.halts().into_iter();
        match self {
            Self::Halt(halt) => halts.any(|other| other.digest == halt.digest),
            Self::Clear(halt) => halts.all(|other| other != *halt),
        }
    }
}
