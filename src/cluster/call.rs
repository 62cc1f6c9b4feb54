//! One call of the API server: its path, and what an answer to it means. Pure.

use reqwest::Method;
use serde::Deserialize;

use crate::exchange::http::Answer;
use crate::exchange::{AnswerEnd, ExchangeError};
use podnudge_core::api_error::ApiError;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

pub(super) const NO_ACCOUNT: &str = "the pod needs a service account, and its token mounted (`automountServiceAccountToken: true`); or name the files in `[cluster]`";
/// How to begin a hint about a missing right.
pub(super) const ADD: &str = "add to the Role of podnudge's service account";
const NO_CONNECTION: &str = "check that no NetworkPolicy forbids podnudge to reach the API server";

pub(super) const LEASES: Kind = Kind {
    name: "Lease",
    group: "coordination.k8s.io",
    api: "apis/coordination.k8s.io/v1",
    resource: "leases",
};
pub(super) const PODS: Kind = Kind { name: "Pod", group: "", api: "api/v1", resource: "pods" };
/// Evictions are created below the Pod of the same name.
pub(super) const EVICTIONS: Kind =
    Kind { name: "Eviction", group: "", api: "api/v1", resource: "pods/eviction" };

pub(super) const ENDPOINT_SLICES: Kind = Kind {
    name: "EndpointSlice",
    group: "discovery.k8s.io",
    api: "apis/discovery.k8s.io/v1",
    resource: "endpointslices",
};
/// The kind of EndpointSlices before Kubernetes 1.21.
pub(super) const ENDPOINT_SLICES_BETA: Kind =
    Kind { api: "apis/discovery.k8s.io/v1beta1", ..ENDPOINT_SLICES };

pub(super) const CONFIG_MAPS: Kind =
    Kind { name: "ConfigMap", group: "", api: "api/v1", resource: "configmaps" };
pub(super) const SECRETS: Kind =
    Kind { name: "Secret", group: "", api: "api/v1", resource: "secrets" };
/// Events of the core group: every Kubernetes serves them, and kubectl shows how often one has occurred (`count`).
/// Those of `events.k8s.io` are the same objects, but say so only in a series, which needs the right to patch.
pub(super) const EVENTS: Kind =
    Kind { name: "Event", group: "", api: "api/v1", resource: "events" };
/// Asks what podnudge's own service account may do. Every account may ask that, unless a cluster has removed the
/// `ClusterRole` `system:basic-user`.
pub(super) const ACCESS_REVIEWS: Kind = Kind {
    name: "SelfSubjectAccessReview",
    group: "authorization.k8s.io",
    api: "apis/authorization.k8s.io/v1",
    resource: "selfsubjectaccessreviews",
};

/// The forms of answers: objects as they are, or only their metadata.
const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// A kind of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// As in a Role; empty for the core group.
    pub(super) group: &'static str,
    /// The path of the group and the version.
    api: &'static str,
    /// As in a Role, such as `pods/eviction`.
    pub(super) resource: &'static str,
}

/// What is done with an object, as a Role calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Create,
    Update,
    /// The metadata of the one object with the name, or of all if it is empty.
    List,
    /// All objects, and all of each.
    ListAll,
    /// The objects of the Service with the name.
    ListOfService,
    Watch,
    /// The answer is the metadata.
    Patch,
    /// A patch with conditions: if they do not hold, the object has changed.
    PatchIf,
}

/// A call that is about one object.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) verb: Verb,
    pub(super) name: String,
    /// Empty for objects without one.
    pub(super) namespace: String,
    /// The parameters of the query.
    pub(super) query: Vec<(&'static str, String)>,
}

/// The answer of the API server to what it does not do (`metav1.Status`).
#[derive(Deserialize)]
struct Status {
    message: String,
}

impl Verb {
    pub(super) fn method(self) -> Method {
        match self {
            Self::Get | Self::List | Self::ListAll | Self::ListOfService | Self::Watch => {
                Method::GET
            }
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Patch | Self::PatchIf => Method::PATCH,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::List | Self::ListAll | Self::ListOfService => "list",
            Self::Watch => "watch",
            Self::Patch | Self::PatchIf => "patch",
        }
    }

    fn accepts(self) -> &'static str {
        match self {
            Self::Get | Self::Create | Self::Update | Self::ListAll | Self::ListOfService => JSON,
            Self::List => METADATA_LIST,
            Self::Watch | Self::Patch | Self::PatchIf => METADATA,
        }
    }

    /// What the body is.
    pub(super) fn sends(self) -> &'static str {
        match self {
            Self::Patch => MERGE_PATCH,
            Self::PatchIf => JSON_PATCH,
            _ => JSON,
        }
    }

    fn is_for_all(self) -> bool {
        matches!(
            self,
            Self::Create | Self::List | Self::ListAll | Self::ListOfService | Self::Watch
        )
    }
}

