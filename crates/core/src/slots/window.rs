//! How long a replica leaves a free slot, or the room in a line, to others. Pure.
//!
//! The waits are random, and the shortest one wins. How long they must be depends on how many wait, which nobody knows:
//! where two write at the same time, the longest wait doubles until the next wait for a slot.

use std::time::Duration;

use crate::random::Random;

/// The longest wait at first. With some twenty replicas, one writes after some hundredths of a second, and the others see
/// that.
const FIRST: Duration = Duration::from_millis(1600);
const LONGEST: Duration = Duration::from_mins(10);
/// The time without a write that costs more than a request in vain.
const EMPTY: Duration = Duration::from_millis(100);
/// How much shorter the wait is where few wait.
const FEW: u32 = 4;

/// The waits of one replica.
#[derive(Debug)]
pub(super) struct Window {
    random: Random,
    longest: Duration,
    wait: Duration,
}

impl Window {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), longest: FIRST, wait: Duration::ZERO }
    }

    /// The wait that was drawn last.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// A wait for a slot begins. Many may wait now, whatever was learned when the last one ended.
    pub(super) fn begin(&mut self) {
        self.longest = FIRST;
    }

    /// There is no wait: that was over before.
    pub(super) fn skip(&mut self) {
        self.wait = Duration::ZERO;
    }

    /// Draws the wait anew.
    pub(super) fn draw(&mut self) {
        self.wait = self.ever_sooner(self.longest);
    }

    /// Draws the wait for a slot that was given back: nobody was in its line, so few wait.
    pub(super) fn draw_among_few(&mut self) {
        self.wait = self.ever_sooner(self.longest / FEW);
    }

    /// A random time below the longest. The longer nobody writes, the fewer wait, it seems: so the longest is halved after
    /// each time without a write.
    pub(super) fn ever_sooner(&mut self, mut longest: Duration) -> Duration {
        let mut wait = Duration::ZERO;
        loop {
            let drawn = self.random.below(longest);
            if drawn < EMPTY {
                return wait + drawn;
            }
            (wait, longest) = (wait + EMPTY, longest / 2);
        }
    }

    /// Two wrote at the same time.
    pub(super) fn collided(&mut self) {
        self.longest = self.longest.saturating_mul(2).min(LONGEST);
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
    fn the_waits_follow_how_many_there_seem_to_be_and_stay_below_two_seconds() {
        let longest = |window: &mut Window| {
            let waits = (0..1000).map(|_| {
                window.draw();
                window.wait()
            });
            waits.max().unwrap_or_default()
        };
        let mut window = Window::new(1);
        assert!(longest(&mut window) <= EMPTY * 5);
        for _ in 0..30 {
            window.collided();
        }
        let crowded = longest(&mut window);
        assert!(crowded > EMPTY * 5 && crowded < Duration::from_secs(2), "{crowded:?}");
        window.begin();
        assert!(longest(&mut window) <= EMPTY * 5);
    }
}
