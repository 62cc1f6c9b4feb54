//! The part of a rule's configuration that decisions need: times and choices, but no paths to open
//! and no addresses.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::ids::VolumeId;
use super::kubelet;
use crate::config::{
    self, Action, Drain, DrainBefore, Hold, Jitter, OnStart, OnUnreachable, ProofBy, Restart,
    Retry, Step, TargetBy,
};
use crate::shown;

/// The settings of a rule that decisions depend on.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of the configuration")]
pub struct Policy {
    /// The rule's name.
    pub name: String,
    /// Its actions.
    pub action: Actions,
    /// The kinds of its proofs, such as `children-newer`, or `none`.
    pub proof_kinds: String,
    /// How its target is identified.
    pub target: TargetName,
    /// The watched paths, in the order of the configuration.
    pub volumes: Vec<PolicyVolume>,
    /// How long a volume must be quiet before it is scanned.
    pub settle: Duration,
    /// The longest wait for quiet.
    pub settle_max: Duration,
    /// Whether content must pass checks before it is used.
    pub has_checks: bool,
    /// Whether a person approves content before it is checked.
    pub needs_approval_to_check: bool,
    /// Whether a check knows when certificates expire.
    pub has_certificates: bool,
    /// Whether the application reads what podnudge publishes, instead of the volumes.
    pub publishes: bool,
    /// Whether failed publications are rolled back.
    pub rolls_back: bool,
    /// Whether some keys do not count.
    pub has_key_filter: bool,
    /// Whether an action needs the list of changed keys.
    pub needs_changed_keys: bool,
    /// The configured holds. The pause file is read outside the core.
    pub hold: Hold,
    /// How replicas are spread.
    pub jitter: Jitter,
    /// The minimum time between two actions.
    pub min_interval: Duration,
    /// Whether that is configured. If not, it is longer between two restarts of a container.
    pub is_min_interval_set: bool,
    /// How to retry after a temporary failure.
    pub retry: Retry,
    /// Whether to retry content that was not proven or was rejected by the application, even if it
    /// could be rolled back at once.
    pub retries_first: bool,
    /// Whether to restart the target if the actions do not help.
    pub restarts_last: bool,
    /// Whether the actions themselves restart the target.
    pub is_restart: bool,
    /// The exit code with which podnudge ends to restart the whole pod, if that is the action.
    pub pod_exit_code: Option<u8>,
    /// How long podnudge's pod may take to end after an eviction, if that is the action.
    pub evict_wait: Option<Duration>,
    /// The restart budget.
    pub restarts: Restart,
    /// How the slots of the replicas are used, if there are any.
    pub slot: Option<SlotPolicy>,
    /// The rule's turn by the clock, if replicas take turns so.
    pub turns: Option<Turns>,
    /// How the pod leaves its Services before an action.
    pub drain: Option<Drain>,
    /// Whether the first scan may cause an action.
    pub on_start: OnStart,
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
    pub(super) fn returns_within(self) -> Duration {
        self.patience.max(RETURN)
    }

