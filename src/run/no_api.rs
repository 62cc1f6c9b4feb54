//! In place of `api.rs` in a podnudge that was built without access to the Kubernetes API: its configuration then has
//! no use for it (`crates/config/src/cluster.rs`).

#![expect(clippy::unused_self, reason = "the same calls as of `api.rs`")]

use super::agent::Agent;
use crate::system::surroundings::{Pod, Surroundings};
use podnudge_config::Config;
use podnudge_core::clock::Moment;
use podnudge_core::command::{Command, PodIs};
use podnudge_core::event::{RuleId, VolumeId};
use podnudge_core::fact::Fact;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Snapshot;
use podnudge_core::status::EagerSyncStatus;

pub(super) struct ApiUsers;

impl ApiUsers {
    pub(super) fn new(_: &Config, _: &Surroundings, _: u64) -> Self {
        Self
    }

    pub(super) fn pod(&self) -> Pod {
        Pod::default()
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        None
    }

    pub(super) fn is_busy(&self) -> bool {
        false
    }

    pub(super) fn is_telling(&self) -> bool {
        false
    }

    pub(super) fn stop(&self) {}

    pub(super) fn end_requests(&self) {}

    #[expect(clippy::unused_async, reason = "the same")]
    pub(super) async fn next_watched(&self) -> Option<()> {
        None
    }

    pub(super) fn scanned(&self, _: VolumeId, _: &Snapshot) {}

    pub(super) fn eager_sync(&self) -> Option<EagerSyncStatus> {
        None
    }
}

impl Agent {
    pub(super) fn advance_slots(&self) -> bool {
        false
    }

    pub(super) fn advance_api_users(&self) {}

    pub(super) fn perform_for_slot(&self, _: RuleId, _: Command) {}

    pub(super) fn look_at_pod(&self, _: RuleId, _: u32, _: PodIs) {}

    pub(super) fn why_not_evict(&self, _: RuleId) -> Option<Reason> {
        None
    }

    pub(super) fn watch_told(&self, (): ()) {}

    pub(super) fn event_of_fact(&self, _: RuleId, _: &Fact) {}
}
