//! A request to the API server that fails: since when, and why. Pure.

use std::time::Duration;

use crate::api_error::ApiError;
use crate::clock::Moment;
use crate::reason::Reason;

/// Shorter failures are not reported: an API server that is restarted cuts all connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the last request failed.
#[derive(Debug, Clone)]
pub struct Failing {
    since: Moment,
    reason: Reason,
    needs_a_person: bool,
}

impl Failing {
    /// Records a failure, which may be one more.
    pub fn record(failing: &mut Option<Self>, now: Moment, error: &ApiError) {
        let since = failing.as_ref().map_or(now, |failing| failing.since);
        let (reason, needs_a_person) = (error.reason().clone(), error.needs_a_person());
        *failing = Some(Self { since, reason, needs_a_person });
    }

    /// The reason, if it lasts.
    #[must_use]
    pub fn problem(&self, now: Moment) -> Option<&Reason> {
        (now >= self.due()).then_some(&self.reason)
    }

    /// When it becomes a problem.
    #[must_use]
    pub fn due(&self) -> Moment {
        if self.needs_a_person { self.since } else { self.since.after(PATIENCE) }
    }
}
