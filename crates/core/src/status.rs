//! The complete state of podnudge. `/status`, `/metrics`, `/livez`, `/readyz`, `podnudge status`
//! and the log line for SIGUSR1 are all rendered from one [`Status`].

#[cfg(feature = "page")]
mod change;
mod confidential;

use serde::Serialize;

use super::evidence::{Evidence, InSync};
use super::fact::Fact;
use super::policy::Actions;
use super::preflight::Problem;
use crate::clock::UnixTime;
use crate::reason::Reason;
use crate::snapshot::Digest;
#[cfg(feature = "page")]
pub use change::{Change, ChangedKeys, Outcome, Step, StepName};

/// The state of podnudge at one instant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// The version of podnudge.
    pub version: &'static str,
    /// podnudge's own pod. The loop sets it.
    #[cfg(feature = "page")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodStatus>,
    /// When this status was taken.
    pub now: UnixTime,
    /// When podnudge started.
    pub started: UnixTime,
    /// Whether every rule has read its volumes at least once, and where podnudge publishes, the
    /// application has something to read.
    pub ready: bool,
    /// Whether the pod is to get requests of its Services: no rule drains it.
    pub serving: bool,
    /// Why podnudge should be restarted, if so.
    pub unhealthy: Option<Reason>,
    /// In the order of the configuration.
    pub rules: Vec<RuleStatus>,
    /// How many lines of the log were dropped because nothing has read standard error.
    pub log_lines_dropped: u64,
    /// How edits of the objects behind the volumes are followed, if they are. The loop sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eager_sync: Option<EagerSyncStatus>,
    /// The reloads as prometheus-config-reloader counts them, if its metrics are asked for. The loop sets it.
    #[serde(skip)]
    pub reloads: Option<Reloads>,
}

/// podnudge's own pod, as far as the environment tells.
#[cfg(feature = "page")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodStatus {
    /// The pod's name, or else the host name.
    pub name: String,
    /// The pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Reloads as prometheus-config-reloader counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloads {
    /// Attempts that were made.
    pub attempts: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Whether the last attempt that has ended failed.
    pub has_failed: bool,
    /// Whether the outcome of an attempt is not known yet.
    pub is_open: bool,
}

impl Reloads {
    /// Counts a failure.
    pub fn fail(&mut self) {
        self.failed += 1;
        self.has_failed = true;
    }

    /// An attempt without an outcome has failed: nothing verifies it any more.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.fail();
        }
    }
}

/// How podnudge follows the ConfigMaps and Secrets behind the volumes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EagerSyncStatus {
    /// The objects behind the volumes.
    pub objects: Vec<ObjectStatus>,
    /// Why the objects are not known, or the kubelet is not asked to sync the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How often the kubelet was asked.
    pub syncs_requested: u64,
    /// The time from an edit to the commit of the volume.
    pub edit_to_commit: Histogram,
}

/// An object behind the volumes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObjectStatus {
    /// The object's kind and name: `configmap/app`.
    pub name: String,
    /// Whether an edit would be seen at once.
    pub watched: bool,
    /// When it was edited last, since podnudge started.
    pub edited_at: Option<UnixTime>,
    /// How long after an edit the volume was committed, the last time.
    pub edit_to_commit_seconds: Option<f64>,
    /// Why it is not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// The state of one rule at one instant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleStatus {
    /// The rule's name.
    pub name: String,
    /// The current state of the rule.
    pub state: State,
    /// The reason for this state, if it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why the application has nothing to start with yet, if so: the volumes were not read, or
    /// nothing was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<Reason>,
    /// Whether the application runs the content on disk.
    pub in_sync: InSync,
    /// How podnudge knows that; `none` unless the application is believed to run it.
    pub evidence: Evidence,
    /// The digest on disk, if it was read.
    pub digest_on_disk: Option<Digest>,
    /// The last digest with evidence that the application ran it.
    pub digest_applied: Option<Digest>,
    /// The digest that the application runs, as far as podnudge knows; `None` while that is unknown.
    pub digest_running: Option<Digest>,
    /// The digest that the application reads, where podnudge publishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_published: Option<Digest>,
    /// Whether the metrics may show these digests as labels. The loop sets it.
    #[serde(skip)]
    pub shows_digests: bool,
    /// When the newest volume on disk was committed.
    pub committed_at: Option<UnixTime>,
    /// When that evidence was found.
    pub applied_at: Option<UnixTime>,
    /// When new content was last applied, or delivered without a proof.
    pub succeeded_at: Option<UnixTime>,
    /// When the first of the checked certificates on disk expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_expire_at: Option<UnixTime>,
    /// When the next action is due.
    pub next_action_at: Option<UnixTime>,
    /// Until when a person has paused the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<UnixTime>,
    /// The slot of the rule, where replicas share slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotStatus>,
    /// When the kubelet is expected to start the target's container, which has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_expected_at: Option<UnixTime>,
    /// How long the kubelet is expected to wait until it starts that container, if it ended now; `None` if
    /// it would not wait, or if podnudge has not seen it end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_delay_seconds: Option<u64>,
    /// The rule's actions, such as `signal`, or `signal (preset nginx)`.
    pub action: Actions,
    /// The kinds of the configured proofs, such as `children-newer`, or `none`.
    pub proof: String,
    /// The target processes that were found last and still run, at most [`RuleStatus::MOST_TARGETS`].
    /// The loop sets them.
    pub targets: Vec<TargetStatus>,
    /// What would prevent the rule's actions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preflight: Vec<Problem>,
    /// The rule's volumes.
    pub volumes: Vec<VolumeStatus>,
    /// What became of the recent changes, the newest first. The loop sets them.
    #[cfg(feature = "page")]
    pub changes: Vec<Change>,
    /// Counters since podnudge started.
    pub counters: Counters,
}

