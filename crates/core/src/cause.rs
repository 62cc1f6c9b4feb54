//! Why content is to be rolled out.

/// Why content is to be rolled out, and the conditions that apply:
///
/// | condition | changed | triggered | first fill | known good |
/// | --- | --- | --- | --- | --- |
/// | approval before the checks | yes | – | yes | – |
/// | all volumes exist | yes | where podnudge publishes | yes | yes |
/// | checks passed | yes | yes | yes | yes |
/// | jitter, min-interval, window, pause, approval | yes | – | – | – |
/// | restart budget | yes | – | – | – |
/// | turn by the clock, slot | yes | yes | – | – |
///
/// A rollback is begun by the rollout that failed, and does not pass the gate. A rollout whose action waited
/// for something else needs a slot, and its turn, again, and so may the action of content that was good before
/// (`rollout/permit.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The content changed, or was on disk when podnudge started.
    Changed,
    /// A person triggered the rule.
    Triggered,
    /// The application has nothing to read yet.
    FirstFill,
    /// The content is the last good one, and is on disk again.
    KnownGood,
}

impl Cause {
    /// Whether jitter, minimum interval, holds and the restart budget apply.
    pub(super) fn is_subject_to_holds(self) -> bool {
        self == Self::Changed
    }

    /// Whether all volumes must exist. A trigger acts without one if the application reads the volumes itself.
    pub(super) fn needs_all_volumes(self, reads_volumes: bool) -> bool {
        self != Self::Triggered || !reads_volumes
    }

    /// Whether a slot is required, where replicas share slots.
    pub(super) fn needs_slot(self) -> bool {
        matches!(self, Self::Changed | Self::Triggered)
    }
}
