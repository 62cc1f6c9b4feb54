//! What a rollout does only with the permission of the other replicas: with a slot, or in its turn by the clock.

use crate::cause::Cause;

/// What a rollout does only with the permission of the other replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Nothing: the application has no content yet.
    Nothing,
    /// The action, if it interrupts an application that no action of the rule has interrupted: what is hurt must not
    /// wait to go back. The content was good before, and is published at once.
    Action,
    /// The publication and the action.
    All,
}

impl Limit {
    /// `goes_back`: to known good content, whatever the cause.
    pub(super) fn of(cause: Cause, goes_back: bool) -> Self {
        match cause {
            Cause::FirstFill => Self::Nothing,
            Cause::Changed | Cause::Triggered if !goes_back => Self::All,
            Cause::KnownGood | Cause::Changed | Cause::Triggered => Self::Action,
        }
    }
}
