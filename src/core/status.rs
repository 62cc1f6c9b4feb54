//! Everything that podnudge shows of itself: `/status`, `/metrics`, `/livez`, `/readyz`,
//! `podnudge status` and the log of USR1 are all rendered from one [`Status`].

use serde::Serialize;

use super::fact::Fact;
use crate::clock::UnixTime;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// podnudge at one instant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// The version of podnudge.
    pub version: &'static str,
    /// When this status was taken.
    pub now: UnixTime,
    /// When podnudge started.
    pub started: UnixTime,
    /// Whether every rule has read its volumes at least once, and where podnudge publishes, the
    /// application has something to read.
    pub ready: bool,
    /// Why podnudge should be restarted, if it should.
    pub unhealthy: Option<Reason>,
    /// In the order of the configuration.
    pub rules: Vec<RuleStatus>,
}

/// One rule at one instant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleStatus {
    /// The rule's name.
    pub name: String,
    /// What the rule is doing.
    pub state: State,
    /// Why it is doing that, where it needs a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why the application has nothing to start with yet, if it has not: the volumes were not read,
    /// or nothing was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<Reason>,
    /// Whether the application is known to run what is on disk.
    pub in_sync: bool,
    /// How well the last delivery is known to have worked.
    pub delivery: Delivery,
    /// The digest on disk, as far as it was read.
    pub digest_on_disk: Option<Digest>,
    /// The digest that was verified last.
    pub digest_applied: Option<Digest>,
    /// The digest that the application reads, where podnudge publishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_published: Option<Digest>,
    /// When the newest volume on disk was committed.
    pub committed_at: Option<UnixTime>,
    /// When the last digest was applied.
    pub applied_at: Option<UnixTime>,
    /// When the first of the checked certificates on disk expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_expire_at: Option<UnixTime>,
    /// When the next action is due.
    pub next_action_at: Option<UnixTime>,
    /// The kinds of the rule's actions, such as `signal`, or `exec+http`.
    pub action: String,
    /// The rule's volumes.
    pub volumes: Vec<VolumeStatus>,
    /// What was counted since podnudge started.
    pub counters: Counters,
}

/// What a rule is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waiting for the first complete look at the volumes.
    Starting,
    /// A volume is not there.
    WaitingForVolume,
    /// Nothing to do.
    Idle,
    /// Waiting for quiet.
    Settling,
    /// Reading.
    Scanning,
    /// Checking whether what is on disk may be used.
    Checking,
    /// The checks refuse what is on disk.
    Rejected,
    /// Rolling back what does not work.
    RollingBack,
    /// What is on disk did not work, and the application runs what it ran before.
    RolledBack,
    /// Waiting for the jitter or the minimum interval to pass.
    Waiting,
    /// A pause, a closed window, a missing approval or an exhausted budget keeps the rule.
    Held,
    /// The target is not there yet.
    WaitingForTarget,
    /// Putting new content where the application reads.
    Publishing,
    /// Acting.
    Acting,
    /// Waiting for the proof.
    Verifying,
    /// Waiting before the next attempt.
    Backoff,
    /// Given up or refused.
    Failed,
    /// The target ended just after the action: no second shot.
    Tripped,
    /// podnudge is ending.
    Stopped,
}

/// How well the last delivery is known to have worked, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Nothing was delivered.
    None,
    /// The signal was delivered.
    Sent,
    /// The application answered that it accepts.
    Accepted,
    /// The application is known to run it.
    Applied,
}

/// One watched path at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeStatus {
    /// The path, with control characters escaped.
    pub path: String,
    /// Whether there is something at the path.
    pub present: bool,
    /// How it is watched: `inotify`, `polling`, or `starting` before it is.
    pub backend: &'static str,
    /// Why it is polled, or why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// What was counted since podnudge started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Generations of a volume that were read after the first.
    pub commits: u64,
    /// Looks that found the applied content.
    pub unchanged: u64,
    /// Changes that the target had read by itself, because it started after the commit.
    pub fresh: u64,
    /// Commits that the watch did not tell of and the resync found.
    pub missed_by_watch: u64,
    /// Looks that failed.
    pub read_errors: u64,
    /// Changes whose wait was cancelled because the content went back to what is applied.
    pub cancelled: u64,
    /// Checks that let new content pass.
    pub checks_passed: u64,
    /// Checks that refused it.
    pub checks_rejected: u64,
    /// Checks that could not be done.
    pub checks_failed: u64,
    /// Actions that were sent or accepted.
    pub actions_delivered: u64,
    /// Actions that failed.
    pub actions_failed: u64,
    /// Actions that were refused; each reason counts once, however often it is looked at again.
    pub actions_refused: u64,
    /// Actions whose target ended just after.
    pub actions_tripped: u64,
    /// Actions that were verified.
    pub actions_applied: u64,
    /// Restarts of the target.
    pub restarts: u64,
    /// Publications that were rolled back.
    pub rollbacks: u64,
    /// The time from the commit to the verified application.
    pub commit_to_applied: Histogram,
}

impl Counters {
    /// Counts what a fact says. The rest is counted where it happens.
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
    /// How many values there were at most as large as the bound of the same place, and above all
    /// bounds in the last place. Not cumulative.
    pub buckets: [u64; Histogram::BOUNDS_SECONDS.len() + 1],
    /// The sum of all values, in seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Upper bounds in seconds, from a bare reload to a slow resync with a long jitter.
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
