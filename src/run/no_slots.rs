//! In place of `slots.rs` in a podnudge that was built without access to the Kubernetes API: its
//! configuration then has no slots (`config/cluster.rs`).

#![expect(clippy::unused_self, reason = "the same calls as of `slots.rs`")]

use super::agent::Agent;
use crate::config::Config;
use crate::surroundings::{Pod, Surroundings};
use podnudge_core::clock::Moment;
use podnudge_core::command::{Command, PodIs};
use podnudge_core::event::RuleId;
use podnudge_core::reason::Reason;

pub(super) struct SharedSlots;

impl SharedSlots {
    pub(super) fn new(_: &Config, _: Surroundings, _: u64) -> Self {
        Self
    }

    pub(super) fn pod(&self) -> Pod {
        Pod::default()
    }

    pub(super) fn stop_looks(&self) {}

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        None
    }

    pub(super) fn is_busy(&self) -> bool {
        false
    }

    pub(super) fn is_telling(&self) -> bool {
        false
    }
}

impl Agent {
    pub(super) fn run_all(&mut self) {
        self.run_commands();
    }

    pub(super) fn perform_for_slot(&self, _: RuleId, _: Command) {}

    pub(super) fn look_at_pod(&self, _: RuleId, _: u32, _: PodIs) {}

    pub(super) fn why_not_evict(&self, _: RuleId) -> Option<Reason> {
        None
    }
}
