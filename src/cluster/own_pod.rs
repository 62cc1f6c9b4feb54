//! What podnudge reads of its own Pod, and its eviction. Pure.

use serde::Deserialize;
use serde_json::json;

use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// What became of podnudge's own pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnPod {
    /// Nothing: the pod exists.
    Present,
    /// The pod is being deleted.
    BeingDeleted,
    /// Another pod has its name now.
    Another,
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    uid: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
struct PodStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
    #[serde(default)]
    message: String,
}

/// The request to evict a pod (`policy/v1`).
pub(super) fn eviction(name: &str, namespace: &str, uid: Option<&str>) -> Vec<u8> {
    let mut eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    });
    if let (Some(uid), Some(fields)) = (uid, eviction.as_object_mut()) {
        fields.insert("deleteOptions".to_owned(), json!({"preconditions": {"uid": uid}}));
    }
    eviction.to_string().into_bytes()
}

/// Why a pod is not Ready, or does not stay so, if that is the case.
///
/// # Errors
/// If the object is no Pod.
pub(super) fn not_ready(body: &[u8]) -> Result<Option<Reason>, Reason> {
    let Pod { metadata, status } = parse(body)?;
    if metadata.deletion_timestamp.is_some() {
        return Ok(Some(Reason::new("the pod is being deleted")));
    }
    let ready = status.conditions.into_iter().find(|condition| condition.r#type == "Ready");
    Ok(match ready {
        Some(condition) if condition.status == "True" => None,
        Some(Condition { message, .. }) if !message.is_empty() => {
            Some(Reason::new(shown::one_line(message.as_bytes())))
        }
        _ => Some(Reason::new("the pod is not Ready")),
    })
}

/// Whether a pod is being deleted.
///
/// # Errors
/// If the object is no Pod.
pub(super) fn is_being_deleted(body: &[u8]) -> Result<bool, Reason> {
    Ok(parse(body)?.metadata.deletion_timestamp.is_some())
}

/// What became of the pod with this UID, which had this name.
///
/// # Errors
/// If the object is no Pod.
pub(super) fn own(body: &[u8], uid: Option<&str>) -> Result<OwnPod, Reason> {
    let metadata = parse(body)?.metadata;
    Ok(match metadata.deletion_timestamp {
        _ if metadata.uid.as_deref() != uid => OwnPod::Another,
        Some(_) => OwnPod::BeingDeleted,
        None => OwnPod::Present,
    })
}

fn parse(body: &[u8]) -> Result<Pod, Reason> {
    serde_json::from_slice(body)
        .map_err(|error| Reason::new(format!("the answer is not a Pod: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_condition_ready_says_that_a_pod_is_ready() {
        let state = |conditions: &str| {
            let pod =
                format!(r#"{{"kind":"Pod","spec":{{}},"status":{{"conditions":{conditions}}}}}"#);
            not_ready(pod.as_bytes()).map(|reason| reason.map(|reason| reason.message))
        };
        assert_eq!(state(r#"[{"type":"Ready","status":"True","lastProbeTime":null}]"#), Ok(None));
        let no = r#"[{"type":"Initialized","status":"True"},{"type":"Ready","status":"False","message":"containers with unready status: [a\u001b]"}]"#;
        assert_eq!(state(no), Ok(Some("containers with unready status: [a ]".to_owned())));
        assert_eq!(state("[]"), Ok(Some("the pod is not Ready".to_owned())));
        let deleted = br#"{"metadata":{"deletionTimestamp":"2026-11-23T03:00:00Z"},
            "status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
        let reason = not_ready(deleted).map(|reason| reason.map(|reason| reason.message));
        assert_eq!(reason, Ok(Some("the pod is being deleted".to_owned())));
        assert_eq!(not_ready(b"{}"), Ok(Some(Reason::new("the pod is not Ready"))));
        assert!(not_ready(b"[").is_err() && state("1").is_err());
    }

    #[test]
    fn a_pod_with_a_time_of_deletion_is_being_deleted() {
        let pod =
            |metadata: &str| is_being_deleted(format!(r#"{{"metadata":{metadata}}}"#).as_bytes());
        assert_eq!(pod(r#"{"name":"web-0"}"#), Ok(false));
        assert_eq!(pod(r#"{"deletionTimestamp":"2026-11-23T03:00:00Z"}"#), Ok(true));
        assert!(pod("1").is_err());
    }

    #[test]
    fn only_a_pod_with_the_same_uid_is_the_own_one() {
        let pod =
            |metadata: &str| own(format!(r#"{{"metadata":{metadata}}}"#).as_bytes(), Some("12-ab"));
        assert_eq!(pod(r#"{"uid":"12-ab"}"#), Ok(OwnPod::Present));
        let deleted = r#"{"uid":"12-ab","deletionTimestamp":"2026-11-23T03:00:00Z"}"#;
        assert_eq!(pod(deleted), Ok(OwnPod::BeingDeleted));
        assert_eq!(pod(&deleted.replace("12-ab", "34-cd")), Ok(OwnPod::Another));
        assert_eq!(pod("{}"), Ok(OwnPod::Another));
        assert!(pod("1").is_err());
    }
}
