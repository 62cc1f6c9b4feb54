//! `[cluster]`: how to reach the Kubernetes API. Only for rules that use it. Pure.

use super::prelude::*;
use super::request;

settings! {
    /// How to reach the Kubernetes API. podnudge uses it only for settings that say so, such as `lease` of `[rule.limit]`; in a pod, nothing needs to be set here.
    #[derive(PartialEq, Eq)]
    pub struct Cluster = "[cluster]"; {
        /// The URL of the API server.
        url: Option<reqwest::Url> = optional("`https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT`, as the kubelet sets them", url());
        /// A file with the CA certificates (PEM) to trust for the API server.
        ca_file: PathBuf = default("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", path());
        /// A file with the bearer token of the service account, read for each request.
        token_file: PathBuf = default("/var/run/secrets/kubernetes.io/serviceaccount/token", path());
        /// The namespace of the pod and its Leases.
        namespace: Option<String> = optional("that of the service account, in `/var/run/secrets/kubernetes.io/serviceaccount/namespace`", checked("a namespace", parsers::namespace));
    }
}

impl Cluster {
    /// Checks the table, and the settings at `users` that need the API.
    pub(super) fn validate_with<'a>(
        &self,
        place: &Place<'_>,
        users: impl Iterator<Item = (Place<'a>, &'static str)>,
    ) {
        let is_http = self.url.as_ref().is_some_and(|url| url.scheme() == "http");
        if let Some(url) = &self.url
            && is_http
            && !request::is_loopback(url)
        {
            let reason = Reason::new("the credentials are sent over the network unencrypted");
            place.warn(Value("url"), reason.hint("use https"));
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
