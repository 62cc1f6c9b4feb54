//! `[rule.jitter]`, `[rule.retry]` and `on-start`. Pure.

use super::prelude::*;

settings! {
    /// A wait before each action, which spreads replicas over time.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Jitter = "[rule.jitter]"; validated {
        /// Spread replicas over this time.
        window: Duration = default("0s", duration(ZERO, DAY)).option("jitter", "TIME", Timing).common();
        /// What a replica's wait is computed from: the identity of its pod, its ordinal in the StatefulSet, or a random number.
        by: JitterBy = default("pod", JitterBy::choice()).option("jitter-by", "WHAT", Timing);
    }
}

settings! {
    /// How to retry after a failure.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Retry = "[rule.retry]"; validated {
        /// The wait after the first failure. It doubles with each failure.
        first: Duration = default("1s", time_limit(HOUR));
        /// The longest wait between two attempts.
        max: Duration = default("1m", duration(MS.saturating_mul(10), DAY));
        /// How many attempts to make for the same content.
        attempts: u32 = default("10", number(1, u32::MAX));
    }
}

words! {
    /// What a replica's wait is computed from.
    pub enum JitterBy {
        /// The pod's identity and the digest, which gives another order for each change.
        Pod = "pod",
        /// The `StatefulSet` ordinal at the end of the pod's name.
        Ordinal = "ordinal",
        /// A random number.
        Random = "random",
    }
}

words! {
    /// Whether to act on the content that is found at start, if no state directory tells more.
    pub enum OnStart {
        /// Act once if the newest commit is newer than the target's start.
        IfNewer = "if-newer",
        /// Never act on it.
        Never = "never",
        /// Always act on it.
        Always = "always",
    }
}

impl Jitter {
    fn validate(&mut self, place: &Place<'_>) {
        // `podnudge check` writes the default, too.
        if place.has("by") && self.by != JitterBy::Pod && self.window.is_zero() {
            let reason = Reason::new("`by` has no effect: the jitter's window is `0s`");
            place.warn(Value("by"), reason.hint("add `window = \"30s\"`"));
        }
    }
}

impl Retry {
    fn validate(&mut self, place: &Place<'_>) {
        place.in_order(("first", &mut self.first), ("max", &mut self.max));
    }
}
