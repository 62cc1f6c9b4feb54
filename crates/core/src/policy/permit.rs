//! The part of a rule's configuration that its permit needs.

use std::time::Duration;

/// What a rule needs of the other replicas and of its Services to act.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PermitPolicy {
    /// How the slots of the replicas are used, if there are any.
    pub slot: Option<SlotPolicy>,
    /// The rule's turn by the clock, if replicas take turns so.
    pub turns: Option<Turns>,
    /// How the pod leaves its Services before an action.
    pub drain: Option<DrainPolicy>,
}

impl PermitPolicy {
    /// Whether the replicas act one after the other.
    pub(crate) fn shares_actions(&self) -> bool {
        self.slot.is_some() || self.turns.is_some()
    }

    /// How the pod leaves its Services before an action; `None` if it stays in.
    pub(crate) fn drain_before(&self, is_restart: bool) -> Option<&DrainPolicy> {
        let precedes = |drain: &&DrainPolicy| is_restart || drain.before == DrainBefore::Action;
        self.drain.as_ref().filter(precedes)
    }

    /// Whether podnudge looks whether the Services have the pod.
    pub(crate) fn looks_at_services(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| !drain.services.is_empty())
    }
}

/// How the pod leaves its Services before an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainPolicy {
    /// How long the pod is out of its Services before the action begins.
    pub wait: Duration,
    /// Which actions it precedes.
    pub before: DrainBefore,
    /// The Services of the pod, if they are looked at.
    pub services: Vec<String>,
    /// The longest wait for these Services to let the pod go.
    pub timeout: Duration,
}

/// Which actions a drain precedes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainBefore {
    /// Restarts of the target.
    Restart,
    /// Every action of the rule.
    Action,
}

/// How the slots of the replicas are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPolicy {
    /// Whether to act without one if it cannot be found out who holds them.
    pub acts_when_unreachable: bool,
    /// Whether a slot is kept after an action until the pod is Ready again.
    pub awaits_readiness: bool,
    /// How long the Services may miss the pod after it is Ready.
    pub patience: Duration,
    /// How long the pod must stay healthy after that.
    pub bake: Duration,
}

/// How long a pod may take to come back into its Services, at least: its probes and its endpoints follow.
const RETURN: Duration = Duration::from_mins(1);

impl SlotPolicy {
    /// How long the slot of a pod that was drained for nothing is kept at most until the pod serves again.
    pub(crate) fn returns_within(self) -> Duration {
        self.patience.max(RETURN)
    }
}

/// Turns by the wall clock: replica `n` begins only in its part of each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// The length of a turn.
    pub every: Duration,
    /// The number of turns in a period.
    pub of: u32,
}
