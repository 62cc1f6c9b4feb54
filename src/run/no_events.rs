//! In place of `events.rs` in a podnudge that was built without access to the Kubernetes API: its configuration
//! then has no `events` (`config/cluster.rs`).

#![expect(clippy::unused_self, reason = "the same calls as of `events.rs`")]

use super::agent::Agent;
use crate::config::Config;
use crate::surroundings::Surroundings;
use podnudge_core::clock::Moment;
use podnudge_core::event::RuleId;
use podnudge_core::fact::Fact;

pub(super) struct EventSending;

impl EventSending {
    pub(super) fn new(_: &Config, _: Surroundings) -> Self {
        Self
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        None
    }

    pub(super) fn stop(&self) {}
}

impl Agent {
    pub(super) fn event_of_fact(&self, _: RuleId, _: &Fact) {}
}
