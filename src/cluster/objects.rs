//! The requests of eager sync: what is behind the pod's volumes, the metadata of an object, and the annotation
//! of the pod.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use super::api::Api;
use super::call::{CONFIG_MAPS, Kind, PODS, SECRETS, Verb};
use super::eager::EagerAnswer;
use super::sources::{self, Source};
use podnudge_core::api_error::ApiError;
use podnudge_core::objects::{ObjectKind, ObjectName, ObjectsPage, WatchEvent};

/// The annotation by which the pod is changed, so that the kubelet syncs it.
const ANNOTATION: &str = "podnudge.io/sync";
/// The most bytes of an object's metadata. Annotations alone may have 256 KiB, and JSON needs more for them.
const LARGEST_METADATA: usize = 1024 * 1024;
/// The longest line of a watch: the metadata of one object. One that has more is listed again.
const LONGEST_LINE: usize = 256 * 1024;
/// How many objects are listed at once: each answer is kept whole.
static LISTS: Semaphore = Semaphore::const_new(4);
/// The time for a request and its answer.
const LIMIT: Duration = Duration::from_secs(10);

impl Api {
    /// The objects in the volumes that a container of this pod mounts at the watched paths.
    ///
    /// # Errors
    /// If the server does not tell.
    pub async fn sources(
        &self,
        pod: &str,
        container: Option<&str>,
        paths: &[PathBuf],
    ) -> Result<Vec<Source>, ApiError> {
        self.read_pod(pod, LIMIT, |answer| sources::sources(answer, container, paths)).await
    }

    /// Lists the metadata of one object.
    ///
    /// # Errors
    /// If the server does not carry it out.
    pub async fn list_metadata(&self, object: &ObjectName) -> Result<ObjectsPage, ApiError> {
        let query = vec![("fieldSelector", format!("metadata.name={}", object.name))];
        let call = self.call(kind(object), &object.name, Verb::List, query)?;
        // Nobody closes it.
        let _turn = LISTS.acquire().await;
        let answer = self.send(&call, None, LIMIT, LARGEST_METADATA).await?;
        let mut page = ObjectsPage::parse(&answer).map_err(|reason| call.failed(&reason))?;
        page.objects.retain(|found| found.name == object.name);
        Ok(page)
    }

    /// Watches the metadata of one object from this version, for this time, and sends what comes to `events`,
    /// with the number of the object.
    ///
    /// # Errors
    /// If the watch does not begin, or does not end as it should.
    pub async fn watch_metadata(
        &self,
        number: usize,
        object: &ObjectName,
        (version, time): (String, Duration),
        events: mpsc::Sender<EagerAnswer>,
    ) -> Result<(), ApiError> {
        let query = vec![
            ("fieldSelector", format!("metadata.name={}", object.name)),
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", version),
            ("timeoutSeconds", time.as_secs().to_string()),
        ];
        let call = self.call(kind(object), &object.name, Verb::Watch, query)?;
        let parse = |line: &[u8]| {
            let event = WatchEvent::parse(line)?.filter(|event| match event {
                WatchEvent::Present(found) | WatchEvent::Deleted(found) => {
                    found.name == object.name
                }
                WatchEvent::Bookmark(_) => true,
            });
            Ok(event.map(|event| EagerAnswer::Event(number, event)))
        };
        let opened = EagerAnswer::Opened(number);
        self.watch(&call, (time, LONGEST_LINE), opened, parse, &events).await
    }

    /// Annotates a pod, or only asks whether that would be accepted.
    ///
    /// # Errors
    /// If the server does not carry it out.
    pub async fn annotate(&self, pod: &str, value: Option<String>) -> Result<(), ApiError> {
        let trial = value.is_none().then(|| ("dryRun", "All".to_owned()));
        let value = value.unwrap_or_else(|| "trial".to_owned());
        let call = self.call(PODS, pod, Verb::Patch, trial.into_iter().collect())?;
        let patch = json!({"metadata": {"annotations": {ANNOTATION: value}}});
        let body = patch.to_string().into_bytes();
        self.send(&call, Some(body), LIMIT, LARGEST_METADATA).await.map(drop)
    }
}

fn kind(object: &ObjectName) -> Kind {
    match object.kind {
        ObjectKind::ConfigMap => CONFIG_MAPS,
        ObjectKind::Secret => SECRETS,
    }
}
