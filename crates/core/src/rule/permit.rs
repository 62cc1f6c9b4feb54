//! What the rule asks its permit: whether content may be rolled out, and whether a rollout may act.

use super::{Rollout, Rule};
use crate::cause::Cause;
use crate::clock::{Moment, Now};
use crate::memory::SavedSlot;
use crate::permit::{Answer, Ask, End, Nearness};
use crate::reason::Reason;
use crate::snapshot::Digest;

impl Rule {
    /// Whether the rule may roll out this content, as far as the other replicas are concerned.
    pub(super) fn answer_for_candidate(
        &self,
        now: Now,
        cause: Cause,
        digest: Digest,
    ) -> Answer<'_> {
        let needs_slot = cause.needs_slot() && !self.goes_back(cause, digest);
        self.ask(now, if needs_slot { Ask::Act(digest) } else { Ask::Nothing })
    }

    /// Whether this rollout may act, as far as the other replicas are concerned.
    pub(super) fn answer_for_rollout(&self, now: Now, rollout: &Rollout) -> Answer<'_> {
        let digest = rollout.digest();
        let is_known_good = rollout.is_known_good();
        self.ask(now, if is_known_good { Ask::Recover(digest) } else { Ask::Act(digest) })
    }

    fn ask(&self, now: Now, ask: Ask) -> Answer<'_> {
        self.permit.ask(ask, now, &self.replica, &self.policy.permit)
    }

    /// When the action of this rollout must have begun, if it needs a slot.
    pub(super) fn act_before(&self, rollout: &Rollout) -> Option<Moment> {
        self.permit.act_before().filter(|_| self.needs_permit(rollout))
    }

    /// Whether this rollout waits for a slot, and nothing is known that would end that.
    pub(super) fn is_delayed_by_slot(&self, now: Now, rollout: &Rollout) -> bool {
        rollout.is_waiting_for_slot()
            && matches!(self.answer_for_rollout(now, rollout), Answer::Wait(_))
    }

    /// Why the rollout waits for a slot, if it does.
    pub(super) fn slot_reason(&self, now: Now) -> Option<&Reason> {
        let rollout = self.rollout.as_ref()?;
        self.permit.reason().filter(|_| self.is_delayed_by_slot(now, rollout))
    }

    /// What to save of the slot. An action that is being sent may have interrupted the application.
    pub(super) fn saved_slot(&self) -> Option<SavedSlot> {
        let sent = self.rollout.as_ref().filter(|rollout| rollout.is_sending());
        let sent = sent.map(|rollout| (rollout.digest(), self.needs_permit(rollout)));
        self.permit.saved(sent, &self.policy.permit)
    }

    /// Whether the action of this rollout needs the permission of the other replicas.
    pub(super) fn needs_permit(&self, rollout: &Rollout) -> bool {
        rollout.needs_permit(self.may_go_back())
    }

    /// Whether an action with known good content needs no permission of the other replicas.
    pub(super) fn may_go_back(&self) -> bool {
        !self.policy.may_interrupt() || self.permit.acted_with().is_some()
    }

    /// Whether content leads back from an action, which needs no permission of the other replicas. A person may trigger
    /// that.
    pub(super) fn goes_back(&self, cause: Cause, digest: Digest) -> bool {
        cause.needs_slot()
            && self.application.is_known_good(digest)
            && self.application.running() != Some(digest)
            && self.permit.acted_with().is_some()
    }

    /// An action for this content may have interrupted the application. `is_limited`: it needed the permission of the
    /// other replicas.
    pub(super) fn interrupted(&mut self, content: Digest, is_limited: bool) {
        self.permit.interrupted(content, is_limited, &self.policy.permit);
    }

    /// The rollout that may have interrupted the application has ended, or does not go on.
    pub(super) fn end_use_of_slot(&mut self, now: Moment, end: End) {
        self.permit.end_use(now, end, &self.policy.permit);
    }

    /// Whether the slot is for the others while this rollout goes on: then a pod that was drained goes back.
    pub(super) fn may_others_act(&self, rollout: &Rollout) -> bool {
        self.policy.permit.slot.is_some()
            && self.permit.interrupted_by().is_none()
            && rollout.nearness(self.needs_permit(rollout)) == Nearness::Far
    }
}