impl RuleStatus {
    /// The most target processes that are listed.
    pub const MOST_TARGETS: usize = 8;
}

/// The slot of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlotStatus {
    /// The name of the Lease that the rule holds.
    pub held: Option<String>,
    /// Why it waits for one, or keeps it after an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A target process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetStatus {
    /// The process id, as podnudge sees it.
    pub pid: i32,
    /// The name that the kernel reports, with control characters escaped.
    pub name: String,
}

/// What to do if nothing exists at a watched path.
pub const MOUNT_HINT: &str =
    "mount the volume in podnudge's container, too, at this path; or correct the path";

/// The state of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waiting for the first complete scan.
    Starting,
    /// A volume is missing.
    WaitingForVolume,
    /// Nothing to do.
    Idle,
    /// Waiting for quiet.
    Settling,
    /// Scanning the volumes.
    Scanning,
    /// Waiting for the checks of the content on disk.
    Checking,
    /// The checks rejected the content on disk.
    Rejected,
    /// Rolling back content that failed.
    RollingBack,
    /// The content on disk failed, and the application runs the last good content.
    RolledBack,
    /// Waiting for the jitter or the minimum interval to pass.
    Waiting,
    /// A pause, a closed window, a missing approval or an exhausted budget delays the rule.
    Held,
    /// The target does not exist yet.
    WaitingForTarget,
    /// Publishing new content.
    Publishing,
    /// `/serving` answers 503, and the action follows when the pod has left its Services.
    Draining,
    /// Running the actions.
    Acting,
    /// Waiting for the proof.
    Verifying,
    /// Waiting before the next attempt.
    Backoff,
    /// podnudge must not act, or the target has been absent for long. It tries again by itself.
    Refused,
    /// The last attempt failed, or the target keeps ending: a person is needed.
    Failed,
    /// The target ended just after the action: podnudge does not act again.
    Tripped,
    /// podnudge is stopping.
    Stopped,
}

/// The state of one watched path at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeStatus {
    /// The path, with control characters escaped.
    pub path: String,
    /// Whether the path exists.
    pub present: bool,
    /// When its content on disk was committed, if it was read.
    pub committed_at: Option<UnixTime>,
    /// How it is watched: `inotify`, `polling`, or `starting` before it is.
    pub backend: &'static str,
    /// Why it is polled, or why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Counters since podnudge started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Generations of a volume that were read after the first one.
    pub commits: u64,
    /// Scans that found the applied content.
    pub unchanged: u64,
    /// Changes that the target had already read because it started after the commit.
    pub fresh: u64,
    /// Commits that the watch missed and the resync found.
    pub missed_by_watch: u64,
    /// Failed scans.
    pub read_errors: u64,
    /// Changes whose wait was cancelled because the content went back to what is applied.
    pub cancelled: u64,
    /// Checks that passed new content.
    pub checks_passed: u64,
    /// Checks that rejected new content.
    pub checks_rejected: u64,
    /// Checks that failed to run.
    pub checks_failed: u64,
    /// Actions that were sent or accepted.
    pub actions_delivered: u64,
    /// Attempts that failed, and that another one followed.
    pub actions_retried: u64,
    /// Last attempts that failed: the content was given up, or rolled back.
    pub actions_failed: u64,
    /// Actions that were refused; repeated refusals for the same reason count once.
    pub actions_refused: u64,
    /// Actions whose target ended just afterwards.
    pub actions_tripped: u64,
    /// Actions after which there was evidence that the application runs the content.
    pub actions_applied: u64,
    /// Restarts of the target.
    pub restarts: u64,
    /// Publications that were rolled back.
    pub rollbacks: u64,
    /// The time from the commit to the evidence.
    pub commit_to_applied: Histogram,
}

impl Counters {
    /// Counts a fact. The other counters are incremented where the event happens.
    pub(super) fn count(&mut self, fact: &Fact) {
        let counter = match fact {
            Fact::Unchanged(_) => &mut self.unchanged,
            Fact::Fresh(..) => &mut self.fresh,
            Fact::Cancelled(_) => &mut self.cancelled,
            Fact::Passed(_) => &mut self.checks_passed,
            Fact::Rejected(..) => &mut self.checks_rejected,
            Fact::CheckFailed(..) => &mut self.checks_failed,
            _ => return,
        };
        *counter += 1;
    }
}

/// A histogram with fixed bounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// The number of values up to and including each bound, without the lower buckets; the last
    /// bucket counts the values above all bounds.
    pub buckets: [u64; Histogram::BOUNDS_SECONDS.len() + 1],
    /// The sum of all values, in seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Upper bounds in seconds, from a plain reload to a slow resync with a long jitter.
    pub const BOUNDS_SECONDS: [f64; 12] =
        [0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];

    /// Counts one value, in seconds.
    pub fn observe(&mut self, seconds: f64) {
        let place = Self::BOUNDS_SECONDS.iter().take_while(|bound| seconds > **bound).count();
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket += 1;
        }
        self.sum_seconds += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_up_to_and_including_its_bound() {
        let mut histogram = Histogram::default();
        for seconds in [0.0, 0.01, 0.011, 900.0, 900.1] {
            histogram.observe(seconds);
        }
        assert_eq!(histogram.buckets[..2], [2, 1]);
        assert_eq!(histogram.buckets[11..], [1, 1]);
        assert!((histogram.sum_seconds - 1800.121).abs() < 1e-9);
    }
}
