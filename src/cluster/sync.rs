//! The requests of `podnudge sync`: its Lease, the metadata of ConfigMaps and Secrets, and the pods that mount them.
//! What to do with them is decided by the core (`sync.rs` there).

use std::time::Duration;

use tokio::sync::mpsc;

use super::api::Api;
use super::call::{CONFIG_MAPS, Call, LEASES, PODS, SECRETS, Verb};
use super::watch::OVERTIME;
use crate::exchange::items::{Cut, read_items};
use podnudge_core::api_error::ApiError;
use podnudge_core::objects::{Metadata, ObjectsPage, PageEnd, WatchEvent};
use podnudge_core::reason::Reason;
use podnudge_core::sync::{Answer, DuePod, Followed, LeaseAsk, PodsPage, SyncLease, Targets};

/// How many objects or pods are listed with one request.
const PAGE: &str = "500";
/// The longest object in a list, and the longest line of a watch. Objects of etcd have at most 1.5 MiB, and annotations
/// 256 KiB, of which JSON may make more. A longer one is left to the kubelets.
const LONGEST: usize = 2 * 1024 * 1024;
/// The most bytes of a Lease.
const LARGEST_LEASE: usize = 2 * 1024 * 1024;
/// The most pods of one answer that are annotated: more than a server sends that heeds the size of a page.
const MOST_DUE: usize = 5_000;
/// The time for a request and its answer, or for the beginning of a watch.
const LIMIT: Duration = Duration::from_secs(10);
/// The time for a part of a list.
const LIST_LIMIT: Duration = Duration::from_mins(1);

impl Api {
    /// Reads or writes the Lease.
    ///
    /// # Errors
    /// If the server does not carry it out.
    pub async fn sync_lease(&self, name: &str, ask: LeaseAsk) -> Result<SyncLease, ApiError> {
        let (verb, body) = match ask {
            LeaseAsk::Read(_) => (Verb::Get, None),
            LeaseAsk::Write(lease) if lease.exists() => (Verb::Update, Some(lease.body())),
            LeaseAsk::Write(lease) => (Verb::Create, Some(lease.body())),
        };
        let call = self.call(LEASES, name, verb, Vec::new())?;
        let answer = self.send(&call, body, LIMIT, LARGEST_LEASE).await?;
        SyncLease::parse(&answer).map_err(|reason| call.failed(&reason))
    }

    /// Lists a part of the metadata of ConfigMaps, or of one Secret.
    ///
    /// # Errors
    /// If the server does not carry it out.
    pub async fn list_objects(
        &self,
        followed: &Followed,
        next: Option<String>,
    ) -> Result<ObjectsPage, ApiError> {
        let query = [("limit", PAGE.to_owned())].into_iter();
        let query = query.chain(next.map(|next| ("continue", next))).collect();
        let call = self.follow(followed, Verb::List, query)?;
        let (mut objects, mut odd) = (Vec::new(), None);
        let mut take = |item: &[u8]| match Metadata::parse(item) {
            Ok(object) => {
                objects.push(object);
                true
            }
            Err(reason) => {
                odd = Some(reason);
                false
            }
        };
        let end = self.read_list(&call, &mut take).await;
        match odd {
            Some(reason) => Err(call.failed(&reason)),
            None => Ok(ObjectsPage { objects, end: end? }),
        }
    }

    /// Watches them from this version, for this time, and sends what comes to `events`, with the epoch.
    ///
    /// # Errors
    /// If the watch does not begin, or does not end as it should.
    pub async fn watch_objects(
        &self,
        followed: &Followed,
        (version, time): (String, Duration),
        (epoch, events): (u32, mpsc::Sender<(u32, Answer)>),
    ) -> Result<(), ApiError> {
        let query = vec![
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", version),
            ("timeoutSeconds", time.as_secs().to_string()),
        ];
        let call = self.follow(followed, Verb::Watch, query)?;
        let endpoint = self.endpoint(&call, time + OVERTIME).map_err(ApiError::Unsent)?;
        let (number, mut failed) = (followed.number, None);
        let mut take = |line: &[u8]| {
            let answer = match line {
                [] => Answer::Opened(number),
                line => match WatchEvent::parse(line) {
                    Ok(Some(event)) => Answer::Event(number, event),
                    Ok(None) => return true,
                    Err(error) => {
                        failed = Some(error);
                        return false;
                    }
                },
            };
            let sent = events.try_send((epoch, answer));
            if sent.is_err() {
                failed = Some(ApiError::Unusable(Reason::new("too much has changed at once")));
            }
            sent.is_ok()
        };
        let read = read_items(&endpoint, (Cut::Lines, LIMIT, LONGEST), &mut take).await;
        let answer = read.map_err(|error| call.unanswered(error))?;
        match failed {
            Some(error) => Err(error),
            None => call.judge(answer, LONGEST).map(drop),
        }
    }

    /// Lists a part of the pods, and takes those that have to be annotated.
    ///
    /// # Errors
    /// If the server does not carry it out.
    pub async fn due_pods(
        &self,
        next: Option<String>,
        targets: &Targets,
    ) -> Result<PodsPage, ApiError> {
        let is_running = "status.phase!=Succeeded,status.phase!=Failed".to_owned();
        let query = [("limit", PAGE.to_owned()), ("fieldSelector", is_running)].into_iter();
        let query = query.chain(next.map(|next| ("continue", next))).collect();
        let call = self.call(PODS, "", Verb::ListAll, query)?;
        let (mut page, mut odd) = (PodsPage::default(), None);
        let mut take = |item: &[u8]| {
            page.read += 1;
            match DuePod::of(item, targets) {
                Ok(Some(_)) if page.due.len() >= MOST_DUE => {
                    odd = Some(Reason::new("it has more pods than were asked for"));
                }
                Ok(pod) => page.due.extend(pod),
                Err(reason) => odd = Some(reason),
            }
            odd.is_none()
        };
        let end = self.read_list(&call, &mut take).await;
        match odd {
            Some(reason) => Err(call.failed(&reason)),
            None => Ok(PodsPage { next: end?.next, ..page }),
        }
    }

    fn follow(
        &self,
        followed: &Followed,
        verb: Verb,
        mut query: Vec<(&'static str, String)>,
    ) -> Result<Call, ApiError> {
        match &followed.secret {
            Some(name) => {
                query.insert(0, ("fieldSelector", format!("metadata.name={name}")));
                self.call(SECRETS, name, verb, query)
            }
            None => self.call(CONFIG_MAPS, "", verb, query),
        }
    }

    async fn read_list(
        &self,
        call: &Call,
        take: &mut (dyn FnMut(&[u8]) -> bool + Send),
    ) -> Result<PageEnd, ApiError> {
        let endpoint = self.endpoint(call, LIST_LIMIT).map_err(ApiError::Unsent)?;
        let read = read_items(&endpoint, (Cut::Items, LIST_LIMIT, LONGEST), take).await;
        let answer = read.map_err(|error| call.unanswered(error))?;
        let list = call.judge(answer, LONGEST)?;
        PageEnd::parse(&list).map_err(|reason| call.failed(&reason))
    }
}
