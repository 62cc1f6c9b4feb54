//! What a replica does with a slot for which nobody waits at its Lease: it offers the slot to the last in the line of another
//! Lease. Pure.
//!
//! Replicas choose their homes by their names, so some Leases have more of them than others; without offers, a rollout
//! would last until the longest line is done, while other slots are free. Only a replica that had to wait itself looks for
//! somebody: else there are slots enough.

use super::waiter::Waiter;

/// The most Leases to read: near the end of a rollout, nobody waits at most of them.
const MOST_READS: usize = 5;

/// The search for another one that waits.
#[derive(Debug, Default)]
pub(super) struct Offering {
    step: Offer,
    /// The slots to read after this one.
    rest: Vec<usize>,
}

/// What is to be done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Offer {
    /// Nothing is to be done.
    #[default]
    None,
    /// Read the Lease of this slot.
    Read(usize),
    /// Tell the one that waits there.
    Tell(usize),
    /// Pass the slot on to this one, which was told.
    PassOn(Waiter),
}

impl Offering {
    /// The search begins, at the first of these slots.
    pub(super) fn begin(&mut self, mut slots: Vec<usize>) {
        slots.truncate(MOST_READS);
        slots.reverse();
        self.rest = slots;
        self.read();
    }

    /// Nobody is looked for.
    pub(super) fn end(&mut self) {
        (self.step, self.rest) = (Offer::None, Vec::new());
    }

    pub(super) fn step(&self) -> &Offer {
        &self.step
    }

    /// The Lease of this slot was seen.
    pub(super) fn seen(&mut self, slot: usize, is_waited_for: bool) {
        if self.step != Offer::Read(slot) {
            return;
        }
        if is_waited_for {
            self.step = Offer::Tell(slot);
        } else {
            self.read();
        }
    }

    fn read(&mut self) {
        self.step = self.rest.pop().map_or(Offer::None, Offer::Read);
    }

    /// Records that the replica that waits at another Lease was told: the slot is passed on to it.
    pub(super) fn told(&mut self, next: Waiter) {
        self.step = Offer::PassOn(next);
    }
}
