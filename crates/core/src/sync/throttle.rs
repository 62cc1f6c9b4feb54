//! The pace of requests: one after the other at a rate, never several at once; slower after failures. Pure.

use std::time::Duration;

use crate::backoff::doubled;
use crate::clock::Moment;
use crate::random::Random;

/// The pause after the first failure; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that the server may ask for.
const LONGEST_ASKED: Duration = Duration::from_mins(1);
/// More failures make no pause longer.
const MOST_FAILURES: u32 = 7;
/// A success makes up for so many failures: the pauses grow as soon as more than two of three requests fail.
const SUCCESS: u32 = 2;

#[derive(Debug)]
pub(super) struct Throttle {
    /// The time between two requests.
    interval: Duration,
    next_at: Moment,
    failures: u32,
    /// A failure of a request from before this moment tells nothing new.
    failed_at: Moment,
    random: Random,
}

impl Throttle {
    /// `rate` is in requests a second.
    pub(super) fn new(rate: u32, seed: u64) -> Self {
        Self {
            interval: Duration::from_secs(1) / rate.max(1),
            next_at: Moment::default(),
            failures: 0,
            failed_at: Moment::default(),
            random: Random::new(seed),
        }
    }

    pub(super) fn next_at(&self) -> Moment {
        self.next_at
    }

    /// A request is sent. Time that has passed without one is not made up for.
    pub(super) fn take(&mut self, now: Moment) {
        self.next_at = self.next_at.max(now.after(self.interval));
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = self.failures.saturating_sub(SUCCESS);
    }

    /// A request that was sent then has failed. The server may ask for a pause.
    pub(super) fn failed(&mut self, now: Moment, sent: Moment, asked: Option<Duration>) {
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        // Not all of those who are asked to wait come back at the same time.
        let asked = asked + self.random.below(asked / 4);
        let mut pause = asked;
        if sent >= self.failed_at {
            let wait = doubled(FIRST_PAUSE, self.failures, LONGEST_PAUSE);
            self.failures = self.failures.saturating_add(1).min(MOST_FAILURES);
            self.failed_at = now;
            pause = pause.max(wait / 2 + self.random.below(wait / 2));
        }
        self.next_at = self.next_at.max(now.after(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn requests_are_spread_evenly_and_failures_at_once_count_once() {
        let mut throttle = Throttle::new(50, 1);
        let now = Moment(Duration::from_secs(9));
        throttle.take(now);
        assert_eq!(throttle.next_at(), now.after(20 * MILLI));
        let later = now.after(500 * MILLI);
        throttle.take(later);
        assert_eq!(throttle.next_at(), later.after(20 * MILLI), "no burst");
        (0..8).for_each(|_| throttle.failed(later, now, None));
        assert_eq!(throttle.failures, 1);
        assert!(throttle.next_at() >= later.after(FIRST_PAUSE / 2), "a pause");
        throttle.failed(later, now, Some(Duration::from_secs(3)));
        assert!(throttle.next_at() >= later.after(Duration::from_secs(3)));
        throttle.failed(later, now, Some(Duration::from_hours(9)));
        assert!(throttle.next_at() <= later.after(Duration::from_secs(75)));
    }

    proptest! {
        /// Whatever share of the requests fails: never more than the rate, and all are done in the end.
        #[test]
        fn failures_make_no_more_requests(share in 0.0..0.9_f64, seed: u64) {
            let mut throttle = Throttle::new(50, seed);
            let mut random = Random::new(seed ^ 1);
            let (mut now, mut sent, mut done) = (Moment::default(), 0, 0);
            while done < 100 {
                now = now.max(throttle.next_at());
                throttle.take(now);
                sent += 1;
                if random.part() < share {
                    throttle.failed(now, now, None);
                } else {
                    throttle.succeeded();
                    done += 1;
                }
                let possible = now.0.as_millis() / 20 + 1;
                prop_assert!(sent <= possible);
                prop_assert!(now.0 < Duration::from_hours(4), "{} of 100 after {:?}", done, now);
            }
            if share < 0.5 {
                prop_assert!(now.0 < Duration::from_mins(5), "{now:?}");
            }
        }
    }
}
