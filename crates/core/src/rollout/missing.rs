//! The absence of the target during a rollout.

use crate::clock::Moment;

/// Since when the target has been absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) since: Moment,
    /// The number of polls since then.
    pub(super) polls: u32,
    /// How it was found absent last.
    pub(super) found_by: FoundBy,
}

/// How the absence of the target was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// By an action, which was not sent.
    Action,
    /// By the preparation of one, or by a verification.
    Poll,
}