impl Call {
    /// What the answer is to be. Of a Lease, all is needed.
    pub(super) fn accepts(&self) -> &'static str {
        if self.kind.resource == LEASES.resource { JSON } else { self.verb.accepts() }
    }

    pub(super) fn path(&self) -> String {
        let Self { kind: Kind { api, resource, .. }, verb, name, namespace, .. } = self;
        let all = match resource.split_once('/') {
            Some((parents, below)) => {
                format!("/{api}/namespaces/{namespace}/{parents}/{name}/{below}")
            }
            None if namespace.is_empty() => format!("/{api}/{resource}"),
            None => format!("/{api}/namespaces/{namespace}/{resource}"),
        };
        if verb.is_for_all() { all } else { format!("{all}/{name}") }
    }

    /// The error of a call that was not carried out, or whose answer cannot be used.
    pub(super) fn failed(&self, reason: &Reason) -> ApiError {
        let message = format!("cannot {self}: {}", reason.message);
        ApiError::Unusable(Reason { message, hint: reason.hint.clone() })
    }

    /// There is no answer.
    pub(super) fn unanswered(&self, error: ExchangeError) -> ApiError {
        let message = format!("cannot {self}: {}", error.into_reason().message);
        ApiError::Unanswered(Reason::new(message).hint(NO_CONNECTION))
    }

    /// The body of an answer that says that it was carried out. At most `most` bytes were read.
    pub(super) fn judge(&self, answer: Answer, most: usize) -> Result<Vec<u8>, ApiError> {
        let Answer { status, body, end, retry_after } = answer;
        if status.is_success() {
            return match end {
                AnswerEnd::Complete => Ok(body),
                AnswerEnd::Truncated => Err(self.failed(&Reason::new(format!(
                    "the answer is longer than {} KiB",
                    most / 1024
                )))),
                AnswerEnd::Aborted(how) => {
                    let message = format!("cannot {self}: the answer {how}");
                    Err(ApiError::Unanswered(Reason::new(message).hint(NO_CONNECTION)))
                }
            };
        }
        let said = match serde_json::from_slice::<Status>(&body) {
            Ok(Status { message }) => shown::one_line(message.as_bytes()),
            Err(_) => shown::one_line(&body),
        };
        let colon = if said.is_empty() { "" } else { ": " };
        let message = format!("cannot {self}: the API server answered {status}{colon}{said}");
        let reason = Reason::new(message);
        Err(match status.as_u16() {
            401 => ApiError::Refused(reason.hint(NO_ACCOUNT)),
            403 => ApiError::Refused(reason.hint(self.right())),
            404 => ApiError::NotFound(reason.hint("check the namespace")),
            409 => ApiError::Conflict(reason),
            422 if self.verb == Verb::PatchIf => ApiError::Conflict(reason),
            410 => ApiError::Gone(reason),
            429 => ApiError::Throttled(reason, retry_after),
            300..=499 => ApiError::Refused(reason),
            _ => ApiError::Failed(reason, retry_after),
        })
    }

    /// The rule that a Role lacks. Kubernetes cannot limit `create`, or a list by a label, to names; and the
    /// names of pods are not known beforehand.
    fn right(&self) -> String {
        let Self { kind: Kind { name: kind, group, resource, .. }, verb, name, .. } = self;
        let is_for_all = matches!(verb, Verb::Create | Verb::ListOfService);
        let is_for_any = is_for_all || *kind == PODS.name;
        let names = (!is_for_any).then_some(name.as_str());
        // One is of no use without the other.
        let verb =
            if matches!(verb, Verb::List | Verb::Watch) { "list, watch" } else { verb.name() };
        let rule = role_rule(group, resource, names.unwrap_or_default(), verb);
        format!("{ADD}: {rule}")
    }
}

/// What could not be done: get the Lease web-0 in namespace a.
impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, verb, name, namespace, .. } = self;
        if *verb == Verb::ListOfService {
            let kind = kind.name;
            return write!(f, "list the {kind}s of Service `{name}` in namespace `{namespace}`");
        }
        if name.is_empty() {
            return write!(f, "{} the {}s in namespace `{namespace}`", verb.name(), kind.name);
        }
        write!(f, "{} the {} `{name}` in namespace `{namespace}`", verb.name(), kind.name)
    }
}

/// A rule of a Role, as its YAML has it.
pub(super) fn role_rule(group: &str, resource: &str, names: &str, verbs: &str) -> String {
    let group = if group.is_empty() { "\"\"" } else { group };
    let names =
        if names.is_empty() { String::new() } else { format!(", resourceNames: [{names}]") };
    format!("apiGroups: [{group}], resources: [{resource}]{names}, verbs: [{verbs}]")
}
