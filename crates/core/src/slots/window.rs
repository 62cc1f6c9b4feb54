//! How long a replica leaves to others what all want. Pure.
//!
//! The waits are random, and the shortest one wins. How long they must be depends on how many wait, which nobody knows;
//! so each learns it from what it sees: where two write at the same time, the longest wait doubles, and where nobody does
//! for long, it shrinks.

use std::time::Duration;

use crate::random::Random;

/// The longest wait at first. With some twenty replicas, one writes after some hundredths of a second, and the others see
/// that.
const FIRST: Duration = Duration::from_millis(800);
const LIMITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(10));
/// That nobody writes for so long costs more than a request in vain.
const EMPTY: Duration = Duration::from_millis(100);

/// The waits of one replica.
#[derive(Debug)]
pub(super) struct Window {
    random: Random,
    longest: Duration,
    /// Whether it was doubled since there was something to wait for.
    is_doubled: bool,
    wait: Duration,
}

impl Window {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), longest: FIRST, is_doubled: false, wait: Duration::ZERO }
    }

    /// The wait.
    pub(super) fn wait(&self) -> Duration {
        self.wait
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
        let shorter = match after {
            after if after > EMPTY * 2 => self.longest / 2,
            after if after > EMPTY => self.longest / 4 * 3,
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
        assert!(longest(&mut window) <= EMPTY * 4);
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
    }
}
