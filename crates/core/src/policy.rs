//! The part of a rule's configuration that decisions need: times and choices, but no paths to open
//! and no addresses.

mod permit;

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::backoff::Retry;
use super::budget::RestartBudget;
use super::ids::VolumeId;
use super::jitter::Jitter;
use crate::week::Window;
pub use permit::{DrainBefore, DrainPolicy, PermitPolicy, SlotPolicy, Turns};

/// The settings of a rule that decisions depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The rule's name.
    pub name: String,
    /// The actions of the rule.
    pub action: Actions,
    /// The kinds of its proofs, such as `children-newer`, or `none`.
    pub proof_kinds: String,
    /// How its target is identified.
    pub target: TargetName,
    /// When content is ready to be rolled out.
    pub intake: IntakePolicy,
    /// When a rollout may begin.
    pub gate: GatePolicy,
    /// What the application reads, and how often it may be restarted.
    pub application: ApplicationPolicy,
    /// How content is brought to the application.
    pub rollout: RolloutPolicy,
    /// What it needs of the other replicas and of its Services to act.
    pub permit: PermitPolicy,
}

/// When content is ready to be rolled out.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of the configuration")]
pub struct IntakePolicy {
    /// The watched paths, in the order of the configuration.
    pub volumes: Vec<PolicyVolume>,
    /// How long a volume must be quiet before it is scanned.
    pub settle: Duration,
    /// The longest wait for quiet.
    pub settle_max: Duration,
    /// Whether that holds for commits of the kubelet, too, which are whole at once: because it is configured.
    pub settles_commits: bool,
    /// Whether content must pass checks before it is used.
    pub has_checks: bool,
    /// Whether a person approves content before it is checked.
    pub needs_approval_to_check: bool,
    /// Whether a check knows when certificates expire.
    pub has_certificates: bool,
    /// Whether some keys do not count.
    pub has_key_filter: bool,
    /// Whether an action needs the list of changed keys.
    pub needs_changed_keys: bool,
}

/// When a rollout may begin.
#[derive(Debug, Clone, PartialEq)]
pub struct GatePolicy {
    /// The configured holds.
    pub hold: Hold,
    /// How replicas are spread.
    pub jitter: Jitter,
    /// The minimum time between two actions.
    pub min_interval: Duration,
    /// Whether that is configured. If not, it is longer between two restarts of a container.
    pub is_min_interval_set: bool,
}

/// What the application reads, and how often it may be restarted.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationPolicy {
    /// Whether the application reads what podnudge publishes, instead of the volumes.
    pub publishes: bool,
    /// Whether failed publications are rolled back.
    pub rolls_back: bool,
    /// Whether the application reads the content at its start. It does not if podnudge writes it to a file before the
    /// action.
    pub reads_at_start: bool,
    /// Whether the first scan may cause an action.
    pub on_start: OnStart,
    /// The restart budget.
    pub restarts: RestartBudget,
}

/// How content is brought to the application.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of the configuration")]
pub struct RolloutPolicy {
    /// How to retry after a temporary failure.
    pub retry: Retry,
    /// Whether to retry content that was not proven or was rejected by the application, even if it
    /// could be rolled back at once.
    pub retries_first: bool,
    /// Whether to restart the target if the actions do not help.
    pub restarts_last: bool,
    /// Whether the actions themselves restart the target, or the whole pod.
    pub is_restart: bool,
    /// The exit code with which podnudge ends to restart the whole pod, if that is the action.
    pub pod_exit_code: Option<u8>,
    /// How long podnudge's pod may take to end after an eviction, if that is the action.
    pub evict_wait: Option<Duration>,
    /// How long an absent target is not a failure.
    pub target_wait: Duration,
    /// How long the target must survive the action; zero if no process is known.
    pub alive_for: Duration,
    /// Whether a proof besides survival is configured.
    pub proof: bool,
    /// How long the proof may take.
    pub verify_timeout: Duration,
    /// The longest interval between looks for the proof. New children may run beside the old ones for 100 ms only.
    pub verify_interval: Duration,
}

