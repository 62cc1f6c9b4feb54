//! The wait before the next attempt.

use std::time::Duration;

/// How to retry after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The wait after the first failure. It doubles with each failure.
    pub first: Duration,
    /// The longest wait between two attempts.
    pub max: Duration,
    /// How many attempts to make for the same content.
    pub attempts: u32,
}

/// The wait after the `attempt`th consecutive failure (1 for the first): `first`, doubled with each
/// further failure, at most `max`. There is no randomness: the jitter has already spread the
/// replicas.
#[must_use]
pub fn wait_after(attempt: u32, retry: Retry) -> Duration {
    doubled(retry.first, attempt.saturating_sub(1), retry.max)
}

/// `first` doubled `times` times, at most `max`.
#[must_use]
pub fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    2u32.checked_pow(times).and_then(|factor| first.checked_mul(factor)).map_or(max, |w| w.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_never_overflows() {
        let retry = Retry {
            first: Duration::from_secs(1),
            max: Duration::from_mins(1),
            attempts: u32::MAX,
        };
        let seconds = |attempt| wait_after(attempt, retry).as_secs();
        assert_eq!((1..=8).map(seconds).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(seconds(0), 1);
        assert_eq!(seconds(u32::MAX), 60);
    }
}
