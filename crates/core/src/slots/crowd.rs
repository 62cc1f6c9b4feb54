//! How many replicas seem to wait at a Lease, and so how long each leaves it to the others to line up. Pure.
//!
//! A busy API server tells late that the line is full, and meanwhile too many line up, which makes it busier: each write is
//! an event for each watch. So where more are in the line than it has room for, all spread their requests over a longer
//! time, also at the next rollout; where there is room for long, over a shorter one.

use std::time::Duration;

use crate::clock::Moment;

/// How many replicas are in a line before it is full. With the second one, no slot waits for the next replica; more of them
/// make the Lease longer, which each watch gets with each change.
pub(super) const ROOM: usize = 3;
/// The shortest time over which replicas spread their requests, and the longest.
const SPREAD: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(10));
/// How long at first for each slot, and the most: of some twenty replicas for each slot, 250 ask in a second.
const FIRST: (Duration, Duration) = (Duration::from_millis(80), Duration::from_secs(2));

/// What one replica has seen of the others at a Lease.
#[derive(Debug)]
pub(super) struct Crowd {
    /// The time over which those that want to line up spread their requests.
    spread: Duration,
    /// Since when there is room in the line.
    room_since: Option<Moment>,
    /// Whether more have lined up than there was room for, since there was room.
    is_overfull: bool,
}

impl Crowd {
    /// Nothing was seen, and there are so many slots.
    pub(super) fn new(slots: usize) -> Self {
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let spread = FIRST.0.saturating_mul(slots).clamp(SPREAD.0, FIRST.1);
        Self { spread, room_since: None, is_overfull: false }
    }

    pub(super) fn spread(&self) -> Duration {
        self.spread
    }

    /// Since when there is room in the line.
    pub(super) fn room_since(&self) -> Option<Moment> {
        self.room_since
    }

    /// Another line is looked at from now on, or what is known of this one is too old.
    pub(super) fn forget_line(&mut self) {
        self.room_since = None;
    }

    /// Takes how many wait in the line. Returns whether there is room now, and was none.
    pub(super) fn saw(&mut self, now: Moment, count: usize) -> bool {
        if count > ROOM + 1 && !std::mem::replace(&mut self.is_overfull, true) {
            self.spread = (self.spread * 2).min(SPREAD.1);
        }
        match self.room_since {
            None if count < ROOM => {
                (self.room_since, self.is_overfull) = (Some(now), false);
                true
            }
            Some(since) if count >= ROOM => {
                if now.since(since) > self.spread / 2 {
                    self.spread = (self.spread / 2).max(SPREAD.0);
                }
                self.room_since = None;
                false
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_over_as_long_as_needed_that_few_line_up_in_vain() {
        assert_eq!(Crowd::new(1000).spread(), FIRST.1);
        let mut crowd = Crowd::new(1);
        assert_eq!(crowd.spread(), SPREAD.0);
        let mut now = Moment::default();
        assert!(crowd.saw(now, 0) && !crowd.saw(now, 0));
        for _ in 0..20 {
            // One is enough until there is room again.
            for _ in 0..3 {
                assert!(!crowd.saw(now, ROOM + 2));
            }
            assert!(crowd.saw(now, ROOM - 1));
        }
        assert_eq!(crowd.spread(), SPREAD.1);
        for _ in 0..20 {
            now = now.after(SPREAD.1);
            assert!(!crowd.saw(now, ROOM));
            assert!(crowd.saw(now, ROOM - 1));
        }
        assert_eq!(crowd.spread(), SPREAD.0);
    }
}
