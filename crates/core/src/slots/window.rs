//! How long a replica leaves to others what all want. Pure.
//!
//! The waits are random, and the shortest one wins. How long they must be depends on how many wait, which nobody knows;
//! so each learns it from what it sees: where two write at the same time, the longest wait doubles, and where nobody does
//! for long, it shrinks. That a server is slow to tell is not counted: else all would write at the same time just when it
//! has too much to do.

use std::time::Duration;

use crate::random::Random;

/// The longest wait at first. With some twenty replicas, one writes after some hundredths of a second, and the others see
/// that.
const FIRST: Duration = Duration::from_millis(1600);
const LIMITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(10));
/// The time without a write that costs more than a request in vain.
const EMPTY: Duration = Duration::from_millis(100);

/// The waits of one replica.
#[derive(Debug)]
pub(super) struct Window {
    random: Random,
    longest: Duration,
    /// How long the last request took: what another one writes is seen no sooner.
    latency: Duration,
    /// Whether it was doubled since there was something to wait for.
    is_doubled: bool,
    wait: Duration,
}

impl Window {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            longest: FIRST,
            latency: Duration::ZERO,
            is_doubled: false,
            wait: Duration::ZERO,
        }
    }

    /// The wait that was drawn last.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// A wait for a slot begins. Many may wait now, whatever was learned when the last one ended.
    pub(super) fn begin(&mut self) {
        self.longest = self.longest.max(FIRST);
    }

    /// A request took so long.
    pub(super) fn took(&mut self, time: Duration) {
        self.latency = time;
    }

    /// There is no wait: that was over before.
    pub(super) fn skip(&mut self) {
        self.wait = Duration::ZERO;
    }

    /// There is something that all want.
    pub(super) fn open(&mut self) {
        self.is_doubled = false;
        self.draw();
    }

    /// Draws the wait anew. The longer nobody writes, the fewer wait, it seems: so the longest wait is halved each time that
    /// nobody did.
    pub(super) fn draw(&mut self) {
        let (mut wait, mut longest) = (Duration::ZERO, self.longest);
        self.wait = loop {
            let drawn = self.random.below(longest);
            if drawn < EMPTY {
                break wait + drawn;
            }
            (wait, longest) = (wait + EMPTY, longest / 2);
        };
    }

    /// Another one got it, so long after it could.
    pub(super) fn closed(&mut self, after: Duration) {
        let shorter = match after.saturating_sub(self.latency) {
            empty if empty > EMPTY => self.longest / 4,
            empty if empty > EMPTY / 2 => self.longest / 2,
            _ => return,
        };
        self.longest = shorter.max(LIMITS.0);
    }

    /// Two wrote at the same time. More of them say the same.
    pub(super) fn collided(&mut self) {
        if !std::mem::replace(&mut self.is_doubled, true) {
            self.longest = self.longest.saturating_mul(2).min(LIMITS.1);
        }
        self.draw();
    }

    /// A random time below this one.
    pub(super) fn below(&mut self, time: Duration) -> Duration {
        self.random.below(time)
    }

    /// A random number.
    pub(super) fn bits(&mut self) -> u64 {
        self.random.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_follow_how_many_there_seem_to_be_and_stay_below_a_second() {
        let longest = |window: &mut Window| {
            let waits = (0..1000).map(|_| {
                window.open();
                window.wait()
            });
            waits.max().unwrap_or_default()
        };
        let mut window = Window::new(1);
        assert!(longest(&mut window) <= EMPTY * 5);
        for _ in 0..30 {
            window.open();
            window.collided();
            // One of them is enough.
            window.collided();
        }
        let crowded = longest(&mut window);
        assert!(crowded > EMPTY * 5 && crowded < Duration::from_secs(2), "{crowded:?}");
        for _ in 0..30 {
            window.closed(EMPTY * 3);
        }
        assert!(longest(&mut window) <= LIMITS.0);
        window.begin();
        assert!(longest(&mut window) > EMPTY * 4, "many may wait for the next slot");
    }

    #[test]
    fn a_slow_server_makes_no_wait_shorter() {
        let mut window = Window::new(1);
        window.took(EMPTY * 3);
        window.closed(EMPTY * 3);
        assert_eq!(window.longest, FIRST);
        window.closed(EMPTY * 5);
        assert!(window.longest < FIRST);
    }
}
