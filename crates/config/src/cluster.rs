//! `[cluster]`: how to reach the Kubernetes API, and what podnudge does with it for all rules. Pure.

use super::prelude::*;
use super::request;
use podnudge_core::objects::ObjectName;

settings! {
    /// How to reach the Kubernetes API. podnudge uses it only for settings that say so, such as `eager-sync`, `events` and `lease` of `[rule.limit]`; in a pod, nothing needs to be set to reach it.
    #[derive(PartialEq, Eq)]
    pub struct Cluster = "[cluster]", &[Relation::Needs(&["objects", "eager-sync-spread"], &["eager-sync"])]; validated {
        /// The URL of the API server: https, or http on a loopback address, as of `kubectl proxy`. Each request carries the token.
        url: Option<url::Url> = optional("`https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT`, as the kubelet sets them", url());
        /// A file with the CA certificates (PEM) to trust for the API server.
        ca_file: PathBuf = default("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", path());
        /// A file with the bearer token of the service account, read for each request.
        token_file: PathBuf = default("/var/run/secrets/kubernetes.io/serviceaccount/token", path());
        /// The namespace of the pod and its Leases.
        namespace: Option<String> = optional("that of the service account, in `/var/run/secrets/kubernetes.io/serviceaccount/namespace`", checked("a namespace", parsers::namespace));
        /// Watch the metadata of the ConfigMaps and Secrets behind the watched volumes, and annotate podnudge's own pod when the content of one changes, so that the kubelet writes the volumes at once.
        eager_sync: bool = default("false", boolean());
        /// Spread the annotations of the replicas after an edit over this time, by a hash of the pod's name: 1 s for each hundred replicas spares the API server.
        eager_sync_spread: Option<Duration> = optional("10 ms for each of the `replicas` of `[rule.limit]`, or for each pod before it in its StatefulSet; otherwise `1s`", duration(ZERO, MINUTE));
        /// The names of the objects, such as `configmap/app` and `secret/tls`. With them, podnudge need not be allowed to read pods.
        objects: Vec<ObjectName> = list("those of the pod's volumes, as the Pod has them", object_name());
        /// Create Kubernetes Events about podnudge's own Pod: `ConfigApplied`, `ConfigDelivered`, `ConfigRejected`, `ConfigRolledBack` and `RolloutHalted`.
        events: bool = default("false", boolean());
    }
}

const fn object_name() -> Type<ObjectName> {
    let form = Form::Text("`configmap/NAME` or `secret/NAME`");
    Type { form, parse: parse_object, print: |object| object.to_string() }
}

fn parse_object(text: &str) -> Result<ObjectName, Reason> {
    match ObjectName::parse(text) {
        Some(object) if parsers::is_subdomain(&object.name) => Ok(object),
        _ => Err(is_not(text, "the name of a ConfigMap or a Secret")
            .hint("write `configmap/NAME` or `secret/NAME`")),
    }
}

/// The token is sent to this URL.
pub(super) fn check_url(url: url::Url) -> Result<url::Url, Reason> {
    if url.scheme() != "http" || request::is_loopback(&url) {
        return Ok(url);
    }
    let message = "the service account's token would be sent over the network unencrypted";
    let hint = "use https, or a proxy on a loopback address such as `http://127.0.0.1:8001`";
    Err(Reason::new(message).hint(hint))
}

impl Cluster {
    fn validate(&self, place: &Place<'_>) {
        if self.objects.len() > ObjectName::MOST {
            let message = format!("podnudge watches at most {} objects", ObjectName::MOST);
            place.problem(Key("objects"), Reason::new(message));
        }
    }

    /// Checks the table, and the settings at `users` that need the API.
    pub(super) fn validate_with<'a>(
        &self,
        place: &Place<'_>,
        users: impl Iterator<Item = (Place<'a>, &'static str)>,
    ) {
        if let Some(Err(reason)) = self.url.clone().map(check_url) {
            place.problem(Value("url"), reason);
        }
        if cfg!(feature = "cluster") {
            return;
        }
        for (user, key) in users {
            let reason =
                Reason::new("this podnudge was built without access to the Kubernetes API");
            user.problem(Key(key), reason.hint("use the image with TLS"));
        }
    }
}
