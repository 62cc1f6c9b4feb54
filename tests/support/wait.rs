//! Waiting for a level, never for a time.

use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that is busy with other things.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Waits until `is_so`, and panics with `what` if that takes too long.
#[expect(clippy::disallowed_methods, reason = "the one place where tests wait")]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited {LIMIT:?} in vain: {what}");
        pause();
    }
}

/// Between two looks at the same thing.
#[expect(clippy::disallowed_methods, reason = "the one place where tests wait")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}
