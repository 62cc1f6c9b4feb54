//! How near the next action of a rollout is. What follows from it for the pod's place in its Services, for the slot,
//! and for the content is here in one place:
//!
//! | step | the pod stays out | the slot | ends without its content |
//! | --- | --- | --- | --- |
//! | publishing, acting, ending the pod, verifying | yes | kept | no |
//! | waits for the pod to leave its Services | yes | kept | yes |
//! | waits for the target, which its action has not found | yes | kept | if the pod is out |
//! | waits for the target, which was not found otherwise | yes, if it has no slot to give back | given back | if the pod is out |
//! | waits for a restart, or for the end of its pod | no | kept | no |
//! | waits for a slot or its turn | no | asked for | no |
//! | waits to begin, without need of a slot | no | kept | no |
//! | waits for a retry, a refusal, a budget; or to begin; or the target ended | no | given back | no |
//!
//! Besides, the slot is kept as long as the pod is out of its Services, and until it has recovered
//! (`permit/used.rs`).

use super::missing::FoundBy;
use super::{Rollout, Step, WaitFor};
use crate::permit::Nearness;

impl Rollout {
    /// Whether the pod stays out of its Services, if it is.
    pub(crate) fn keeps_pod_out(&self) -> bool {
        match self.step {
            Step::Waiting { what, .. } => {
                matches!(what, WaitFor::Drain | WaitFor::Services | WaitFor::Target)
            }
            _ => self.is_busy(),
        }
    }

    /// Whether it waits for an absent target, a retry, a restart or a slot.
    pub(crate) fn is_retrying(&self) -> bool {
        matches!(
            self.step,
            Step::Waiting {
                what: WaitFor::Target | WaitFor::Retry | WaitFor::Restart | WaitFor::Slot,
                ..
            }
        )
    }

    /// Whether it waits for the pod to leave its Services.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.step, Step::Waiting { what: WaitFor::Drain | WaitFor::Services, .. })
    }

    /// How near its next action is, as far as slots are concerned. `needs_permission`: of the other replicas.
    pub(crate) fn nearness(&self, needs_permission: bool) -> Nearness {
        let is_near = match self.step {
            Step::Waiting { what, .. } => match what {
                WaitFor::Slot if needs_permission => return Nearness::Next,
                WaitFor::Slot
                | WaitFor::Drain
                | WaitFor::Services
                | WaitFor::Restart
                | WaitFor::Deletion => true,
                // It is prepared first, if it needs a slot.
                WaitFor::Start => !needs_permission,
                // The next poll only prepares the action: whether the target is there.
                WaitFor::Target => needs_permission && self.is_found_absent_by_action(),
                // The others may have to act until a disruption budget allows it.
                WaitFor::Disruption
                | WaitFor::Eviction
                | WaitFor::Refusal
                | WaitFor::Retry
                | WaitFor::Budget => false,
            },
            _ => self.is_busy(),
        };
        if is_near { Nearness::Near } else { Nearness::Far }
    }

    /// Whether the target was found absent by an action, and not by its preparation since.
    pub(super) fn is_found_absent_by_action(&self) -> bool {
        self.absent.is_some_and(|absent| absent.found_by == FoundBy::Action)
    }

    /// Whether it waits for something that may never come: a permission from outside of podnudge, a process that reads
    /// its content, or (`is_blocked`) that content or its checks.
    pub(crate) fn may_wait_forever(&self, is_blocked: bool) -> bool {
        let what = match self.step {
            Step::Waiting { what, .. } => what,
            Step::Tripped { .. } => return true,
            _ => return false,
        };
        match what {
            WaitFor::Refusal | WaitFor::Disruption => true,
            WaitFor::Drain | WaitFor::Services | WaitFor::Deletion | WaitFor::Eviction => false,
            WaitFor::Start
            | WaitFor::Target
            | WaitFor::Retry
            | WaitFor::Restart
            | WaitFor::Budget
            | WaitFor::Slot => is_blocked,
        }
    }

    /// Whether an earlier podnudge began it, and this one has not continued it.
    pub(crate) fn is_resumed(&self) -> bool {
        matches!(self.step, Step::Waiting { what: WaitFor::Start, .. })
    }
}
