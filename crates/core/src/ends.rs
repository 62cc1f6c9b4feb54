//! How often the target has ended with the same content.

use std::time::Duration;

use crate::clock::Moment;
use crate::reason::Reason;

/// After so many ends of the target with the same content, podnudge reports that it keeps ending.
const ENDS_REPORTED: u32 = 3;

/// Ends of the target with the same content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    since: Moment,
    count: u32,
}

impl Ends {
    /// No end yet.
    pub(crate) fn none(now: Moment) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts one more after those before it.
    pub(crate) fn after(before: Option<Self>, now: Moment) -> Self {
        let Self { since, count } = before.unwrap_or(Self::none(now));
        Self { since, count: count.saturating_add(1) }
    }

    /// Says how many they are; `None` after the first one, which needs no count.
    pub(crate) fn reason(self, now: Moment) -> Option<Reason> {
        let during = Duration::from_secs(now.since(self.since).as_secs());
        let during = humantime::format_duration(during);
        let message =
            format!("the target ended {} times in {during} with this content", self.count);
        (self.count > 1).then(|| Reason::new(message).hint("the log of its container says why"))
    }

    /// Whether the target keeps ending.
    pub(crate) fn are_many(self) -> bool {
        self.count >= ENDS_REPORTED
    }

    /// Whether this is the one to report.
    pub(crate) fn is_reported(self) -> bool {
        self.count == ENDS_REPORTED
    }
}
