//! A request that fails: since when, why, and how long to wait. Pure.

use std::time::Duration;

use podnudge_core::api_error::ApiError;
use podnudge_core::clock::Moment;
use podnudge_core::pace::{LONGEST_RETRY, Pace};
use podnudge_core::reason::Reason;

/// Shorter failures are not reported: an API server that is restarted cuts all watches.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the last request failed.
#[derive(Debug, Clone)]
pub(super) struct Failing {
    since: Moment,
    reason: Reason,
    is_refusal: bool,
}

impl Failing {
    /// Records a failure, and returns the wait until the next request.
    pub(super) fn record(
        failing: &mut Option<Self>,
        now: Moment,
        error: &ApiError,
        pace: &mut Pace,
    ) -> Duration {
        if Self::begin(failing, now, error).is_refusal {
            pace.refused()
        } else {
            pace.failed(LONGEST_RETRY, error.retry_after())
        }
    }

    /// The same for a watch, and for what is asked before it.
    pub(super) fn record_watch(
        failing: &mut Option<Self>,
        now: Moment,
        error: &ApiError,
        pace: &mut Pace,
    ) -> Duration {
        if Self::begin(failing, now, error).is_refusal {
            pace.refused()
        } else {
            pace.broken_off(LONGEST_RETRY, error.retry_after())
        }
    }

    fn begin<'a>(failing: &'a mut Option<Self>, now: Moment, error: &ApiError) -> &'a Self {
        let is_refusal = error.is_refusal() || matches!(error, ApiError::NotFound(_));
        let since = failing.as_ref().map_or(now, |failing| failing.since);
        failing.insert(Self { since, reason: error.reason().clone(), is_refusal })
    }

    /// The reason, if it lasts.
    pub(super) fn problem(&self, now: Moment) -> Option<&Reason> {
        (self.is_refusal || now >= self.since.after(PATIENCE)).then_some(&self.reason)
    }

    /// When it becomes a problem.
    pub(super) fn due(&self) -> Moment {
        if self.is_refusal { self.since } else { self.since.after(PATIENCE) }
    }
}
