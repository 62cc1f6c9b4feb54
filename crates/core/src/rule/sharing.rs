//! What rules need to know of each other: which may act on the same process, and whose content it may have
//! read. `neighbours.rs` says what follows from it.

use super::{Rollout, Rule};
use crate::clock::Moment;

impl Rule {
    /// Whether both rules may have the same target process: judged by the configured names, and
    /// once both were found, also by the process names.
    pub(crate) fn may_share_target(&self, other: &Self) -> bool {
        self.policy.target.may_match(&other.policy.target)
            && self.application.may_be(&other.application)
    }

    /// Since when the application could read the rollout's content, while it is unproven. If the
    /// content was verified before, it is not the cause when the application ends.
    pub(crate) fn exposed_at(&self) -> Option<Moment> {
        let rollout = self.rollout.as_ref().filter(|rollout| rollout.failed_digest().is_none())?;
        let digest = rollout.digest();
        let can_read =
            !self.application.needs_publish(digest) && !self.application.is_known_good(digest);
        self.application
            .exposed_at()
            .filter(|_| can_read && (rollout.is_busy() || !self.application.reads_volumes()))
    }

    /// Since when the application could read this rule's unproven content, which may also be on trial.
    pub(crate) fn own_exposed_at(&self) -> Option<Moment> {
        self.application.exposed_on_trial().or(self.exposed_at())
    }

    /// Whether the application can read unproven content between two attempts.
    pub(crate) fn is_unproven(&self) -> bool {
        let is_retrying = self.rollout.as_ref().is_some_and(Rollout::is_retrying);
        is_retrying && !self.application.reads_volumes() && self.exposed_at().is_some()
    }
}
