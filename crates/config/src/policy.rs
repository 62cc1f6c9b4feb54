//! From a rule to what the core needs of it: times and choices, but no paths to open and no addresses. Pure.

use std::path::Path;
use std::time::Duration;

use super::{
    Action, ApproveBefore, Check, Condition, Limit, OnFailure, OnUnreachable, ProofBy, RestartOf,
    Rule, TargetBy,
};
use podnudge_core::event::VolumeId;
use podnudge_core::shown;
use podnudge_core::slots::LONGEST_LEASE;
use podnudge_core::{
    Actions, ApplicationPolicy, GatePolicy, Hold, IntakePolicy, OnStart, PermitPolicy, Policy,
    PolicyVolume, RolloutPolicy, SlotPolicy, TargetName, Turns, kubelet,
};

/// New children may run beside the old ones for 100 ms only.
const LOOK_FOR_CHILDREN: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_secs(2);

impl Rule {
    /// What decisions depend on. The volumes are numbered from `first`.
    #[must_use]
    pub fn policy(&self, first: VolumeId) -> Policy {
        let settings = &self.settings;
        let volume = |(n, path): (usize, &std::path::PathBuf)| PolicyVolume {
            id: VolumeId(first.0 + n),
            path: shown::path(path),
        };
        let pod_exit_code = self.actions.iter().find_map(Action::pod_exit_code);
        // The kubelet delays the start of the containers of the pod, too.
        let unset_interval = pod_exit_code.map_or(Duration::ZERO, |_| kubelet::MIN_INTERVAL);
        let survives = self.names_process() || pod_exit_code.is_some();
        let mut policy = Policy {
            name: self.name.clone(),
            action: self.shown_actions(),
            proof_kinds: self.proof_kinds(),
            target: self.target_name(),
            intake: IntakePolicy {
                volumes: settings.watch.iter().enumerate().map(volume).collect(),
                settle: self.settle(),
                settle_max: settings.settle_max,
                settles_commits: settings.settle.is_some(),
                has_checks: !self.checks.is_empty(),
                needs_approval_to_check: self.needs_approval_to_check(),
                has_certificates: self.checks.iter().any(Check::checks_certificates),
                has_key_filter: self.has_key_filter(),
                needs_changed_keys: self
                    .actions
                    .iter()
                    .any(|action| matches!(action, Action::Exec(_))),
            },
            gate: GatePolicy {
                hold: self.hold(),
                jitter: settings.jitter,
                min_interval: settings.min_interval.unwrap_or(unset_interval),
                is_min_interval_set: settings.min_interval.is_some() || pod_exit_code.is_some(),
            },
            application: ApplicationPolicy {
                publishes: settings.publish.is_some(),
                rolls_back: settings.publish.as_ref().is_some_and(|publish| publish.rollback),
                reads_at_start: settings.expand.is_none(),
                restarts: self.restart.budget(),
                on_start: settings.on_start.unwrap_or(OnStart::IfNewer),
            },
            rollout: RolloutPolicy {
                retry: settings.retry,
                retries_first: settings.on_failure.contains(&OnFailure::Retry),
                restarts_last: settings.on_failure.contains(&OnFailure::Restart),
                is_restart: self.restarts_target(),
                pod_exit_code,
                evict_wait: settings
                    .restart
                    .filter(|restart| restart.what == RestartOf::Evict)
                    .map(|restart| restart.evict_wait()),
                target_wait: settings.target.wait,
                alive_for: if survives { self.verify.alive_for } else { Duration::ZERO },
                // A preset that is chosen later may have one.
                proof: !self.verify.proofs.is_empty() || self.awaits_preset(),
                verify_timeout: self.verify.timeout,
                verify_interval: if self.proves_by_children() { LOOK_FOR_CHILDREN } else { LOOK },
            },
            permit: PermitPolicy { slot: None, turns: self.turns(), drain: settings.drain.clone() },
        };
        policy.permit.slot = self.slot_policy(&policy);
        policy
    }

    /// Whether the pod may not be Ready for a while after an action.
    #[must_use]
    pub fn may_interrupt(&self) -> bool {
        self.policy(VolumeId(0)).may_interrupt()
    }

    /// The kinds of its actions, and the preset that they come from.
    #[must_use]
    pub fn shown_actions(&self) -> Actions {
        let preset = self.preset.map(|preset| preset.name.clone());
        if preset.is_none() && self.awaits_preset() {
            return Actions::unknown();
        }
        let kinds: Vec<&str> = self.actions.iter().map(Action::name).collect();
        Actions::of(kinds.join("+"), preset)
    }

    /// The kinds of its proofs, such as `children-newer`, or `none`.
    #[must_use]
    pub fn proof_kinds(&self) -> String {
        let kinds: Vec<&str> = self.verify.proofs.iter().map(ProofBy::name).collect();
        match kinds.as_slice() {
            [] if self.awaits_preset() && self.preset.is_none() => "unknown".to_owned(),
            [] => "none".to_owned(),
            kinds => kinds.join("+"),
        }
    }

    fn hold(&self) -> Hold {
        let hold = &self.settings.hold;
        Hold {
            pause_file: hold.pause_file.is_some(),
            pause_key: hold.pause_key.clone(),
            window: hold.schedule.clone(),
            approval: hold.approve_before.is_some(),
        }
    }

    /// Whether a person approves content before its checks, and these give it to a program or URL.
    #[must_use]
    pub fn needs_approval_to_check(&self) -> bool {
        let is_external =
            |check: &Check| matches!(check.condition, Condition::Exec(_) | Condition::Http(_));
        self.settings.hold.approve_before == Some(ApproveBefore::Check)
            && self.checks.iter().any(is_external)
    }

    fn slot_policy(&self, policy: &Policy) -> Option<SlotPolicy> {
        let limit = self.settings.limit.as_ref().filter(|limit| limit.lease.is_some())?;
        Some(SlotPolicy {
            acts_when_unreachable: limit.on_unreachable == Some(OnUnreachable::Act),
            awaits_readiness: policy.may_interrupt(),
            patience: self.settings.drain.as_ref().map_or(Duration::ZERO, |drain| drain.timeout),
            bake: limit.bake,
        })
    }

    /// How long a slot stays taken while an action may have interrupted the application: until that may be back, too. So a
    /// replica whose API server is away while its application is down keeps the others from acting.
    #[must_use]
    pub fn slot_cover(&self, limit: &Limit) -> Duration {
        let back = if self.may_interrupt() { self.verify.timeout } else { Duration::ZERO };
        limit.lease_duration.saturating_add(back).min(LONGEST_LEASE)
    }

    fn turns(&self) -> Option<Turns> {
        let limit = self.settings.limit.as_ref()?;
        Some(Turns { every: limit.turn?, of: limit.replicas? })
    }

    fn target_name(&self) -> TargetName {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        match &self.settings.target.by {
            _ if !self.names_process() => TargetName::None,
            TargetBy::Mount | TargetBy::Cmdline(_) => TargetName::Any,
            TargetBy::Process(name) => TargetName::Exact("process", name.clone()),
            TargetBy::Exe(exe) => TargetName::Exact("exe", path(exe)),
            TargetBy::Pidfile(file) => TargetName::Exact("pidfile", path(file)),
        }
    }
}