    fn of(rule: &config::Rule) -> Option<Self> {
        let limit = rule.settings.limit.as_ref().filter(|limit| limit.lease.is_some())?;
        Some(Self {
            acts_when_unreachable: limit.on_unreachable == Some(OnUnreachable::Act),
            awaits_readiness: rule.may_interrupt(),
            patience: rule.settings.drain.as_ref().map_or(Duration::ZERO, |drain| drain.timeout),
            bake: limit.bake,
        })
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

impl Turns {
    fn of(rule: &config::Rule) -> Option<Self> {
        let slot = rule.settings.limit.as_ref()?.slot?;
        Some(Self { every: slot.every, of: slot.of })
    }
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
    fn of(rule: &config::Rule) -> Self {
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        match &rule.settings.target.by {
            _ if !rule.names_process() => Self::None,
            TargetBy::Mount | TargetBy::Cmdline(_) => Self::Any,
            TargetBy::Process(name) => Self::Exact("process", name.clone()),
            TargetBy::Exe(exe) => Self::Exact("exe", path(exe)),
            TargetBy::Pidfile(file) => Self::Exact("pidfile", path(file)),
        }
    }

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
    /// Selects the settings that decisions depend on. The volumes are numbered from `first`.
    #[must_use]
    pub fn new(rule: &config::Rule, first: VolumeId) -> Self {
        let volume = |(n, path): (usize, &std::path::PathBuf)| PolicyVolume {
            id: VolumeId(first.0 + n),
            path: shown::path(path),
        };
        let pod_exit_code = rule.actions.iter().find_map(Action::pod_exit_code);
        // The kubelet delays the start of the containers of the pod, too.
        let unset_interval = pod_exit_code.map_or(Duration::ZERO, |_| kubelet::MIN_INTERVAL);
        Self {
            name: rule.name.clone(),
            action: Actions::of(rule),
            proof_kinds: proof_kinds(rule),
            target: TargetName::of(rule),
            volumes: rule.settings.watch.iter().enumerate().map(volume).collect(),
            settle: rule.settings.settle,
            settle_max: rule.settings.settle_max,
            has_checks: !rule.checks.is_empty(),
            needs_approval_to_check: rule.needs_approval_to_check(),
            has_certificates: rule.checks.iter().any(config::Check::checks_certificates),
            publishes: rule.settings.publish.is_some(),
            rolls_back: rule.settings.publish.as_ref().is_some_and(|publish| publish.rollback),
            has_key_filter: rule.has_key_filter(),
            needs_changed_keys: rule.actions.iter().any(|action| matches!(action, Action::Exec(_))),
            hold: rule.settings.hold.clone(),
            jitter: rule.settings.jitter,
            min_interval: rule.settings.min_interval.unwrap_or(unset_interval),
            is_min_interval_set: rule.settings.min_interval.is_some() || pod_exit_code.is_some(),
            retry: rule.settings.retry,
            retries_first: rule.settings.on_failure.contains(&Step::Retry),
            restarts_last: rule.settings.on_failure.contains(&Step::Restart),
            is_restart: rule.restarts_target(),
            pod_exit_code,
            evict_wait: rule.settings.evict.map(|evict| evict.wait),
            restarts: rule.restart,
            slot: SlotPolicy::of(rule),
            turns: Turns::of(rule),
            drain: rule.settings.drain.clone(),
            on_start: rule.settings.on_start.unwrap_or(OnStart::IfNewer),
            target_wait: rule.settings.target.wait,
            alive_for: if rule.names_process() || pod_exit_code.is_some() {
                rule.verify.alive_for
            } else {
                Duration::ZERO
            },
            // A preset that is chosen later may have one.
            proof: !rule.verify.proofs.is_empty() || rule.awaits_preset(),
            verify_timeout: rule.verify.timeout,
            verify_interval: Duration::from_millis(if rule.proves_by_children() {
                50
            } else {
                2000
            }),
        }
    }

    /// Whether the pod may not be Ready for a while after an action.
    pub(super) fn may_interrupt(&self) -> bool {
        self.is_restart
            || self.restarts_last
            || self.drain.is_some()
            || self.evict_wait.is_some()
            || self.pod_exit_code.is_some()
    }

    /// Whether the replicas act one after the other.
    pub(super) fn shares_actions(&self) -> bool {
        self.slot.is_some() || self.turns.is_some()
    }

    /// How the pod leaves its Services before an action; `None` if it stays in.
    pub(super) fn drain_before(&self, is_restart: bool) -> Option<&Drain> {
        let precedes = |drain: &&Drain| is_restart || drain.before == DrainBefore::Action;
        self.drain.as_ref().filter(precedes)
    }

    /// Whether podnudge looks whether the Services have the pod.
    pub(super) fn looks_at_services(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| !drain.services.is_empty())
    }
}

/// What a rule does: the kinds of its actions, and the preset that they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actions {
    kinds: Option<String>,
    preset: Option<String>,
}

impl Actions {
    /// Those of a rule.
    #[must_use]
    pub fn of(rule: &config::Rule) -> Self {
        let preset = rule.preset.map(|preset| preset.name.clone());
        let names: Vec<&str> = rule.actions.iter().map(Action::name).collect();
        let is_known = preset.is_some() || !rule.awaits_preset();
        Self { kinds: is_known.then(|| names.join("+")), preset }
    }

    /// Those of a rule without an action, before its preset is chosen.
    #[must_use]
    pub fn unknown() -> Self {
        Self { kinds: None, preset: None }
    }

    /// Whether podnudge knows how the application reloads.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.kinds.is_some()
    }

    /// The kinds alone, such as `signal`, or `unknown`.
    #[must_use]
    pub fn kinds(&self) -> &str {
        self.kinds.as_deref().unwrap_or("unknown")
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

/// The kinds of the rule's proofs.
#[must_use]
pub fn proof_kinds(rule: &config::Rule) -> String {
    let kinds: Vec<&str> = rule.verify.proofs.iter().map(ProofBy::name).collect();
    match kinds.as_slice() {
        [] if rule.awaits_preset() && rule.preset.is_none() => "unknown".to_owned(),
        [] => "none".to_owned(),
        kinds => kinds.join("+"),
    }
}
