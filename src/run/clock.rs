//! Reads the monotonic and the wall clock for the loop.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use podnudge_core::clock::{Moment, Now, UnixTime};

/// The longest single sleep; the loop then computes its next wake-up anew.
const MAX_SLEEP: Duration = Duration::from_hours(24);

/// Reads both clocks.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(super) fn now() -> Now {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The start times of processes count on the same clock (proc(5)).
    let boot = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
    let mono = Moment(Duration::new(seconds, u32::try_from(boot.tv_nsec).unwrap_or(0)));
    Now { mono, wall: UnixTime(wall) }
}

/// Sleeps. Only for waits that no decision of the core depends on.
#[expect(clippy::disallowed_methods, reason = "the one place that waits for a time")]
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Sleeps until `moment`, or forever if it is `None`.
pub(super) async fn sleep_until(moment: Option<Moment>) {
    match moment {
        Some(moment) => sleep(moment.since(now().mono).min(MAX_SLEEP)).await,
        None => std::future::pending().await,
    }
}
