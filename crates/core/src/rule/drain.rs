//! Taking the pod out of its Services for an action of the rule, and looking whether podnudge's own pod is as it
//! is needed.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::event::{ApiServer, PodLook};
use crate::fact::Fact;
use crate::permit::Looked;
use crate::rollout::Input;

impl Rule {
    /// Whether the pod is to get no requests, because of an action of this rule.
    pub(crate) fn is_drained(&self) -> bool {
        self.permit.is_out() && !self.is_stopped()
    }

    /// Ends the drain if no action is near, whatever became of the rollout. An earlier podnudge may have acted:
    /// the first scan tells whether this one continues.
    pub(super) fn settle_drain(&mut self, now: Moment) {
        let is_near = |rollout: &Rollout| {
            (rollout.keeps_pod_out() && !self.may_others_act(rollout))
                || (rollout.is_resumed() && self.awaits_first_scan())
        };
        if !self.rollout.as_ref().is_some_and(is_near) {
            self.permit.end_drain(now, &self.policy.permit);
        }
    }

    /// Ends the drain of a rollout that has lost its slot, or whose content cannot be rolled out now. Returns whether it
    /// did.
    pub(super) fn end_drain_in_vain(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        self.end_drain_without_slot(now, out) || self.end_drain_without_content(now, out)
    }

    /// Ends the drain of a rollout that has lost its slot. Returns whether it did.
    fn end_drain_without_slot(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let has_lost = |rollout: &Rollout| {
            rollout.is_draining()
                && self.needs_permit(rollout)
                && self.answer_for_rollout(now, rollout).withholds_slot()
        };
        let has_lost = self.rollout.as_ref().is_some_and(has_lost);
        if has_lost {
            self.progress(now, Input::SlotLost, out);
        }
        has_lost
    }

    /// Ends the drain of a rollout whose content cannot be rolled out now: it was replaced by content that is not
    /// rolled out yet, or its checks are not over in time. Returns whether it did.
    fn end_drain_without_content(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let is_on = self.permit.is_out();
        let drains =
            |rollout: &&Rollout| rollout.is_draining() || (is_on && rollout.keeps_pod_out());
        let waiting = self.rollout.as_ref().filter(|rollout| rollout.is_waiting());
        let Some(rollout) = waiting.filter(drains) else { return false };
        if self.has_content(now.mono, rollout) {
            return false;
        }
        let is_gone = self.is_content_gone(rollout);
        let may_follow = rollout.is_draining() && self.intake.checks().in_progress();
        let is_late = rollout.is_draining() && rollout.is_due(now.mono);
        let has_ended = is_late || (is_gone && !may_follow);
        if has_ended {
            self.progress(now, Input::ContentGone, out);
        }
        has_ended
    }

    /// Begins the looks at the pod that are due.
    pub(super) fn look_at_pod(&mut self, now: Moment, out: &mut VecDeque<Command>) {
        for (number, is) in self.permit.take_looks(now) {
            out.push_back(Command::LookAtPod(self.id, number, is));
        }
    }

    /// A request has found the API server so.
    pub(crate) fn api_server_seen(&mut self, now: Moment, server: ApiServer) {
        self.permit.api_server_seen(now, server);
    }

    /// Takes the answer to the look with this number.
    pub(crate) fn pod_looked(
        &mut self,
        now: Now,
        number: u32,
        look: PodLook,
        out: &mut VecDeque<Command>,
    ) {
        let answer = (number, look);
        let share = self.replica.number();
        match self.permit.looked(now.mono, answer, share, &self.policy.permit) {
            Looked::Left(left) => self.progress(now, Input::Left(left), out),
            Looked::Unknown(reason) => self.report(Fact::ReadinessUnknown(reason), out),
            Looked::Nothing => {}
        }
    }
}
