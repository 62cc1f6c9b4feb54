//! A request that fails: since when, and why. Pure.

use std::time::Duration;

use crate::api_error::ApiError;
use crate::clock::Moment;
use crate::reason::Reason;

/// Shorter failures are not reported: an API server that is restarted cuts all connections.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Failing {
    since: Moment,
    reason: Reason,
    is_refusal: bool,
}

impl Failing {
    pub(super) fn record(failing: &mut Option<Self>, now: Moment, error: &ApiError) {
        let since = failing.as_ref().map_or(now, |failing| failing.since);
        let is_refusal = needs_a_person(error);
        *failing = Some(Self { since, reason: error.reason().clone(), is_refusal });
    }

    /// The reason, if it lasts.
    pub(super) fn problem(&self, now: Moment) -> Option<&Reason> {
        (self.is_refusal || now >= self.due()).then_some(&self.reason)
    }

    /// When it becomes a problem.
    pub(super) fn due(&self) -> Moment {
        self.since.after(PATIENCE)
    }
}

/// Whether somebody has to change something, such as a Role.
pub(super) fn needs_a_person(error: &ApiError) -> bool {
    error.is_refusal() || matches!(error, ApiError::NotFound(_))
}
