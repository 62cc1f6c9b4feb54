//! In place of `rights.rs` in a podnudge that was built without access to the Kubernetes API.

#![expect(clippy::unused_self, reason = "the same calls as of `rights.rs`")]

use crate::config::Config;
use crate::surroundings::Surroundings;
use podnudge_core::clock::Moment;

pub(super) struct Rights;

impl Rights {
    pub(super) fn new(_: &Config, _: Surroundings, _: u64) -> Self {
        Self
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        None
    }

    pub(super) fn stop(&self) {}
}
