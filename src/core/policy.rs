//! What the core needs to know of a rule's configuration: times and choices, no paths to open,
//! no addresses.

use std::time::Duration;

use super::event::VolumeId;
use crate::config::{self, Action, Budget, Hold, Jitter, OnStart, Retry, Step, TargetBy};
use crate::shown;

/// A rule, as far as decisions go.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of the configuration")]
pub struct Policy {
    /// The rule's name.
    pub name: String,
    /// The kinds of its actions, such as `signal`, or `exec+http`.
    pub action: String,
    /// How its target is found.
    pub target: TargetName,
    /// The watched paths, in the order of the configuration.
    pub volumes: Vec<PolicyVolume>,
    /// How long a volume must be quiet before it is read.
    pub settle: Duration,
    /// The longest wait for quiet.
    pub settle_max: Duration,
    /// Whether there are checks to pass before content is used.
    pub has_checks: bool,
    /// Whether it can be told when certificates expire.
    pub has_certificates: bool,
    /// Whether the application reads what podnudge publishes, and not the volumes.
    pub publishes: bool,
    /// Whether a publication that does not work is rolled back.
    pub rolls_back: bool,
    /// Whether its actions want to know which keys changed.
    pub tells_changes: bool,
    /// What keeps the rule from beginning; its file is looked at elsewhere.
    pub hold: Hold,
    /// How replicas are spread.
    pub jitter: Jitter,
    /// The shortest time between two actions.
    pub min_interval: Duration,
    /// What happens after a failure that may pass.
    pub retry: Retry,
    /// Whether content that did not take, or was declined, is acted on again, where it could be
    /// rolled back instead.
    pub retries_first: bool,
    /// Whether the target is restarted where the actions do not help.
    pub restarts_last: bool,
    /// Whether the actions themselves restart the target.
    pub is_restart: bool,
    /// How many restarts there may be in how much time.
    pub restarts: Budget,
    /// What the first look may cause.
    pub on_start: OnStart,
    /// How long a target that is not there yet is not called a failure.
    pub target_wait: Duration,
    /// How long the target must survive the action; zero where no process is known.
    pub alive_for: Duration,
    /// Whether a proof beyond survival is configured.
    pub proof: bool,
    /// How long the proof may take.
    pub verify_timeout: Duration,
}

/// How the process is named that a rule acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetName {
    /// None is known: the rule only sends requests.
    None,
    /// By what two rules cannot be told apart: whoever mounts the volumes, or a pattern.
    Any,
    /// By a name, with its kind.
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

    /// Whether the process of two rules may be the same.
    #[must_use]
    pub fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => false,
            (Self::Exact(kind, name), Self::Exact(other_kind, other_name)) => {
                kind != other_kind || name == other_name
            }
            _ => true,
        }
    }
}

/// A watched path, as far as decisions go.
#[derive(Debug, Clone)]
pub struct PolicyVolume {
    /// Unique among all rules.
    pub id: VolumeId,
    /// For status and metrics, control characters escaped.
    pub path: String,
}

impl Policy {
    /// Takes from the configuration what decisions need. The volumes are numbered from `first`.
    #[must_use]
    pub fn new(rule: &config::Rule, first: VolumeId) -> Self {
        let volume = |(n, path): (usize, &std::path::PathBuf)| PolicyVolume {
            id: VolumeId(first.0 + n),
            path: shown::path(path),
        };
        Self {
            name: rule.name.clone(),
            action: rule.actions.iter().map(Action::name).collect::<Vec<_>>().join("+"),
            target: TargetName::of(rule),
            volumes: rule.settings.watch.iter().enumerate().map(volume).collect(),
            settle: rule.settings.settle,
            settle_max: rule.settings.settle_max,
            has_checks: !rule.checks.is_empty(),
            has_certificates: rule.checks.iter().any(config::Check::is_of_certificates),
            publishes: rule.settings.publish.is_some(),
            rolls_back: rule.settings.publish.as_ref().is_some_and(|publish| publish.rollback),
            tells_changes: rule.actions.iter().any(|action| matches!(action, Action::Exec(_))),
            hold: rule.settings.hold.clone(),
            jitter: rule.settings.jitter,
            min_interval: rule.settings.min_interval,
            retry: rule.settings.retry,
            retries_first: rule.settings.on_failure.contains(&Step::Retry),
            restarts_last: rule.settings.on_failure.contains(&Step::Restart),
            is_restart: rule.restarts_target(),
            restarts: rule.restart.budget(),
            on_start: rule.settings.on_start.unwrap_or(OnStart::IfNewer),
            target_wait: rule.settings.target.wait,
            alive_for: if rule.names_process() { rule.verify.alive_for } else { Duration::ZERO },
            proof: !rule.verify.proofs.is_empty(),
            verify_timeout: rule.verify.timeout,
        }
    }
}
