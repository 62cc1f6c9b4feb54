//! Who holds a slot: the same for a restarted podnudge of the same pod, and different for every other
//! pod, also for one that a StatefulSet has made anew with the same name. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::system::surroundings::Pod;
use podnudge_core::reason::Reason;

impl Pod {
    /// Adds what a token says of the pod, where nothing else does.
    #[must_use]
    pub fn or(self, claims: Option<Self>) -> Self {
        let Some(claims) = claims else { return self };
        let name = if self.is_named { self.name } else { claims.name };
        Self { name, uid: self.uid.or(claims.uid), is_named: true }
    }

    /// The holder of a rule's slot. If the pod is not known, `seed` sets this podnudge apart; it then
    /// does not recognise its own slot after a restart.
    #[must_use]
    pub fn holder(&self, rule: &str, seed: u64) -> String {
        let name = &self.name;
        match &self.uid {
            Some(uid) => format!("{name}_{uid}_{rule}"),
            None if self.is_named => format!("{name}_{rule}"),
            None => format!("{name}_{seed:016x}_{rule}"),
        }
    }
}

/// Why podnudge does not know which pod is its own, if so.
#[must_use]
pub fn unknown_pod(pod: &Pod) -> Option<Reason> {
    let hint = "set the environment variables `PODNUDGE_POD_NAME` and `PODNUDGE_POD_UID` of podnudge's container by the downward API (`fieldPath: metadata.name` and `metadata.uid`); or mount a service account token that is bound to the pod, as the kubelet does";
    let message = "podnudge does not know the UID of its own pod, and so does not evict it";
    pod.uid.is_none().then(|| Reason::new(message).hint(hint))
}

/// The pod to which a service account token is bound, as the token says itself. podnudge only uses it
/// for the name of its own slot, so it does not check the signature.
pub(super) fn claims(token: &str) -> Option<Pod> {
    #[derive(Deserialize)]
    struct Token {
        #[serde(rename = "kubernetes.io")]
        kubernetes: Kubernetes,
    }
    #[derive(Deserialize)]
    struct Kubernetes {
        pod: Bound,
    }
    #[derive(Deserialize)]
    struct Bound {
        name: String,
        uid: String,
    }
    let payload = token.trim().split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let pod = serde_json::from_slice::<Token>(&payload).ok()?.kubernetes.pod;
    Some(Pod { name: pod.name, uid: Some(pod.uid), is_named: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(payload: &str) -> String {
        format!("e30.{}.c2ln\n", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn a_bound_token_names_its_pod() {
        let bound = r#"{"kubernetes.io":{"namespace":"a","pod":{"name":"web-0","uid":"12-ab"},"node":{"name":"n"}},"sub":"x"}"#;
        let pod = claims(&token(bound)).expect("it is bound to a pod");
        assert_eq!((pod.name.as_str(), pod.uid.as_deref()), ("web-0", Some("12-ab")));
        for other in [r#"{"kubernetes.io":{"namespace":"a"}}"#, "{}", "[", "null"] {
            assert_eq!(claims(&token(other)), None);
        }
        assert_eq!(claims("opaque"), None);
        assert_eq!(claims("a.!.c"), None);
    }

    #[test]
    fn a_pod_that_is_not_known_is_no_other_pod_of_the_same_node() {
        let host = Pod { name: "node-1".to_owned(), uid: None, is_named: false };
        assert_ne!(host.holder("web", 1), host.holder("web", 2));
        let named = Pod { is_named: true, ..host.clone() };
        assert_eq!(named.holder("web", 1), named.holder("web", 2));
        let known =
            host.or(claims(&token(r#"{"kubernetes.io":{"pod":{"name":"web-0","uid":"12"}}}"#)));
        assert_eq!(known.holder("a", 1), "web-0_12_a");
    }
}
