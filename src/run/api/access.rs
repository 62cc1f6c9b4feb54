//! The access of one user of the Kubernetes API, with those of its requests that podnudge does not wait for when it
//! stops.

use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::cluster::Api;
use crate::exchange::kept::Kept;
use crate::system::surroundings::{Pod, Surroundings};
use podnudge_config::Cluster;

/// The access. Its requests end with it.
pub(super) struct ApiAccess {
    pub(super) api: Arc<Api>,
    /// podnudge's own pod, as far as it is known.
    pub(super) pod: Pod,
    requests: Vec<AbortHandle>,
}

impl ApiAccess {
    /// Sends nothing yet.
    pub(super) fn new(settings: Cluster, surroundings: Surroundings, kept: Kept) -> Self {
        let api = Api::new(settings, surroundings.server).sharing(kept);
        let pod = api.pod(surroundings.pod);
        Self { api: Arc::new(api), pod, requests: Vec::new() }
    }

    /// What a request needs.
    pub(super) fn parts(&self) -> (Arc<Api>, Pod) {
        (Arc::clone(&self.api), self.pod.clone())
    }

    /// The same access, for other requests.
    pub(super) fn another(&self) -> Self {
        let (api, pod) = self.parts();
        Self { api, pod, requests: Vec::new() }
    }

    /// A request was begun, and may be over.
    pub(super) fn begun(&mut self, request: Option<AbortHandle>) {
        self.requests.retain(|request| !request.is_finished());
        self.requests.extend(request);
    }
}

impl Drop for ApiAccess {
    fn drop(&mut self) {
        self.requests.iter().for_each(AbortHandle::abort);
    }
}
