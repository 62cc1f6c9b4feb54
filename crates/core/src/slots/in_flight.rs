//! One step of the protocol: a request. Pure.

use super::notice::Notice;
use crate::clock::Moment;

/// What a request does with the Lease of a slot.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    Read(usize),
    Take(usize),
    GiveBack(usize),
    /// Write the notice to the first Lease.
    Tell(Notice),
}

/// A request without an answer yet.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) step: Purpose,
    pub(super) sent: Moment,
    /// Whether it creates the object.
    pub(super) creates: bool,
}

impl Purpose {
    pub(super) fn slot(&self) -> usize {
        match self {
            Self::Read(slot) | Self::Take(slot) | Self::GiveBack(slot) => *slot,
            Self::Tell(_) => 0,
        }
    }
}
