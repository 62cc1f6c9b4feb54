//! One request to the Kubernetes API server. Reads the files of the pod's service account for each request:
//! the token, the CA certificates and the namespace, because the kubelet renews them.
//!
//! A connection is kept for some seconds (`exchange/kept.rs`): a rollout needs a handful of requests.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};

use super::call::{
    Call, ENDPOINT_SLICES, ENDPOINT_SLICES_BETA, EVENTS, EVICTIONS, Kind, NO_ACCOUNT, PODS, Verb,
};
use super::endpoint_slices::{Listed, Page};
use super::events::PodEvent;
use super::identity;
use super::own_pod::{self, OwnPod};
use crate::exchange::http;
use crate::exchange::kept::Kept;
use crate::system::files;
use crate::system::surroundings::{Pod, Server};
use podnudge_config::{Auth, Cluster, Endpoint, Tls, is_label};
use podnudge_core::api_error::ApiError;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The namespace of the pod, in the mounted service account.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The most bytes of an Event.
const LARGEST_EVENT: usize = 64 * 1024;
/// The most bytes of a Pod.
const LARGEST_POD: usize = 512 * 1024;

/// How many EndpointSlices are read at once: each has at most 100 endpoints, unless the cluster is set up
/// otherwise, and then 1000.
const SLICES_AT_ONCE: usize = 4;
/// The most bytes of so many EndpointSlices.
const LARGEST_SLICES: usize = 4 * 1024 * 1024;

const NO_POD: &str =
    "podnudge finds the API server where it runs in a pod; elsewhere, set `url` in `[cluster]`";

/// The API server, as the configuration and the environment describe it.
#[derive(Debug, Clone)]
pub struct Api {
    settings: Cluster,
    server: Option<Server>,
    kept: Kept,
}

impl Api {
    /// Sends nothing yet.
    #[must_use]
    pub fn new(settings: Cluster, server: Option<Server>) -> Self {
        Self { settings, server, kept: Kept::default() }
    }

    /// With a connection that it shares with others.
    #[must_use]
    pub fn sharing(self, kept: Kept) -> Self {
        Self { kept, ..self }
    }

    /// Whether everything is there that a request needs. Sends nothing.
    ///
    /// # Errors
    /// What is missing in the pod.
    pub fn examine(&self) -> Result<(), Reason> {
        self.namespace()?;
        self.base().map(drop)
    }

    /// Why this pod is not Ready, if so.
    ///
    /// # Errors
    /// If the server does not carry it out, or there is no answer within `limit`.
    pub async fn not_ready(&self, pod: &str, limit: Duration) -> Result<Option<Reason>, ApiError> {
        self.read_pod(pod, limit, own_pod::not_ready).await
    }

    /// Whether this pod is being deleted.
    ///
    /// # Errors
    /// As for [`Api::not_ready`].
    pub async fn is_being_deleted(&self, pod: &str, limit: Duration) -> Result<bool, ApiError> {
        self.read_pod(pod, limit, own_pod::is_being_deleted).await
    }

    /// What became of podnudge's own pod.
    ///
    /// # Errors
    /// As for [`Api::not_ready`].
    pub async fn own_pod(&self, pod: &Pod, limit: Duration) -> Result<OwnPod, ApiError> {
        self.read_pod(&pod.name, limit, |body| own_pod::own(body, pod.uid.as_deref())).await
    }

    /// Reads a Pod, and takes what is asked for from it.
    pub(super) async fn read_pod<T>(
        &self,
        pod: &str,
        limit: Duration,
        take: impl FnOnce(&[u8]) -> Result<T, Reason>,
    ) -> Result<T, ApiError> {
        let call = self.call(PODS, pod, Verb::Get, Vec::new())?;
        let answer = self.send(&call, None, limit, LARGEST_POD).await?;
        take(&answer).map_err(|reason| call.failed(&reason))
    }

    /// What the EndpointSlices of this Service say of the pod.
    ///
    /// # Errors
    /// As for [`Api::not_ready`]. `limit` is for each part of a long list.
    pub async fn listed(
        &self,
        service: &str,
        pod: &Pod,
        limit: Duration,
    ) -> Result<Listed, ApiError> {
        match self.listed_as(ENDPOINT_SLICES, service, pod, limit).await {
            Err(ApiError::NotFound(_)) => {
                self.listed_as(ENDPOINT_SLICES_BETA, service, pod, limit).await
            }
            listed => listed,
        }
    }

    async fn listed_as(
        &self,
        kind: Kind,
        service: &str,
        pod: &Pod,
        limit: Duration,
    ) -> Result<Listed, ApiError> {
        let (mut listed, mut next) = (Listed::No, None::<String>);
        loop {
            let query = [
                ("labelSelector", format!("kubernetes.io/service-name={service}")),
                ("limit", SLICES_AT_ONCE.to_string()),
            ];
            let query = query.into_iter().chain(next.clone().map(|next| ("continue", next)));
            let call = self.call(kind, service, Verb::ListOfService, query.collect())?;
            let answer = self.send(&call, None, limit, LARGEST_SLICES).await?;
            let page = Page::parse(&answer, pod).map_err(|reason| call.failed(&reason))?;
            listed = listed.max(page.pod);
            if page.next.is_none() || listed == Listed::Ready {
                return Ok(listed);
            }
            if page.next == next {
                return Err(call.failed(&Reason::new("the list does not end")));
            }
            next = page.next;
        }
    }

