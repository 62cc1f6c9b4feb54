//! What a rollout waits for between its steps, and what it knows of a restart. ARCHITECTURE.md says how to add a wait.

use crate::clock::Moment;

/// A restart of the target by a rollout, until its outcome is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetRestart {
    /// When podnudge began to end the target.
    pub(super) began: Moment,
    /// An earlier podnudge began it: whether the target has ended is not known.
    pub(super) by_earlier: bool,
    /// How often podnudge has ended for it.
    pub(super) pod_ends: u32,
}

/// The reason for waiting between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// To begin: the rollout was in progress when podnudge started.
    Start,
    /// For an absent target.
    Target,
    /// For the backoff after a failure.
    Retry,
    /// For a refusal to end; it may end without new content.
    Refusal,
    /// To restart the target instead of repeating the actions.
    Restart,
    /// For the restart budget.
    Budget,
    /// For the pod to leave its Services, before the action.
    Drain,
    /// For a slot, or for the replica's turn: the action can be sent.
    Slot,
    /// For the permission to evict the pod.
    Disruption,
    /// For the end of podnudge's own pod, which was evicted.
    Deletion,
}
