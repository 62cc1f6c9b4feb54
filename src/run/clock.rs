//! Both clocks of the system for the loop, read here.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::clock::{Moment, Now, UnixTime};

/// A wait that is longer than this ends here, and begins again.
const FAR: Duration = Duration::from_hours(24);

/// Both clocks at this instant.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(super) fn now() -> Now {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The start times of processes count on the same clock (proc(5)).
    let boot = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
    let mono = Moment(Duration::new(seconds, u32::try_from(boot.tv_nsec).unwrap_or(0)));
    Now { mono, wall: UnixTime(wall) }
}

/// Waits for a time that no decision depends on.
#[expect(clippy::disallowed_methods, reason = "the one place that waits for a time")]
pub(super) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits until `moment`; for ever, if there is none.
pub(super) async fn sleep_until(moment: Option<Moment>) {
    match moment {
        Some(moment) => sleep(moment.since(now().mono).min(FAR)).await,
        None => std::future::pending().await,
    }
}
