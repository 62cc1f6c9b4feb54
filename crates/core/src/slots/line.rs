//! A request to be next, which may be answered by a pass, or by the offer of another slot. Pure.

use super::lease::{Lease, Next};
use crate::clock::Moment;

/// A request to be next at the Lease of a slot.
#[derive(Debug, Clone)]
pub(super) struct Line {
    slot: usize,
    token: String,
    sent: Moment,
    /// Since when it is about to be passed on that slot, to which it has moved.
    offered_at: Option<Moment>,
}

impl Line {
    /// One that is sent now, and what it writes. `number` is a random one.
    pub(super) fn new(now: Moment, slot: usize, holder: &str, number: u64) -> (Self, Next) {
        let token = format!("{number:016x}");
        let next = Next { holder: holder.to_owned(), token: token.clone(), offered: None };
        (Self { slot, token, sent: now, offered_at: None }, next)
    }

    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    pub(super) fn offered_at(&self) -> Option<Moment> {
        self.offered_at
    }

    /// Whether it wrote this.
    pub(super) fn is_of(&self, next: &Next) -> bool {
        self.token == next.token
    }

    /// When it was sent, if the Lease of this slot says that it is, or was, next.
    pub(super) fn sent_at(&self, slot: usize, lease: &Lease) -> Option<Moment> {
        let is_own = lease.next().is_some_and(|next| self.is_of(next));
        (slot == self.slot && is_own).then_some(self.sent)
    }

    /// Moves to the slot that the Lease says it is offered, if it does: one below `count`.
    pub(super) fn accept(&mut self, now: Moment, lease: &Lease, count: usize) -> Option<usize> {
        let next = lease.next().filter(|next| self.is_of(next))?;
        let slot = next.offered.filter(|slot| *slot < count)?;
        (self.slot, self.offered_at) = (slot, Some(now));
        Some(slot)
    }
}
