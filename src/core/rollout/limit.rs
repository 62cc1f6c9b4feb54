//! Whether the other replicas limit when a rollout acts.

use crate::core::gate::Cause;

/// Whether the other replicas limit when a rollout acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// They do not: the content is the first, or was good before.
    None,
    /// The next attempt has to begin in the replica's turn, and acts with a slot.
    Pending,
    /// The attempt has begun in the replica's turn, and acts with a slot.
    Begun,
}

impl Limit {
    pub(super) fn of(cause: Cause) -> Self {
        if cause.needs_slot() { Self::Pending } else { Self::None }
    }

    /// An attempt begins: in the replica's turn, as the gate has found.
    pub(super) fn begun(self) -> Self {
        if self == Self::Pending { Self::Begun } else { self }
    }

    /// The attempt has ended.
    pub(super) fn ended(self) -> Self {
        if self == Self::Begun { Self::Pending } else { self }
    }
}
