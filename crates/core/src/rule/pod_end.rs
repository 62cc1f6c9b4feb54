//! The actions that end podnudge itself: a restart of the whole pod, and an eviction. The end may be refused at the last
//! moment; and where the state directory outlives the pod, the next one continues the rollout.

use std::collections::VecDeque;

use super::{BeforeEnd, Outcome, Rollout, Rule};
use crate::clock::Now;
use crate::command::Command;
use crate::event::Acted;
use crate::fact::Fact;
use crate::intake::OnDisk;
use crate::reason::Reason;
use crate::rollout::Input;

impl Rule {
    /// Ends podnudge, once no other rule is in the middle of an action. What the next podnudge has to know is
    /// saved first. Returns whether it does.
    pub(super) fn end_pod(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let Some(code) =
            self.policy.rollout.pod_exit_code.filter(|_| self.neighbours.acts.is_none())
        else {
            return false;
        };
        let waiting = self.rollout.as_ref().filter(|rollout| rollout.waits_to_end_pod());
        let Some(rollout) = waiting else { return false };
        let refused = if self.is_content_gone(rollout) {
            Some(Input::ContentGone)
        } else if rollout.has_lost_permit_to_end(&self.context(now, rollout)) {
            Some(Input::SlotLost)
        } else {
            None
        };
        if let Some(refused) = refused {
            self.progress(now, refused, out);
            return true;
        }
        self.before_end =
            Some(BeforeEnd { rate: self.application.rate().clone(), used: self.permit.used() });
        let (is_limited, before) = (self.needs_permit(rollout), self.act_before(rollout));
        let Some(rollout) = &mut self.rollout else { return false };
        let (began, digest) = (rollout.end_pod(now.mono), rollout.digest());
        self.application.rate_mut().ends_pod(now.mono, began, rollout, &self.policy);
        self.intake.source_mut().acted(now.mono);
        self.interrupted(digest, is_limited);
        self.report(Fact::EndingForPod(digest, code), out);
        self.remember(out);
        out.push_back(Command::EndPod(self.id, before));
        true
    }

    /// podnudge does not end, if this says so: what was counted for its end does not count.
    pub(super) fn take_back_end(&mut self, input: &Input) {
        if !matches!(input, Input::Acted(Acted::Refused(_))) {
            return;
        }
        let Some(before) = self.before_end.take() else { return };
        self.application.rate_mut().take_back(&before.rate);
        self.permit.restore_used(before.used);
    }

    /// What podnudge waits for before it ends, if it does.
    pub(super) fn delay_of_end(&self) -> Option<&Reason> {
        let waits = self.rollout.as_ref().is_some_and(Rollout::waits_to_end_pod);
        self.neighbours.acts.as_ref().filter(|_| waits)
    }

    /// Ends the rollout that another pod has begun, if this pod has started with other content.
    pub(super) fn end_rollout_of_other_pod(
        &mut self,
        now: Now,
        disk: OnDisk,
        out: &mut VecDeque<Command>,
    ) {
        let is_of_other =
            |rollout: &Rollout| rollout.is_in_new_pod() && rollout.digest() != disk.digest;
        if self.application.reads_volumes() && self.rollout.as_ref().is_some_and(is_of_other) {
            self.finish(now, Outcome::Superseded, out);
        }
    }
}
