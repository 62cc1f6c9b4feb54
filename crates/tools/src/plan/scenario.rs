//! What is simulated: a rule, its replicas, and how the cluster and the application behave.

use std::time::Duration;

use crate::plan_options::Restarts;
use podnudge_core::Policy;

/// A rule on several replicas, and changes of its content.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The rule. Its volumes are numbered from 0.
    pub policy: Policy,
    /// The Leases that the replicas share. Only used if `policy.permit.slot` is set.
    pub slots: Option<Slots>,
    /// How many replicas there are.
    pub replicas: u32,
    /// How long an action that is no restart interrupts the application.
    pub downtime: Duration,
    /// The time from the start of the application to its readiness.
    pub start_time: Duration,
    /// The kubelet's `syncFrequency`. Zero: all kubelets synchronize their pods at once, as when these are
    /// annotated.
    pub sync_period: Duration,
    /// How long the endpoints of a Service take to follow the readiness of a pod.
    pub endpoint_delay: Duration,
    /// What starts an application again that podnudge has ended.
    pub restarts: Restarts,
    /// With fewer replicas up than this, there is an outage.
    pub min_available: u32,
    /// The number of changes of the content.
    pub changes: u32,
    /// The time between two changes.
    pub every: Duration,
    /// The number of simulated rollouts.
    pub runs: u32,
    /// The seed of all random numbers: the same seed gives the same figures.
    pub seed: u64,
}

/// The Leases that the replicas share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// How many replicas may act at the same time.
    pub count: u32,
    /// How long a slot stays taken without being renewed.
    pub duration: Duration,
    /// How long it does while an action may have interrupted the application.
    pub cover: Duration,
}

impl Scenario {
    /// The most replicas that may be down at once without an outage.
    #[must_use]
    pub fn spare(&self) -> u32 {
        self.replicas.saturating_sub(self.min_available)
    }

    /// The duration of one interruption without a back-off.
    #[must_use]
    pub fn interruption(&self) -> Duration {
        if self.policy.rollout.is_restart { self.start_time } else { self.downtime }
    }
}
