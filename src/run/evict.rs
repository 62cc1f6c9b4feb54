//! The eviction of podnudge's own pod. The edge of the core's `Acted` for it: what each answer of the API server means.

use std::time::Duration;

use crate::cluster::{Api, ApiError};
use crate::core::event::Acted;
use crate::reason::Reason;
use crate::surroundings::Pod;

/// How long to wait for the answer.
const LIMIT: Duration = Duration::from_secs(15);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// Evicts the pod.
pub(super) async fn evict(api: &Api, pod: &Pod) -> Acted {
    match api.evict(pod, LIMIT).await {
        // It is gone, or another one has its name; podnudge is about to be ended.
        Ok(()) | Err(ApiError::NotFound(_)) => Acted::Evicted,
        Err(ApiError::Throttled(reason, pause)) => {
            Acted::Postponed(budget(reason), pause.unwrap_or_default().min(LONGEST_PAUSE))
        }
        Err(ApiError::Unavailable(reason, Some(pause))) => {
            Acted::Postponed(reason, pause.min(LONGEST_PAUSE))
        }
        Err(error) => Acted::Refused(error.reason().clone()),
    }
}

fn budget(reason: Reason) -> Reason {
    reason.hint("a PodDisruptionBudget allows it when enough other pods are Ready")
}
