//! With what restarts of the pod can be combined. Pure.

use super::action::{ACTIONS, OnFailure, Restart, RestartOf};
use super::agent::Agent;
use super::prelude::*;
use podnudge_core::OnStart;

/// The proofs that compare with a value from before the action.
const COMPARING: [&str; 3] = ["json-grew", "json-changed", "metric-grew"];
/// The keys that name a target.
const NAMES: [&str; 4] = ["process", "exe", "cmdline", "pidfile"];

/// Checks an action that ends podnudge or its pod against the other settings of its rule, and those of podnudge itself.
pub(super) fn validate(
    rule: &Place<'_>,
    restart: Option<&Restart>,
    on_failure: &[OnFailure],
    on_start: Option<OnStart>,
    agent: &Agent,
) {
    let of_pod = restart.map_or(RestartOf::Target, |restart| restart.what);
    let what = match of_pod {
        RestartOf::Target => return,
        RestartOf::Pod => "a restart of the pod",
        RestartOf::Evict => "an eviction",
    };
    let place = rule.inner("restart");
    let others = ACTIONS.iter().any(|key| *key != "restart" && rule.has(key));
    if others || on_failure.contains(&OnFailure::Restart) {
        let message = format!("{what} must be the only action of its rule");
        let hint = "all containers of the pod are started anew: leave the others out";
        place.problem(Spot::Table, Reason::new(message).hint(hint));
    }
    if of_pod == RestartOf::Pod {
        validate_restart(rule, &place, agent);
    } else if on_start == Some(OnStart::Always) {
        let message = "`on-start` cannot be `always` with an eviction: each new pod would be evicted at its start";
        let hint = "leave it out: a new pod reads the content at its start";
        rule.problem(Value("on-start"), Reason::new(message).hint(hint));
    }
}

fn validate_restart(rule: &Place<'_>, place: &Place<'_>, agent: &Agent) {
    if agent.state_dir.is_none() {
        let message = "a restart of the pod needs `state-dir`: podnudge ends, and must know why when it starts again";
        let hint = "mount an emptyDir, and set `state-dir` in `[agent]` to a directory on it; k8s/restart-pod.yaml has this, \
                    and the `restartPolicyRules` of podnudge's container, without which the kubelet does not restart the pod";
        place.problem(Spot::Table, Reason::new(message).hint(hint));
    }
    let (verify, target) = (rule.inner("verify"), rule.inner("target"));
    let is_named = NAMES.iter().any(|key| target.has(key));
    if let Some(key) = COMPARING.iter().find(|key| verify.has(key) && !is_named) {
        let message = format!(
            "`{key}` compares with a value from before the restart, which podnudge does not keep"
        );
        let hint = "use a proof that does not compare; or share the process namespace and name the target, such as `target = { process = \"NAME\" }`";
        verify.problem(Key(key), Reason::new(message).hint(hint));
    }
    let limit = rule.inner("limit");
    if limit.has("lease") && !limit.has("lease-duration") {
        let message = "podnudge renews its slot only while it runs: the slot may expire before the pod has started again";
        let hint = "set `lease-duration` to more than a restart of the pod takes, such as `lease-duration = \"6m\"`";
        limit.warn(Key("lease"), Reason::new(message).hint(hint));
    }
}
