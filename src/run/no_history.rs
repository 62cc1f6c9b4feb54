//! In place of `history.rs` in a podnudge that was built without the page that shows it.

#![expect(clippy::unused_self, reason = "the same calls as of `history.rs`")]

use podnudge_core::clock::UnixTime;
use podnudge_core::command::Command;
use podnudge_core::event::{Acted, RuleId};

#[derive(Default)]
pub(super) struct History;

impl History {
    pub(super) fn read(&self, _: RuleId, _: UnixTime) {}

    pub(super) fn acted(&self, _: UnixTime, _: RuleId, _: &Acted) {}

    pub(super) fn commanded(&self, _: UnixTime, _: &Command) {}
}
