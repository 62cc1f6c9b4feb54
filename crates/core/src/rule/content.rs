//! Whether a rollout can go on with what is on disk.

use super::{Rollout, Rule};
use crate::clock::{Moment, Now};
use crate::intake::Verdict;

impl Rule {
    /// Whether the rollout may make an attempt: only if no other rule acts on the same target, and
    /// where the application reads the volumes, only if the rollout's content is on disk.
    pub(super) fn may_continue(&self, now: Now) -> bool {
        let Some(rollout) = self.rollout.as_ref().filter(|rollout| rollout.is_waiting()) else {
            return true;
        };
        self.neighbours.busy.is_none()
            && !self.is_delayed_by_slot(now, rollout)
            && self.has_content(now.mono, rollout)
    }

    /// Whether an action would make the application read the rollout's content.
    pub(super) fn has_content(&self, now: Moment, rollout: &Rollout) -> bool {
        let is_on_disk = || {
            self.intake.source().digest() == Some(rollout.digest())
                && !self.intake.source().is_update_pending(now)
                && !self.intake.source().is_missing_a_volume()
                && self.application.is_resolved()
                && self.intake.checks().verdict(rollout.digest()) == Verdict::Passed
        };
        !self.application.reads_volumes() || is_on_disk()
    }

    /// Whether the rollout cannot go on before something is committed: its content is not on disk, or is rejected.
    pub(super) fn is_content_gone(&self, rollout: &Rollout) -> bool {
        self.application.reads_volumes()
            && (self.intake.source().digest() != Some(rollout.digest())
                || self.intake.source().is_missing_a_volume()
                || matches!(self.intake.checks().verdict(rollout.digest()), Verdict::Rejected(_)))
    }

    /// Whether the first scan is still to tell what is on disk. One that has found a volume missing or unreadable may
    /// be the last one for long.
    pub(super) fn awaits_first_scan(&self) -> bool {
        !self.application.has_scanned()
            && !self.intake.source().is_missing_a_volume()
            && self.intake.source().unreadable().is_none()
    }

    /// Whether something is to be done when the rollout's wait is over: it continues, or its drain ends.
    pub(super) fn wakes(&self, now: Now, rollout: &Rollout) -> bool {
        let ends_drain = || rollout.is_draining() && !self.has_content(now.mono, rollout);
        self.may_continue(now) || ends_drain()
    }

    /// Whether the rollout may not go on for long, for want of its content, or of checks that cannot be made.
    pub(super) fn is_blocked(&self, rollout: &Rollout) -> bool {
        let verdict = self.intake.checks().verdict(rollout.digest());
        let cannot_check =
            self.application.reads_volumes() && matches!(verdict, Verdict::Pending(Some(_)));
        self.is_content_gone(rollout) || cannot_check
    }
}
