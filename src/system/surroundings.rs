//! What the environment variables tell of podnudge's own pod and of the API server. Pure.

/// What is known of podnudge's own pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pod {
    /// The pod's name, or else the host name.
    pub name: String,
    /// The pod's UID.
    pub uid: Option<String>,
    /// Whether the name is that of the pod. The host name may be that of the node (`hostNetwork`).
    pub is_named: bool,
}

impl Pod {
    /// The pod's name, if the environment tells it.
    #[must_use]
    pub fn told_name(&self) -> Option<String> {
        self.is_named.then(|| self.name.clone())
    }
}

/// What the environment tells of podnudge's own pod and of the API server.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// podnudge's own pod.
    pub pod: Pod,
    /// The namespace of the pod, for the page.
    #[cfg(feature = "page")]
    pub namespace: Option<String>,
    /// The node of the pod, for the page.
    #[cfg(feature = "page")]
    pub node: Option<String>,
    /// The API server, in a pod.
    pub server: Option<Server>,
}

/// The address of the API server that the kubelet sets in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `KUBERNETES_SERVICE_HOST`: an IP address or a name.
    pub host: String,
    /// `KUBERNETES_SERVICE_PORT`.
    pub port: String,
}
