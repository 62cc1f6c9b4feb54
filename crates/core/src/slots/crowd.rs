//! How many replicas seem to wait at a Lease, and so how long each leaves it to the others to line up. Pure.
//!
//! A busy API server tells late that the line is full, and meanwhile too many line up, which makes it busier: each write is
//! an event for each watch. So where more are in the line than it has room for, all spread their requests over a longer
//! time, also at the next rollout; where there is room for long, over a shorter one.

use std::time::Duration;

use super::window::Window;
use crate::clock::Moment;

/// How many replicas are in a line before it is full. With the second one, no slot waits for the next replica; more of them
/// make the Lease longer, which each watch gets with each change.
pub(super) const ROOM: usize = 3;
/// The shortest time over which replicas spread their requests, and the longest.
const SPREAD: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(10));
/// How long at first for each slot, and the most: of some twenty replicas for each slot, 200 ask in a second.
const FIRST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The time over which replicas that share so many slots spread their first reads. These disturb nobody, so it does not
/// depend on how many were seen to wait: whoever reads last may act last.
pub(super) fn first_reads(slots: usize) -> Duration {
    let slots = u32::try_from(slots).unwrap_or(u32::MAX);
    FIRST.0.saturating_mul(slots).clamp(SPREAD.0, FIRST.1)
}

/// What one replica has seen of the others at a Lease.
#[derive(Debug)]
pub(super) struct Crowd {
    /// The time over which those that want to line up spread their requests.
    spread: Duration,
    room: Option<Room>,
    /// Whether more have lined up than there was room for, since there was room.
    is_overfull: bool,
}

/// The room in the line.
#[derive(Debug)]
struct Room {
    since: Moment,
    /// How long this replica leaves it to others.
    wait: Duration,
}

impl Crowd {
    /// Nothing was seen, and there are so many slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { spread: first_reads(slots), room: None, is_overfull: false }
    }

    /// When a replica that waits since `begins` lines up, if there is room.
    pub(super) fn line_up_at(&self, begins: Moment) -> Option<Moment> {
        self.room.as_ref().map(|room| room.since.max(begins).after(room.wait))
    }

    /// Another line counts from now on, or what is known of this one is too old.
    pub(super) fn forget_line(&mut self) {
        self.room = None;
    }

    /// Takes how many wait in the line.
    pub(super) fn saw(&mut self, now: Moment, count: usize, window: &mut Window) {
        if count > ROOM + 1 && !std::mem::replace(&mut self.is_overfull, true) {
            self.spread = (self.spread * 2).min(SPREAD.1);
        }
        if count < ROOM {
            if self.room.is_none() {
                let wait = window.ever_sooner(self.spread);
                (self.room, self.is_overfull) = (Some(Room { since: now, wait }), false);
            }
        } else if let Some(room) = self.room.take()
            && now.since(room.since) > self.spread / 2
        {
            self.spread = (self.spread / 2).max(SPREAD.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_over_as_long_as_needed_that_few_line_up_in_vain() {
        assert_eq!(Crowd::new(1000).spread, FIRST.1);
        let (mut crowd, mut window) = (Crowd::new(1), Window::new(1));
        assert_eq!(crowd.spread, SPREAD.0);
        let mut now = Moment::default();
        let mut saw = |crowd: &mut Crowd, now, count| {
            crowd.saw(now, count, &mut window);
            crowd.line_up_at(now)
        };
        assert!(saw(&mut crowd, now, 0).is_some());
        assert_eq!(saw(&mut crowd, now, 0), crowd.line_up_at(now));
        for _ in 0..20 {
            // One is enough until there is room again.
            for _ in 0..3 {
                assert_eq!(saw(&mut crowd, now, ROOM + 2), None);
            }
            assert!(saw(&mut crowd, now, ROOM - 1).is_some());
        }
        assert_eq!(crowd.spread, SPREAD.1);
        for _ in 0..20 {
            now = now.after(SPREAD.1);
            assert_eq!(saw(&mut crowd, now, ROOM), None);
            assert!(saw(&mut crowd, now, ROOM - 1).is_some());
        }
        assert_eq!(crowd.spread, SPREAD.0);
    }
}
