//! `[rule.jitter]`, `[rule.retry]` and `on-start`. Pure.

use super::prelude::*;
use podnudge_core::OnStart;
use podnudge_core::backoff::Retry;
use podnudge_core::jitter::{Jitter, JitterBy};

settings! {
    /// A wait before each action, which spreads replicas over time.
    impl Jitter = "[rule.jitter]"; validated {
        /// Spread replicas over this time.
        window: Duration = default("0s", duration(ZERO, DAY)).option("jitter", "TIME", Timing).common();
        /// What a replica's wait is computed from: the identity of its pod, its ordinal in the StatefulSet, or a random number.
        by: JitterBy = default("pod", choice()).option("jitter-by", "WHAT", Timing);
    }
}

settings! {
    /// How to retry after a failure.
    impl Retry = "[rule.retry]"; validated {
        /// The wait after the first failure. It doubles with each failure.
        first: Duration = default("1s", time_limit(HOUR));
        /// The longest wait between two attempts.
        max: Duration = default("1m", duration(MS.saturating_mul(10), DAY));
        /// How many attempts to make for the same content.
        attempts: u32 = default("10", number(1, u32::MAX));
    }
}

words! {
    impl JitterBy {
        Pod = "pod",
        Ordinal = "ordinal",
        Random = "random",
    }
}

words! {
    impl OnStart {
        IfNewer = "if-newer",
        Never = "never",
        Always = "always",
    }
}

impl Validated for Jitter {
    fn validate(&mut self, place: &Place<'_>) {
        // `podnudge check` writes the default, too.
        if place.has("by") && self.by != JitterBy::Pod && self.window.is_zero() {
            let reason = Reason::new("`by` has no effect: the jitter's window is `0s`");
            place.warn(Value("by"), reason.hint("add `window = \"30s\"`"));
        }
    }
}

impl Validated for Retry {
    fn validate(&mut self, place: &Place<'_>) {
        place.in_order(("first", &mut self.first), ("max", &mut self.max));
    }
}
