//! What podnudge uses the Kubernetes API for: the machines of `cluster/`, each with its access to the API server. The loop
//! sends what they ask for, and gives them the answers. Nothing of it is there unless it is configured.

mod access;
mod eager;
mod events;
mod evict;
mod pod_looks;
mod rights;
mod slots;

use super::agent::Agent;
use super::clock;
use crate::cluster::{self, EagerAnswer, LeaseWatch};
use crate::exchange::kept::Kept;
use crate::system::surroundings::{Pod, Surroundings};
use eager::EagerSyncing;
use events::EventSending;
pub(super) use evict::{Evictor, evict_if_ready};
use podnudge_config::Config;
use podnudge_core::api_error::{ApiError, api_server};
use podnudge_core::clock::Moment;
use podnudge_core::event::{ApiServer, Event, RuleId, VolumeId};
use podnudge_core::slots::Lease;
use podnudge_core::snapshot::Snapshot;
use podnudge_core::status::EagerSyncStatus;
use rights::Rights;
use slots::SharedSlots;

/// An answer of the API server.
pub(in crate::run) enum ApiAnswer {
    /// About a rule's slot.
    Lease(RuleId, Box<Result<Lease, ApiError>>),
    /// Whether the pod is being deleted, as far as that is known.
    Deletion(RuleId, bool),
    /// Whether an Event was created.
    Event(Result<(), ApiError>),
    /// What podnudge's service account may do.
    Rights(Result<cluster::Rights, ApiError>),
}

/// What comes of a watch.
pub(in crate::run) enum Watched {
    /// About an object of eager sync.
    Object(EagerAnswer),
    /// About the Lease of a slot.
    Lease(LeaseWatch),
}

/// What uses the Kubernetes API: slots, eager sync, Events, and the question for rights.
pub(super) struct ApiUsers {
    slots: SharedSlots,
    eager: EagerSyncing,
    events: EventSending,
    rights: Rights,
    /// The connection to the API server that they share, one after the other.
    kept: Kept,
}

impl ApiUsers {
    pub(super) fn new(config: &Config, surroundings: &Surroundings, seed: u64) -> Self {
        let kept = Kept::default();
        let parts = || (surroundings.clone(), kept.clone());
        Self {
            slots: SharedSlots::new(config, parts(), seed),
            eager: EagerSyncing::new(config, parts(), seed),
            events: EventSending::new(config, parts()),
            rights: Rights::new(config, parts(), seed),
            kept,
        }
    }

    /// podnudge's own pod, as far as it is known, if there is a use for it.
    pub(super) fn pod(&self) -> Pod {
        self.slots.pod()
    }

    pub(super) fn evictor(&self) -> Option<Evictor> {
        self.slots.evictor()
    }

    /// When to advance them, if nothing else happens.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        let (slots, eager) = (self.slots.next_wakeup(), self.eager.next_wakeup());
        let (events, rights) = (self.events.next_wakeup(), self.rights.next_wakeup());
        let all = [slots, eager, events, rights, self.kept.next_wakeup()];
        all.into_iter().flatten().min()
    }

    /// Whether a slot is being given back, or the other replicas are being told of content that failed.
    pub(super) fn is_busy(&self) -> bool {
        self.slots.is_busy()
    }

    /// Whether the other replicas are being told of content that failed, or it is being found out whether they
    /// have to be.
    pub(super) fn is_telling(&self) -> bool {
        self.slots.is_telling()
    }

    /// podnudge is asked to stop. What is to be given back, or told to others, goes on.
    pub(super) fn stop(&mut self) {
        self.slots.stop_looks();
        self.eager.stop();
        self.events.stop();
        self.rights.stop();
    }

    /// Ends the requests about slots that are under way. podnudge is about to end, and needs none of them.
    pub(super) fn end_requests(&mut self) {
        self.slots.end_requests();
    }

    /// What comes next of what is watched: the objects of eager sync and the Leases. If nothing is, nothing comes.
    pub(super) async fn next_watched(&mut self) -> Option<Watched> {
        tokio::select! {
            Some(lease) = self.slots.next() => Some(Watched::Lease(lease)),
            Some(object) = self.eager.next() => Some(Watched::Object(object)),
            else => None,
        }
    }

    /// A volume was read.
    pub(super) fn scanned(&mut self, volume: VolumeId, snapshot: &Snapshot) {
        self.eager.scanned(volume, snapshot);
    }

    pub(super) fn eager_sync(&self) -> Option<EagerSyncStatus> {
        self.eager.status()
    }
}

impl Agent {
    /// Sends the requests that are due for anything but slots.
    pub(super) fn advance_api_users(&mut self) {
        self.advance_eager_sync();
        self.advance_events();
        self.advance_rights();
        self.api.kept.close_idle(clock::now().mono);
    }

    pub(super) fn watch_told(&mut self, watched: Watched) {
        match watched {
            Watched::Object(answer) => {
                self.api_server_seen(answer.api_server());
                self.api.eager.answered(answer);
            }
            Watched::Lease(told) => {
                self.api_server_seen(told.2.api_server());
                self.lease_watch_told(told);
            }
        }
    }

    pub(super) fn api_answered(&mut self, answer: ApiAnswer) {
        self.api_server_seen(match &answer {
            ApiAnswer::Lease(_, lease) => api_server(lease),
            ApiAnswer::Event(answer) => api_server(answer),
            ApiAnswer::Rights(rights) => api_server(rights),
            ApiAnswer::Deletion(..) => None,
        });
        match answer {
            ApiAnswer::Lease(rule, lease) => self.lease_answered(rule, *lease),
            ApiAnswer::Deletion(rule, is_deleted) => self.deletion_answered(rule, is_deleted),
            ApiAnswer::Event(answer) => self.event_answered(answer),
            ApiAnswer::Rights(rights) => self.rights_answered(rights),
        }
    }
    /// Tells all rules what an answer says of the API server.
    fn api_server_seen(&mut self, server: Option<ApiServer>) {
        if let Some(server) = server {
            self.handle_event(Event::ApiServer(server));
        }
    }
}
