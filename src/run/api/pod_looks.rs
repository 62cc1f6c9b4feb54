//! Looks at podnudge's own pod: whether it is Ready, and whether its Services have it.

use std::time::Duration;

use super::access::ApiAccess;
use crate::cluster::{Api, Listed};
use crate::run::agent::{Agent, Done};
use crate::system::surroundings::Pod;
use podnudge_core::api_error::ApiError;
use podnudge_core::command::PodIs;
use podnudge_core::event::{Event, PodLook, RuleId};
use podnudge_core::reason::Reason;

/// How long to wait for each answer.
const LIMIT: Duration = Duration::from_secs(5);
/// How long a look may take: a Service of many pods has a list of many parts.
const WHOLE_LIMIT: Duration = Duration::from_secs(30);

const NO_NAME: &str = "set the environment variable `PODNUDGE_POD_NAME` from `fieldRef: {fieldPath: metadata.name}`, or mount the token of a service account";
const NOT_LISTED: &str = "check that `services` names a Service in the namespace of the pod, and that it selects the pod";
const NO_PROBE: &str = "podnudge's container needs a readinessProbe of `/serving`";
const UNREADY_TOO: &str = "the Service must not have `publishNotReadyAddresses`";

impl Agent {
    /// Performs [`Command::LookAtPod`](podnudge_core::command::Command::LookAtPod).
    pub(in crate::run) fn look_at_pod(&mut self, rule: RuleId, number: u32, is: PodIs) {
        let Some((api, pod)) = self.api.slots.looks.as_ref().map(ApiAccess::parts) else { return };
        let Some(config) = self.rule(rule) else { return };
        let request = self.start_task(async move {
            let services = match &config.settings.drain {
                Some(drain) => drain.services.as_slice(),
                None => &[],
            };
            let looked = tokio::time::timeout(WHOLE_LIMIT, look(&api, &pod, services, is)).await;
            let look = match looked {
                Ok(Ok(look)) => look,
                Ok(Err(
                    ApiError::Refused(reason)
                    | ApiError::Unsent(reason)
                    | ApiError::NotFound(reason),
                )) => PodLook::Refused(reason),
                Ok(Err(error)) => PodLook::Unknown(error.reason().clone(), error.retry_after()),
                Err(_) => {
                    let limit = humantime::format_duration(WHOLE_LIMIT);
                    let message = format!("the API server has not answered within {limit}");
                    PodLook::Unknown(Reason::new(message), None)
                }
            };
            Done::Event(Event::PodLooked(rule, number, look))
        });
        if let Some(looks) = &mut self.api.slots.looks {
            looks.begun(request);
        }
    }
}

async fn look(api: &Api, pod: &Pod, services: &[String], is: PodIs) -> Result<PodLook, ApiError> {
    if !services.is_empty() && !pod.is_named {
        let reason = Reason::new("the name of the pod is not known").hint(NO_NAME);
        return Ok(PodLook::Refused(reason));
    }
    // Before a drain, only whether that can be read.
    match (is, api.not_ready(&pod.name, LIMIT).await?) {
        (PodIs::Serving, Some(reason)) => return Ok(PodLook::No(reason)),
        (PodIs::OutOfServices, None) => {
            return Ok(PodLook::No(Reason::new("the pod is still Ready").hint(NO_PROBE)));
        }
        _ => {}
    }
    for service in services {
        let listed = api.listed(service, pod, LIMIT).await?;
        let slices = || format!("the EndpointSlices of `{service}`");
        match (is, listed) {
            (PodIs::Listed, Listed::Unready | Listed::Ready)
            | (PodIs::OutOfServices, Listed::Unready)
            | (PodIs::Serving, Listed::Ready) => {}
            (PodIs::Listed | PodIs::OutOfServices, Listed::No) => {
                let reason = Reason::new(format!("{} do not have the pod", slices()));
                return Ok(PodLook::Unlisted(reason.hint(NOT_LISTED)));
            }
            (PodIs::OutOfServices, Listed::Ready) => {
                let reason = Reason::new(format!("{} still have the pod as ready", slices()));
                return Ok(PodLook::No(reason.hint(UNREADY_TOO)));
            }
            (PodIs::Serving, Listed::No | Listed::Unready) => {
                let reason = Reason::new(format!("{} do not have the pod as ready yet", slices()));
                return Ok(PodLook::Unlisted(reason));
            }
        }
    }
    Ok(PodLook::Yes)
}
