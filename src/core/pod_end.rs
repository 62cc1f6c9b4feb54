//! The end of podnudge for a restart of its pod, which may be refused at the last moment.

use super::budget::Budget;
use crate::clock::Moment;
use crate::volume::snapshot::Digest;

/// What a rule counts as soon as podnudge is to end for it, as it was before.
#[derive(Debug)]
pub(super) struct BeforeEnd {
    pub(super) budget: Budget,
    pub(super) last_action: Option<Moment>,
    /// The digest for which the slot was in use.
    pub(super) interrupted_by: Option<Digest>,
}
