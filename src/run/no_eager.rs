//! In place of `eager.rs` in a podnudge that was built without access to the Kubernetes API: its configuration
//! then has no `eager-sync` (`config/cluster.rs`).

#![expect(clippy::unused_self, reason = "the same calls as of `eager.rs`")]

use super::agent::Agent;
use crate::config::Config;
use crate::surroundings::Surroundings;
use podnudge_core::clock::Moment;
use podnudge_core::event::VolumeId;
use podnudge_core::snapshot::Snapshot;
use podnudge_core::status::EagerSyncStatus;

pub(super) struct EagerSyncing;

impl EagerSyncing {
    pub(super) fn new(_: &Config, _: Surroundings, _: u64) -> Self {
        Self
    }

    #[expect(clippy::unused_async, reason = "the same")]
    pub(super) async fn next(&self) -> Option<()> {
        None
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        None
    }

    pub(super) fn scanned(&self, _: VolumeId, _: &Snapshot) {}

    pub(super) fn status(&self) -> Option<EagerSyncStatus> {
        None
    }

    pub(super) fn stop(&self) {}
}

impl Agent {
    pub(super) fn eager_sync_answered(&self, (): ()) {}
}
