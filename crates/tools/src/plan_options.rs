//! The options of `podnudge plan`. Pure.

use std::path::PathBuf;
use std::time::Duration;

/// The options of `podnudge plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The rule, by its name; `None` for the only one.
    pub rule: Option<String>,
    /// How many replicas there are.
    pub replicas: u32,
    /// How long an action that is no restart interrupts the application.
    pub downtime: Duration,
    /// The time from the start of the application to its readiness.
    pub start_time: Duration,
    /// The kubelet's `syncFrequency`, or zero.
    pub sync_period: Duration,
    /// How long the endpoints of a Service take to follow the readiness of a pod.
    pub endpoint_delay: Duration,
    /// What starts the application again.
    pub restarts: Restarts,
    /// With fewer replicas up than this, there is an outage; `None` for what is usual with so many.
    pub min_available: Option<u32>,
    /// The number of changes of the content.
    pub changes: u32,
    /// The time between two changes.
    pub every: Duration,
    /// The number of runs; `None` for one that takes seconds.
    pub runs: Option<u32>,
    /// The seed of the runs.
    pub seed: u64,
    /// Where to write a drawing.
    pub svg: Option<PathBuf>,
    /// Print JSON instead of text.
    pub json: bool,
}

/// What starts an application again that podnudge has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restarts {
    /// The kubelet, with its back-off.
    Kubelet,
    /// `podnudge supervise`, at once.
    Supervised,
}
