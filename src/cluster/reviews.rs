//! Asks the API server what podnudge's own service account may do (`SelfSubjectAccessReview`).

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::api::Api;
use super::call::{ACCESS_REVIEWS, Call, Verb};
use super::error::ApiError;
use super::rights::Right;
use crate::reason::Reason;

/// The most bytes of an answer.
const LARGEST_REVIEW: usize = 64 * 1024;

/// The answer.
#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    allowed: bool,
}

impl Api {
    /// Those of these rights that podnudge does not have, with one request for each. `pod` is podnudge's own one.
    ///
    /// # Errors
    /// If the server does not answer one of the requests; `limit` is for each.
    pub async fn missing_rights(
        &self,
        rights: Vec<Right>,
        pod: &str,
        limit: Duration,
    ) -> Result<Vec<Right>, ApiError> {
        let namespace = self.namespace().map_err(ApiError::Refused)?;
        let mut missing = Vec::new();
        for right in rights {
            let call = Call {
                kind: ACCESS_REVIEWS,
                verb: Verb::Create,
                name: format!("{} {}", right.verb, right.resource),
                namespace: String::new(),
                query: Vec::new(),
            };
            let body = body(&right, pod, &namespace);
            let answer = self.send(&call, Some(body), limit, LARGEST_REVIEW).await?;
            let review: Review = serde_json::from_slice(&answer)
                .map_err(|_| call.failed(&Reason::new("the answer is not an access review")))?;
            if !review.status.allowed {
                missing.push(right);
            }
        }
        Ok(missing)
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