    /// Evicts this pod, unless a PodDisruptionBudget forbids it now: then the answer is 429. Another pod of the same
    /// name is not evicted.
    ///
    /// # Errors
    /// As for [`Api::not_ready`].
    pub async fn evict(&self, pod: &Pod, limit: Duration) -> Result<(), ApiError> {
        let call = self.call(EVICTIONS, &pod.name, Verb::Create, Vec::new())?;
        let body = own_pod::eviction(&pod.name, &call.namespace, pod.uid.as_deref());
        self.send(&call, Some(body), limit, LARGEST_POD).await.map(drop)
    }

    /// Creates an Event about this pod.
    ///
    /// # Errors
    /// As for [`Api::not_ready`].
    pub async fn create_event(
        &self,
        pod: &Pod,
        event: &PodEvent,
        limit: Duration,
    ) -> Result<(), ApiError> {
        let call = self.call(EVENTS, event.reason.name(), Verb::Create, Vec::new())?;
        let body = event.body(pod, &call.namespace);
        self.send(&call, Some(body), limit, LARGEST_EVENT).await.map(drop)
    }

    /// The token, if it can be read: it also says whose it is.
    fn token(&self) -> Option<String> {
        files::secret(&self.settings.token_file).ok()
    }

    /// podnudge's own pod, by what is told of it, and by the token.
    #[must_use]
    pub fn pod(&self, told: Pod) -> Pod {
        told.or(self.token().and_then(|token| identity::claims(&token)))
    }

    pub(super) fn call(
        &self,
        kind: Kind,
        name: &str,
        verb: Verb,
        query: Vec<(&'static str, String)>,
    ) -> Result<Call, ApiError> {
        let namespace = self.namespace().map_err(ApiError::Unsent)?;
        Ok(Call { kind, verb, name: name.to_owned(), namespace, query })
    }

    /// Sends a request, and returns the body of the answer if it was carried out.
    pub(super) async fn send(
        &self,
        call: &Call,
        body: Option<Vec<u8>>,
        limit: Duration,
        most: usize,
    ) -> Result<Vec<u8>, ApiError> {
        let endpoint = self.endpoint(call, limit).map_err(ApiError::Unsent)?;
        let sent = http::exchange_by(&self.kept, &endpoint, call.verb.method(), body, most).await;
        let answer = sent.map_err(|error| call.unanswered(error))?;
        call.judge(answer, most)
    }

    /// Where a call goes. The time limit is for all of it.
    pub(super) fn endpoint(&self, call: &Call, limit: Duration) -> Result<Endpoint, Reason> {
        let mut url = self.base()?;
        url.set_path(&format!("{}{}", url.path().trim_end_matches('/'), call.path()));
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let Cluster { ca_file, token_file, .. } = &self.settings;
        let verb = call.verb;
        let accept = (ACCEPT, HeaderValue::from_static(call.accepts()));
        let content_type = (CONTENT_TYPE, HeaderValue::from_static(verb.sends()));
        let has_body = verb.method() != Method::GET;
        Ok(Endpoint {
            tls: (url.scheme() == "https").then(|| Tls {
                ca_file: ca_file.clone(),
                client: None,
                is_resumed: true,
            }),
            url,
            unix_socket: None,
            headers: [accept].into_iter().chain(has_body.then_some(content_type)).collect(),
            auth: Some(Auth::Bearer(token_file.clone())),
            timeout: limit,
        })
    }

    /// The URL of the API server, if what a request needs is there.
    fn base(&self) -> Result<Url, Reason> {
        let Cluster { ca_file, token_file, .. } = &self.settings;
        let url = self.url()?;
        let is_https = url.scheme() == "https";
        let needed = [Some(token_file), is_https.then_some(ca_file)];
        if let Some(missing) = needed.into_iter().flatten().find(|path| !path.exists()) {
            let message = format!("there is no {}", shown::path_literal(missing));
            return Err(Reason::new(message).hint(NO_ACCOUNT));
        }
        // Says what is wrong with it before there is a connection.
        files::secret(token_file)?;
        Ok(url)
    }

    fn url(&self) -> Result<Url, Reason> {
        if let Some(url) = &self.settings.url {
            return Ok(url.clone());
        }
        let Some(Server { host, port }) = &self.server else {
            let message = "`KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` are not set";
            return Err(Reason::new(message).hint(NO_POD));
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Url::parse(&format!("https://{host}:{port}")).map_err(|_| {
            let message =
                "`KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` are not an address";
            Reason::new(message).hint(NO_POD)
        })
    }

    pub(super) fn namespace(&self) -> Result<String, Reason> {
        if let Some(namespace) = &self.settings.namespace {
            return Ok(namespace.clone());
        }
        let path = Path::new(NAMESPACE);
        if !path.exists() {
            let message = format!("there is no {}", shown::path_literal(path));
            return Err(Reason::new(message).hint(NO_ACCOUNT));
        }
        let namespace = files::secret(path)?;
        if is_label(&namespace) {
            return Ok(namespace);
        }
        let message = format!("`{NAMESPACE}` does not name a namespace");
        Err(Reason::new(message).hint("set `namespace` in `[cluster]`"))
    }
}