/// When not to begin a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hold {
    /// Whether a file may pause the rule. It is read outside the core.
    pub pause_file: bool,
    /// The key that pauses the rule while a volume has it.
    pub pause_key: Option<String>,
    /// Rollouts begin only then.
    pub window: Option<Window>,
    /// Whether a person has to approve each rollout.
    pub approval: bool,
}

/// Whether to act on the content that is found at start, if no state directory tells more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStart {
    /// Act once if the newest commit is newer than the target's start.
    IfNewer,
    /// Never act on it.
    Never,
    /// Always act on it.
    Always,
}

/// How a rule's target process is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetName {
    /// No process is known: the rule only sends requests.
    None,
    /// By a pattern, or because it mounts the volumes: two such rules may have the same target.
    Any,
    /// By a kind of name and a name.
    Exact(&'static str, String),
}

impl TargetName {
    /// Whether two rules may have the same target process.
    #[must_use]
    pub fn may_match(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => false,
            (Self::Exact(kind, name), Self::Exact(other_kind, other_name)) => {
                kind != other_kind || name == other_name
            }
            _ => true,
        }
    }
}

/// A watched path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVolume {
    /// Unique among all rules.
    pub id: VolumeId,
    /// The path with control characters escaped, for status and metrics.
    pub path: String,
}

impl Policy {
    /// Whether the pod may not be Ready for a while after an action.
    #[must_use]
    pub fn may_interrupt(&self) -> bool {
        self.rollout.is_restart
            || self.rollout.restarts_last
            || self.permit.drain.is_some()
            || self.rollout.evict_wait.is_some()
    }
}

/// What a rule does: the kinds of its actions, and the preset that they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actions {
    kinds: Option<String>,
    preset: Option<String>,
}

impl Actions {
    /// Actions of these kinds, from this preset if there is one.
    #[must_use]
    pub fn of(kinds: String, preset: Option<String>) -> Self {
        Self { kinds: Some(kinds), preset }
    }

    /// The actions of a rule that has none, before its preset is chosen.
    #[must_use]
    pub fn unknown() -> Self {
        Self { kinds: None, preset: None }
    }

    /// Whether podnudge knows how the application reloads.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.kinds.is_some()
    }

    /// The kinds alone, such as `signal`; empty if they are not known.
    #[must_use]
    pub fn kinds(&self) -> &str {
        self.kinds.as_deref().unwrap_or_default()
    }
}

/// Actions of these kinds, by settings of the rule.
impl From<&str> for Actions {
    fn from(kinds: &str) -> Self {
        Self { kinds: Some(kinds.to_owned()), preset: None }
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kinds, &self.preset) {
            (Some(kinds), Some(preset)) => write!(f, "{kinds} (preset {preset})"),
            (Some(kinds), None) => f.write_str(kinds),
            (None, _) => f.write_str("not known yet: no action is set"),
        }
    }
}

impl Serialize for Actions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rules_may_have_one_target_unless_their_names_differ() {
        let exact = |kind, name: &str| TargetName::Exact(kind, name.to_owned());
        let nginx = exact("process", "nginx");
        for (other, may_match) in [
            (TargetName::None, false),
            (TargetName::Any, true),
            (exact("process", "nginx"), true),
            (exact("process", "envoy"), false),
            (exact("pidfile", "/run/nginx.pid"), true),
        ] {
            assert_eq!(nginx.may_match(&other), may_match, "{other:?}");
            assert_eq!(other.may_match(&nginx), may_match, "{other:?}");
        }
        assert!(!TargetName::None.may_match(&TargetName::None), "neither has a target");
        assert!(!TargetName::None.may_match(&TargetName::Any));
        assert!(TargetName::Any.may_match(&TargetName::Any));
    }
}
