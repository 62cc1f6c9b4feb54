//! When to send the next request: after a failure, a conflict, or when slots were read that are all held. Waits
//! are random, so that replicas that failed together do not come back together; the seed is passed in. Pure.

use std::time::Duration;

use crate::api_error::ApiError;
use crate::backoff::doubled;
use crate::random::Random;

/// After the first failure; doubled with each further one.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// Before a watch that broke off is begun again, at least the first and at most the second: an API server that ends breaks
/// off those of all replicas at once.
const FIRST_WATCH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// The longest wait after failures, unless a slot is held.
pub const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// The longest wait after refusals: somebody has to change a Role.
const LONGEST_REFUSAL: Duration = Duration::from_mins(5);
/// The longest pause that the server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After the first conflict; doubled with each further one in a row.
const FIRST_CONFLICT: Duration = Duration::from_millis(50);
const LONGEST_CONFLICT: Duration = Duration::from_secs(2);

/// More failures than this make no wait longer.
const MOST_FAILURES: u32 = 10;

/// Counts what went wrong in a row.
#[derive(Debug, Clone)]
pub struct Pace {
    random: Random,
    failures: u32,
    conflicts: u32,
    reads: u32,
    untold: u32,
}

impl Pace {
    /// Nothing has gone wrong yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), failures: 0, conflicts: 0, reads: 0, untold: 0 }
    }

    /// The server has answered. One answer among many refusals is no reason to ask as often as ever: the next wait is
    /// half as long.
    pub fn answered(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    /// Whether the last write met another one.
    #[must_use]
    pub fn has_conflicted(&self) -> bool {
        self.conflicts > 0
    }

    /// A slot was taken, or none is wanted any more.
    pub fn done(&mut self) {
        self.conflicts = 0;
        self.reads = 0;
    }

    /// The wait after a failure: at most `most`, and at least what the server asks for.
    pub fn failed(&mut self, most: Duration, pause: Option<Duration>) -> Duration {
        let wait = doubled(FIRST_RETRY, self.failures, LONGEST_RETRY.min(most));
        self.failures = self.failures.saturating_add(1).min(MOST_FAILURES);
        self.jittered(wait).max(pause.unwrap_or_default().min(LONGEST_PAUSE))
    }

    /// As [`Pace::failed`], for a watch, or the list before it: 1 to 5 s at first.
    pub fn broken_off(&mut self, most: Duration, pause: Option<Duration>) -> Duration {
        let (least, longest) = FIRST_WATCH;
        let wait = least + self.random.below(longest.saturating_sub(least));
        self.failed(most, pause).max(wait)
    }

    /// The wait after this error: at most `most`, if it may pass by itself.
    pub fn after(&mut self, error: &ApiError, most: Duration) -> Duration {
        if error.needs_a_person() { self.refused() } else { self.failed(most, error.retry_after()) }
    }

    /// The wait after an error of a watch, or of the list before it.
    pub fn after_watch(&mut self, error: &ApiError) -> Duration {
        if error.needs_a_person() {
            self.refused()
        } else {
            self.broken_off(LONGEST_RETRY, error.retry_after())
        }
    }

    /// The wait after a refusal, which an immediate repetition does not change.
    pub fn refused(&mut self) -> Duration {
        let wait = doubled(FIRST_RETRY * 4, self.failures, LONGEST_REFUSAL);
        self.failures = self.failures.saturating_add(1).min(MOST_FAILURES);
        self.jittered(wait)
    }

    /// The wait after an answer that lacks what was written for the other replicas. Answers to other requests do not
    /// shorten it.
    pub fn untold(&mut self) -> Duration {
        let wait = doubled(FIRST_RETRY * 4, self.untold, LONGEST_REFUSAL);
        self.untold = self.untold.saturating_add(1);
        self.jittered(wait)
    }

    /// All of it is written.
    pub fn told(&mut self) {
        self.untold = 0;
    }

    /// The wait after a conflict.
    pub fn conflicted(&mut self) -> Duration {
        let wait = doubled(FIRST_CONFLICT, self.conflicts, LONGEST_CONFLICT);
        self.conflicts = self.conflicts.saturating_add(1);
        self.jittered(wait)
    }

    /// The wait until slots that are all held are read again: a sixth of the duration of a Lease, doubled
    /// up to the whole. So the wait stays short compared with the time already waited, and many waiting
    /// replicas do not burden the server.
    pub fn next_read(&mut self, duration: Duration) -> Duration {
        let wait = doubled(duration / 6, self.reads, duration);
        self.reads = self.reads.saturating_add(1);
        self.jittered(wait)
    }

    /// Between half of it and all of it.
    pub fn jittered(&mut self, wait: Duration) -> Duration {
        let half = wait / 2;
        half + self.random.below(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_limits_and_differ_between_seeds() {
        let mut pace = Pace::new(7);
        let hour = Duration::from_hours(1);
        let waits: Vec<Duration> = (0..20).map(|_| pace.failed(hour, None)).collect();
        for (n, wait) in waits.iter().enumerate() {
            let whole = doubled(FIRST_RETRY, u32::try_from(n).expect("it is small"), LONGEST_RETRY);
            assert!((whole / 2..=whole).contains(wait), "{n}: {wait:?}");
        }
        assert_ne!(Pace::new(1).failed(hour, None), Pace::new(2).failed(hour, None));
        assert!(pace.failed(Duration::from_secs(1), None) <= Duration::from_secs(1));
        assert_eq!(pace.failed(hour, Some(Duration::from_secs(45))), Duration::from_secs(45));
        assert_eq!(pace.failed(hour, Some(Duration::from_hours(9))), LONGEST_PAUSE);
        // Ten failures count at most: the wait is the longest one until four answers have halved it.
        (0..4).for_each(|_| pace.answered());
        assert!(pace.failed(hour, None) <= LONGEST_RETRY / 2, "it is half as long");
        (0..20).for_each(|_| pace.answered());
        assert!(pace.failed(hour, None) <= FIRST_RETRY);
        let first: Vec<_> = (0..100).map(|seed| Pace::new(seed).broken_off(hour, None)).collect();
        assert!(first.iter().all(|wait| (1..5).contains(&wait.as_secs())), "{first:?}");
        let (least, most) = (first.iter().min(), first.iter().max());
        assert!(
            least < Some(&Duration::from_millis(1500)) && most > Some(&Duration::from_millis(4500))
        );
        let mut broken = Pace::new(7);
        for _ in 0..10 {
            broken.broken_off(hour, None);
        }
        assert!(broken.broken_off(hour, None) >= LONGEST_RETRY / 2, "then as after any failure");
        for whole in [600, 1200, 2400, 3600, 3600] {
            let wait = pace.next_read(hour).as_secs();
            assert!((whole / 2..=whole).contains(&wait), "{wait} of {whole}");
        }
    }
}
