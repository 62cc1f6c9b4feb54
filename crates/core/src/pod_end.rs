//! The end of podnudge for a restart of its pod, which may be refused at the last moment.

use super::permit::Use;
use super::rate::Rate;

/// What a rule counts as soon as podnudge is to end for it, as it was before.
#[derive(Debug)]
pub(super) struct BeforeEnd {
    pub(super) rate: Rate,
    /// What the slot was kept for.
    pub(super) used: Use,
}
