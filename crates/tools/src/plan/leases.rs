//! A model of the slots: Leases without failures and conflicts, and the requests that they cost.
//!
//! As the core's `slots.rs` does, a replica without a slot looks at all Leases again and again, and takes one
//! that is free; a holder renews it at a third of its duration. So slots are not given in any order.

use std::time::Duration;

use super::random::Random;
use super::requests::Requests;
use super::scenario::Slots;
use podnudge_core::clock::Moment;

/// The Leases that all replicas share, and the requests about them.
#[derive(Debug)]
pub(super) struct Leases {
    slots: Slots,
    free: u32,
    /// Those of all replicas.
    pub(super) requests: Requests,
}

/// A slot that a replica holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    since: Moment,
}

impl Leases {
    pub(super) fn new(slots: Slots) -> Self {
        Self { slots, free: slots.count, requests: Requests::default() }
    }

    /// Reads all Leases, and takes one if it can.
    pub(super) fn look(&mut self, now: Moment) -> Option<Held> {
        self.requests.add(now, self.slots.count);
        self.free = self.free.checked_sub(1)?;
        // One to take it, and one to read whether the content has failed elsewhere.
        self.requests.add(now, 2);
        Some(Held { since: now })
    }

    /// The wait until the next look: a sixth of the duration, doubled up to the whole; random from a half.
    pub(super) fn wait(&self, looks: u32, random: &mut Random) -> Duration {
        let whole = (self.slots.duration / 6).saturating_mul(1 << looks.min(3));
        let half = whole.min(self.slots.duration) / 2;
        half + random.below(half)
    }

    /// Gives a slot back.
    pub(super) fn release(&mut self, held: Held, now: Moment) {
        self.free = self.free.saturating_add(1).min(self.slots.count);
        let third = self.slots.duration / 3;
        let mut renewed = held.since.after(third);
        while renewed < now && !third.is_zero() {
            self.requests.add(renewed, 1);
            renewed = renewed.after(third);
        }
        self.requests.add(now, 1);
    }
}
