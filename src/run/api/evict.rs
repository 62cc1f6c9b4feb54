//! The eviction of podnudge's own pod. The edge of the core's `Acted` for it: what each answer of the API server means.
//!
//! podnudge reads its own Pod first. So it knows what became of an eviction whose answer was lost, and that a Pod
//! that is missing later was there: without that, the namespace may be the wrong one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cluster::{Api, OwnPod, unknown_pod};
use crate::run::agent::Agent;
use crate::run::clock;
use crate::system::surroundings::Pod;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::Moment;
use podnudge_core::event::{Acted, RuleId};
use podnudge_core::reason::Reason;

/// How long to wait for the Pod.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// How long to wait for the answer to an eviction.
const LIMIT: Duration = Duration::from_secs(15);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
const FAILS: &str = "if several PodDisruptionBudgets select the pod, leave one; else look at the admission webhooks for pods/eviction";
const NAMESPACE: &str = "check `namespace` in `[cluster]`, and the pod's name and UID in `PODNUDGE_POD_NAME` and `PODNUDGE_POD_UID`";

/// Evicts podnudge's own pod.
#[derive(Clone)]
pub(in crate::run) struct Evictor {
    api: Arc<Api>,
    pod: Pod,
    /// Whether the Pod was there, with its UID, when it was read last.
    was_seen: Arc<AtomicBool>,
    /// Whether the server has answered the last eviction with a failure.
    has_failed: Arc<AtomicBool>,
}

impl Evictor {
    pub(super) fn new(api: Arc<Api>, pod: Pod) -> Self {
        Self { api, pod, was_seen: Arc::default(), has_failed: Arc::default() }
    }

    /// Evicts the pod, unless it is `before` by then: another replica may have the slot.
    async fn evict(&self, before: Option<Moment>) -> Acted {
        match self.api.own_pod(&self.pod, READ_LIMIT).await {
            Ok(OwnPod::Present) => self.was_seen.store(true, Ordering::Relaxed),
            Ok(OwnPod::BeingDeleted) => return Acted::Evicted,
            Ok(OwnPod::Another) => {
                let message = format!("the Pod `{}` has another UID", self.pod.name);
                return self.missing(Reason::new(message));
            }
            Err(ApiError::NotFound(reason)) => return self.missing(reason),
            Err(error) => return unread(error),
        }
        if before.is_some_and(|before| clock::now().mono >= before) {
            return Acted::Refused(Reason::new(
                "the slot of this rule expired before the eviction",
            ));
        }
        let evicted = self.api.evict(&self.pod, LIMIT).await;
        let is_failure = matches!(evicted, Err(ApiError::Failed(..)));
        let has_failed = self.has_failed.swap(is_failure, Ordering::Relaxed);
        match evicted {
            // It was there a moment ago.
            Ok(()) | Err(ApiError::NotFound(_)) => Acted::Evicted,
            Err(ApiError::Throttled(reason, pause)) => {
                Acted::Postponed(budget(reason), most(pause))
            }
            // It has failed before, and nothing came of that.
            Err(ApiError::Failed(reason, pause)) if has_failed && self.is_left().await => {
                let message = format!("the pod was not evicted: {}", reason.message);
                Acted::Postponed(Reason::new(message).hint(FAILS), most(pause))
            }
            Err(error) if error.may_be_done() => {
                let (reason, pause) = (error.reason().clone(), error.retry_after());
                let message =
                    format!("it is not known whether the pod was evicted: {}", reason.message);
                Acted::Unanswered(Reason { message, ..reason }, most(pause))
            }
            Err(error) => Acted::Refused(error.reason().clone()),
        }
    }

    /// Whether the Pod is there after an eviction, and is not being deleted.
    async fn is_left(&self) -> bool {
        matches!(self.api.own_pod(&self.pod, READ_LIMIT).await, Ok(OwnPod::Present))
    }

    /// There is no such Pod.
    fn missing(&self, reason: Reason) -> Acted {
        if self.was_seen.load(Ordering::Relaxed) {
            // podnudge is about to be ended.
            return Acted::Evicted;
        }
        Acted::Refused(reason.hint(NAMESPACE))
    }
}

/// The Pod could not be read, and nothing was done.
fn unread(error: ApiError) -> Acted {
    match error {
        ApiError::Throttled(reason, pause) => Acted::Postponed(reason, most(pause)),
        ApiError::Failed(reason, Some(pause)) => Acted::Postponed(reason, most(Some(pause))),
        error => Acted::Refused(error.reason().clone()),
    }
}

fn most(pause: Option<Duration>) -> Duration {
    pause.unwrap_or_default().min(LONGEST_PAUSE)
}

fn budget(reason: Reason) -> Reason {
    reason.hint("a PodDisruptionBudget allows it when enough other pods are Ready")
}

/// Evicts the pod if the action of a rule has found that to be needed.
pub(in crate::run) async fn evict_if_ready(
    evictor: Option<Evictor>,
    acted: Acted,
    before: Option<Moment>,
) -> Acted {
    match (acted, evictor) {
        (Acted::Ready, Some(evictor)) => evictor.evict(before).await,
        (acted, _) => acted,
    }
}

impl Agent {
    /// Why podnudge must not evict its pod for this rule, if so: another pod may have its name, and the podnudge of
    /// the next pod could not tell that it is another one.
    pub(in crate::run) fn why_not_evict(&self, rule: RuleId) -> Option<Reason> {
        let evicts = self.rule(rule)?.settings.evicts();
        evicts.then(|| unknown_pod(&self.api.slots.pod()))?
    }
}
