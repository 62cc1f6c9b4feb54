//! A rule that evicts its pod, where the state directory outlives the pod: the application of the new pod has read
//! at its start what the eviction was for.

use std::collections::VecDeque;

use super::{Outcome, Rollout, Rule};
use crate::clock::Now;
use crate::command::Command;
use crate::intake::OnDisk;
use crate::memory::Known;

impl Rule {
    /// What to save of what the application runs, after this was found: the new pod may have read something else
    /// than what is verified, and only the first podnudge of the pod can assume that it has not.
    pub(super) fn known_in_pod(&self, now: Now, known: Known) -> Known {
        let is_in_new_pod = self.rollout.as_ref().is_some_and(Rollout::is_in_new_pod);
        if is_in_new_pod && known == Known::default() {
            return Known { at: now.wall, ..known };
        }
        known
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
        if self.application.tracker().reads_volumes()
            && self.rollout.as_ref().is_some_and(is_of_other)
        {
            self.finish(now, Outcome::Superseded, out);
        }
    }
}
