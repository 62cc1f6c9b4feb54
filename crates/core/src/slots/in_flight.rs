//! One step of the protocol: a request. Pure.

use super::notice::Notice;
use super::waiter::Waiter;
use crate::clock::Moment;

/// What a request does with the Lease of a slot.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    Read(usize),
    /// Take or renew it.
    Take(usize),
    /// Create it as one that nobody holds, and that is not free.
    Make(usize),
    /// Wait in its line.
    LineUp(usize),
    /// Wait there no more.
    Leave(usize),
    /// Pass it on to the first in its line, or set it free.
    GiveBack(usize),
    /// Tell the last in its line that it is passed on another slot: the second one.
    Offer(usize, usize),
    /// Pass it on to this one, which was told.
    PassOn(usize, Waiter),
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
            Self::Read(slot)
            | Self::Take(slot)
            | Self::Make(slot)
            | Self::LineUp(slot)
            | Self::Leave(slot)
            | Self::Offer(slot, _)
            | Self::PassOn(slot, _)
            | Self::GiveBack(slot) => *slot,
            Self::Tell(_) => 0,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self, Self::Read(_))
    }
}

impl InFlight {
    pub(super) fn is_line_up(&self) -> bool {
        matches!(self.step, Purpose::LineUp(_))
    }
}
