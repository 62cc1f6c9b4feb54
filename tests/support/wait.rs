//! Waiting for a condition, never for a time.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The shortest pause between two polls, and the longest, after 4 s.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Waits until `is_so` returns true, and panics with `what` after [`LIMIT`].
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(is_within(LIMIT, is_so), "not within {LIMIT:?}: {what}");
}

/// Waits at most `limit` until `is_so` returns true, and returns whether it did.
#[expect(clippy::disallowed_methods, reason = "the one place where tests wait")]
pub(crate) fn is_within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        let look = Instant::now();
        if is_so() {
            return true;
        }
        let (took, waited) = (look.elapsed(), start.elapsed());
        if waited >= limit {
            return false;
        }
        // A long wait needs no fine look, and the other tests need the processors: a look may cost a fifth of the time.
        let often = (waited / 40).clamp(PAUSE, LONGEST_PAUSE);
        std::thread::sleep(often.max(took * 4).min(Duration::from_secs(1)));
    }
}

/// Waits until any process that starts is younger than the last commit to this volume by more than
/// the granularity of the clocks.
pub(crate) fn wait_until_commit_is_past(volume: &Path) {
    let link = fs::symlink_metadata(volume.join("..data")).unwrap();
    let committed = link.modified().unwrap();
    wait_until("the commit is past", || {
        committed.elapsed().is_ok_and(|age| age > Duration::from_millis(200))
    });
}

/// Waits until podnudge no longer expects that any of these processes is starting, and about to install a handler.
/// Their directories in `/proc` are as old as the first look at them, so each look is at all of them.
pub(crate) fn wait_until_old(pids: impl Fn() -> Vec<i32>) {
    let is_old = |pid: i32| {
        let started = fs::metadata(format!("/proc/{pid}")).and_then(|process| process.modified());
        started.is_ok_and(|at| at.elapsed().unwrap_or_default() > Duration::from_secs(11))
    };
    wait_until("the processes are old enough", || {
        let old: Vec<bool> = pids().into_iter().map(is_old).collect();
        !old.contains(&false)
    });
}

/// The pause between two polls.
#[expect(clippy::disallowed_methods, reason = "the one place where tests wait")]
pub(crate) fn pause() {
    std::thread::sleep(PAUSE);
}
