//! Asks the API server what podnudge's own service account may do (`SelfSubjectAccessReview`), and whether a policy
//! limits it further.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::api::Api;
use super::call::{ACCESS_REVIEWS, Call, LEASES, PODS, Verb};
use super::rights::{Right, Rights};
use podnudge_core::api_error::ApiError;
use podnudge_core::reason::Reason;

/// The most bytes of an answer.
const LARGEST_REVIEW: usize = 64 * 1024;

/// The most bytes of an object.
const LARGEST_OBJECT: usize = 1024 * 1024;

/// The label of a request that must be refused. It is never set.
const TRIAL_LABEL: &str = "podnudge.io/trial";

/// What is read of the answer.
#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    allowed: bool,
}

impl Api {
    /// What podnudge may do with these rights, with one request for each. `pod` is podnudge's own one. Nothing is
    /// changed.
    ///
    /// # Errors
    /// If the server does not answer one of the requests; `limit` is for each.
    pub async fn ask_for_rights(
        &self,
        rights: Vec<Right>,
        pod: &str,
        limit: Duration,
    ) -> Result<Rights, ApiError> {
        let namespace = self.namespace().map_err(ApiError::Unsent)?;
        let mut missing = Vec::new();
        for right in &rights {
            let call = Call {
                kind: ACCESS_REVIEWS,
                verb: Verb::Create,
                name: format!("{} {}", right.verb, right.resource),
                namespace: String::new(),
                query: Vec::new(),
            };
            let body = body(right, pod, &namespace);
            let answer = self.send(&call, Some(body), limit, LARGEST_REVIEW).await?;
            let review: Review = serde_json::from_slice(&answer)
                .map_err(|_| call.failed(&Reason::new("the answer is not an access review")))?;
            if !review.status.allowed {
                missing.push(right.clone());
            }
        }
        let may_create = |right: &Right| right.is(LEASES, Verb::Create);
        if missing.iter().any(may_create) && self.have_leases(&rights, limit).await? {
            missing.retain(|right| !may_create(right));
        }
        let has = |right: &&Right| right.is(PODS, Verb::Patch) && !missing.contains(right);
        let may_patch = rights.iter().any(|right| has(&right));
        let is_unlimited = may_patch && !pod.is_empty() && self.may_label(pod, limit).await?;
        Ok(Rights { missing, is_unlimited })
    }

    /// Whether all Leases to which these rights refer exist.
    async fn have_leases(&self, rights: &[Right], limit: Duration) -> Result<bool, ApiError> {
        let to_read = rights.iter().filter(|right| right.is(LEASES, Verb::Get));
        for name in to_read.filter_map(|right| right.name.as_deref()) {
            let call = self.call(LEASES, name, Verb::Get, Vec::new())?;
            match self.send(&call, None, limit, LARGEST_OBJECT).await {
                Ok(_) => {}
                Err(ApiError::NotFound(_) | ApiError::Refused(_)) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether podnudge may change a label of its pod, which no feature does, and the policy refuses.
    async fn may_label(&self, pod: &str, limit: Duration) -> Result<bool, ApiError> {
        let trial = vec![("dryRun", "All".to_owned())];
        let call = self.call(PODS, pod, Verb::Patch, trial)?;
        let patch = json!({"metadata": {"labels": {TRIAL_LABEL: "trial"}}}).to_string();
        match self.send(&call, Some(patch.into_bytes()), limit, LARGEST_OBJECT).await {
            Ok(_) => Ok(true),
            Err(error) if error.may_be_done() || matches!(error, ApiError::Throttled(..)) => {
                Err(error)
            }
            Err(_) => Ok(false),
        }
    }
}

fn body(right: &Right, pod: &str, namespace: &str) -> Vec<u8> {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((right.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "namespace": namespace,
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "name": right.name_in_request(pod).unwrap_or_default(),
        }},
    });
    review.to_string().into_bytes()
}
