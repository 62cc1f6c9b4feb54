//! A request to line up, which may be answered by a pass, or by the offer of another slot. Pure.

use std::time::Duration;

use super::lease::Lease;
use super::waiter::Waiter;
use crate::clock::Moment;

/// How long after it was announced a slot has been passed on.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// A request to line up at the Lease of a slot.
#[derive(Debug, Clone)]
pub(super) struct Line {
    slot: usize,
    next: Waiter,
    sent: Moment,
    /// Since when it is about to be passed on that slot, to which it has moved.
    offered_at: Option<Moment>,
}

impl Line {
    /// One that is sent now.
    pub(super) fn new(now: Moment, slot: usize, next: Waiter) -> Self {
        Self { slot, next, sent: now, offered_at: None }
    }

    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// By when the slot that it is offered has been passed on.
    pub(super) fn arrives_by(&self) -> Option<Moment> {
        self.offered_at.map(|since| since.after(ON_ITS_WAY))
    }

    /// When it was sent, if the Lease of this slot says that it waits there, or did.
    pub(super) fn sent_at(&self, slot: usize, lease: &Lease) -> Option<Moment> {
        (slot == self.slot && self.entry(lease).is_some()).then_some(self.sent)
    }

    /// Moves to the slot that the Lease says it is offered, if it does: one below `count`.
    pub(super) fn accept(&mut self, now: Moment, lease: &Lease, count: usize) -> Option<usize> {
        let slot = self.entry(lease)?.offered.filter(|slot| *slot < count)?;
        (self.slot, self.offered_at) = (slot, Some(now));
        Some(slot)
    }

    /// What it wrote, if that is still there.
    fn entry<'a>(&self, lease: &'a Lease) -> Option<&'a Waiter> {
        lease.entry_of(&self.next.holder).filter(|next| next.token == self.next.token)
    }

    /// Whether this is what it wrote.
    pub(super) fn is_in(&self, lease: &Lease) -> bool {
        self.entry(lease).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(holder: &str, token: &str) -> Waiter {
        Waiter { holder: holder.to_owned(), token: token.to_owned(), offered: None }
    }

    #[test]
    fn only_the_lease_that_it_was_sent_to_tells_when_it_was_sent_if_it_is_there() {
        let now = Moment(Duration::from_secs(100));
        let (own, slot) = (waiter("web-1_u_rule", "0000000100000001"), 2);
        let line = Line::new(now, slot, own.clone());
        let lease = Lease::new("rule-2").lined_up(own.clone());
        assert!(line.is_in(&lease));
        assert_eq!(line.sent_at(slot, &lease), Some(now));
        assert_eq!(line.sent_at(1, &lease), None);
        let before = waiter("web-1_u_rule", "0000000100000002");
        for other in [before, waiter("web-2_u_rule", "0000000100000001")] {
            let lease = Lease::new("rule-2").lined_up(other);
            assert_eq!((line.is_in(&lease), line.sent_at(slot, &lease)), (false, None));
        }
    }
}
