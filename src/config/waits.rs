//! `[rule.jitter]` and `[rule.retry]`, and what happens at start. Pure.

use std::time::Duration;

use super::define::Heading::When;
use super::define::option;
use super::place::Place;
use super::types::{DAY, HOUR, MS, ZERO, choice, duration, number};
use crate::reason::Reason;

settings! {
    /// A wait before each action, which spreads replicas over time.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Jitter = "[rule.jitter]"; judge judge_place {
        /// Spread replicas over this time.
        window: Duration = default("0s", duration(ZERO, DAY)), option("jitter", "TIME", When).common();
        /// What a replica's wait is computed from: the identity of its pod, its ordinal in the StatefulSet, or a random number.
        by: JitterBy = default("pod", choice::<JitterBy>()), option("jitter-by", "WHAT", When);
    }
}

settings! {
    /// How to retry after a failure.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Retry = "[rule.retry]"; judge judge_order {
        /// The wait after the first failure. It doubles with each failure.
        first: Duration = default("1s", duration(MS.saturating_mul(10), HOUR));
        /// The longest wait between two attempts.
        max: Duration = default("1m", duration(MS.saturating_mul(10), DAY));
        /// How many attempts to make for the same content.
        attempts: u32 = default("10", number(1, 1000));
    }
}

words! {
    /// What decides a replica's place in the jitter window.
    pub enum JitterBy {
        /// The pod's identity and the digest: another order for each change.
        Pod = "pod",
        /// The `StatefulSet` ordinal at the end of the pod's name.
        Ordinal = "ordinal",
        /// A random number.
        Random = "random",
    }
}

words! {
    /// What the first look at the volumes may cause, where no state directory tells more.
    pub enum OnStart {
        /// Act once if the newest commit is newer than the target's start.
        IfNewer = "if-newer",
        /// Never act on the first look.
        Never = "never",
        /// Always act on the first look.
        Always = "always",
    }
}

impl Jitter {
    fn judge_place(&mut self, place: &Place<'_>) {
        if place.has("by") && self.window.is_zero() {
            let reason = Reason::new("`by` has no effect: the jitter's window is `0s`");
            place.warn("by", reason.hint("add `window = \"30s\"`"));
        }
    }
}

impl Retry {
    fn judge_order(&mut self, place: &Place<'_>) {
        place.in_order(("first", &mut self.first), ("max", &mut self.max));
    }
}
