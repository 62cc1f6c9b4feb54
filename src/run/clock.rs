//! Both clocks of the system, read here and nowhere else.

use std::time::{Duration, Instant, SystemTime};

use crate::core::event::{Moment, Now, UnixTime};

/// A wait that no clock can hold ends here, and begins again.
const FAR: Duration = Duration::from_hours(24 * 365);

/// Both clocks, the monotonic one counted from the start of podnudge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clocks")]
    pub(super) fn start() -> Self {
        Self { start: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clocks")]
    pub(super) fn now(self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { mono: Moment(self.start.elapsed()), wall: UnixTime(wall) }
    }

    pub(super) async fn sleep_until(self, moment: Option<Moment>) {
        match moment {
            Some(Moment(after)) => {
                let at = self.start.checked_add(after).unwrap_or(self.start + FAR);
                tokio::time::sleep_until(at.into()).await;
            }
            None => std::future::pending().await,
        }
    }
}
