//! Policies that a test changes where it differs from them.

use std::time::Duration;

use podnudge_core::backoff::Retry;
use podnudge_core::budget::RestartBudget;
use podnudge_core::event::VolumeId;
use podnudge_core::jitter::{Jitter, JitterBy};
use podnudge_core::{
    ApplicationPolicy, DrainBefore, DrainPolicy, GatePolicy, Hold, IntakePolicy, OnStart,
    PermitPolicy, Policy, PolicyVolume, RolloutPolicy, TargetName,
};

/// A policy with one volume, no delays and an application that survives.
pub(crate) fn policy() -> Policy {
    Policy {
        name: "app".to_owned(),
        action: "signal".into(),
        proof_kinds: "none".to_owned(),
        target: TargetName::Any,
        intake: IntakePolicy {
            volumes: vec![PolicyVolume { id: VolumeId(0), path: "/etc/app".to_owned() }],
            settle: Duration::ZERO,
            settle_max: Duration::from_secs(5),
            settles_commits: true,
            has_checks: false,
            needs_approval_to_check: false,
            has_certificates: false,
            has_key_filter: false,
            needs_changed_keys: false,
        },
        gate: GatePolicy {
            hold: Hold::default(),
            jitter: Jitter { window: Duration::ZERO, by: JitterBy::Pod },
            min_interval: Duration::ZERO,
            is_min_interval_set: true,
        },
        application: ApplicationPolicy {
            publishes: false,
            rolls_back: false,
            reads_at_start: true,
            restarts: RestartBudget { most: 3, within: Duration::from_hours(1) },
            on_start: OnStart::IfNewer,
        },
        rollout: RolloutPolicy {
            retry: Retry {
                first: Duration::from_secs(1),
                max: Duration::from_mins(1),
                attempts: 10,
            },
            retries_first: true,
            restarts_last: false,
            is_restart: false,
            pod_exit_code: None,
            evict_wait: None,
            target_wait: Duration::from_mins(5),
            alive_for: Duration::from_secs(1),
            proof: false,
            verify_timeout: Duration::from_secs(30),
            verify_interval: Duration::from_secs(2),
        },
        permit: PermitPolicy::default(),
    }
}

/// The policy after a change.
pub(crate) fn changed(mut policy: Policy, change: impl FnOnce(&mut Policy)) -> Policy {
    change(&mut policy);
    policy
}

/// The policy with the default settle time.
pub(crate) fn policy_settling() -> Policy {
    changed(policy(), |policy| policy.intake.settle = Duration::from_millis(200))
}

/// A drain without names of Services.
pub(crate) fn drain(wait: Duration, before: DrainBefore) -> DrainPolicy {
    DrainPolicy { wait, before, services: Vec::new(), timeout: Duration::ZERO }
}
