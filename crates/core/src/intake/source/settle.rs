//! Settling: waiting for quiet after a hint, with an upper bound.

use std::time::Duration;

use crate::clock::Moment;

/// A wait that each further hint prolongs, up to a cap. Files or volumes that change together cause
/// one reload, and a volume that never settles is still read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settle {
    quiet_until: Moment,
    cap: Moment,
    /// Whether there is nothing to wait for, because commits have put whole contents in place.
    is_at_commit: bool,
}

impl Settle {
    /// Begins with the first hint at `now`.
    pub(crate) fn begin(now: Moment, quiet: Duration, longest: Duration) -> Self {
        let cap = now.after(longest.max(quiet));
        Self { quiet_until: now.after(quiet), cap, is_at_commit: false }
    }

    /// Ends now, because commits have put whole contents in place.
    pub(crate) fn at_commit(now: Moment) -> Self {
        Self { is_at_commit: true, ..Self::begin(now, Duration::ZERO, Duration::ZERO) }
    }

    /// Handles a further hint.
    pub(crate) fn prolong(self, now: Moment, quiet: Duration) -> Self {
        Self { quiet_until: now.after(quiet).min(self.cap), ..self }
    }

    /// When the wait ends if no further hint arrives.
    pub(crate) fn until(self) -> Moment {
        self.quiet_until
    }

    /// Whether it ended at a commit.
    pub(crate) fn is_at_commit(self) -> bool {
        self.is_at_commit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Moment {
        Moment(Duration::from_millis(n))
    }

    #[test]
    fn each_hint_prolongs_the_wait_but_never_past_the_cap() {
        let (quiet, longest) = (Duration::from_millis(200), Duration::from_millis(500));
        let settle = Settle::begin(ms(1000), quiet, longest);
        assert_eq!(settle.until(), ms(1200));
        let settle = settle.prolong(ms(1150), quiet);
        assert_eq!(settle.until(), ms(1350));
        assert_eq!(settle.prolong(ms(1340), quiet).until(), ms(1500));
        assert_eq!(settle.prolong(ms(1499), quiet).until(), ms(1500));
    }

    #[test]
    fn a_cap_below_the_quiet_time_does_not_shorten_it() {
        let settle = Settle::begin(ms(0), Duration::from_millis(200), Duration::ZERO);
        assert_eq!(settle.until(), ms(200));
    }
}
