//! The end of podnudge for a rollout that restarts the whole pod.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::clock::Now;
use crate::core::command::Command;
use crate::core::fact::Fact;
use crate::core::rollout::Input;

impl Rule {
    /// Whether podnudge is to end for this rule: the others begin nothing.
    pub(in crate::core) fn ends_pod(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::ends_pod)
    }

    /// Ends podnudge, once no other rule is in the middle of an action. What the next podnudge has to know is
    /// saved first. Returns whether it does.
    pub(super) fn end_pod(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let Some(code) = self.policy.pod_exit_code.filter(|_| !self.neighbours.acts) else {
            return false;
        };
        let waiting = self.rollout.as_ref().filter(|rollout| rollout.waits_to_end_pod());
        let Some(rollout) = waiting else { return false };
        if rollout.is_limited(&self.context(now, rollout)) {
            self.progress(now, Input::SlotLost, out);
            return true;
        }
        let Some(rollout) = &mut self.rollout else { return false };
        let (began, digest) = (rollout.end_pod(), rollout.digest());
        let has_begun = |at| began.is_some_and(|began| at >= began);
        if !rollout.is_after_restart() && !self.budget.restarts().any(has_begun) {
            self.budget.restarted(now.mono, self.policy.restarts);
        }
        self.last_action = Some(now.mono);
        self.slot.acted(digest);
        self.counters.restarts += 1;
        self.report(Fact::EndingForPod(digest, code), out);
        self.remember(out);
        out.push_back(Command::EndPod(self.id));
        true
    }
}
