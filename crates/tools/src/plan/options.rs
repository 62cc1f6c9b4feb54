//! From the configuration and the options of the command to what is simulated.

use super::scenario::{Scenario, Slots};
use crate::plan_options::Options;
use podnudge_config::{Config, Rule};
use podnudge_core::Hold;
use podnudge_core::event::VolumeId;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The most replicas that are simulated in all runs together, unless `runs` asks for more.
const MOST_REPLICAS: u32 = 100_000;
/// The least and the most runs, unless `runs` asks for another number.
const RUNS: (u32, u32) = (5, 200);

/// What is to be simulated.
///
/// # Errors
///
/// If no rule is named and there are several, none has the name, or the rule's action is not known.
pub fn scenario(config: &Config, options: &Options) -> Result<Scenario, Reason> {
    let rule = rule(config, options.rule.as_deref())?;
    if rule.awaits_preset() {
        let reason = Reason::new("the rule has no action: podnudge chooses a preset in the pod");
        return Err(reason.hint("add `--preset NAME`, or `preset` to the rule"));
    }
    let min_available = options.min_available.unwrap_or_else(|| usual_least(options.replicas));
    if min_available > options.replicas {
        let (least, all) = (min_available, options.replicas);
        let reason = format!("--min-available: {least} is more than all replicas, {all}");
        return Err(Reason::new(reason));
    }
    let mut policy = rule.policy(VolumeId(0));
    // The plan begins when nothing holds the rule.
    policy.gate.hold = Hold::default();
    policy.intake.needs_approval_to_check = false;
    let enough = MOST_REPLICAS / options.replicas.saturating_mul(options.changes).max(1);
    Ok(Scenario {
        policy,
        slots: slots(rule),
        replicas: options.replicas,
        downtime: options.downtime,
        start_time: options.start_time,
        sync_period: options.sync_period,
        endpoint_delay: options.endpoint_delay,
        restarts: options.restarts,
        min_available,
        changes: options.changes,
        every: options.every,
        runs: options.runs.unwrap_or(enough.clamp(RUNS.0, RUNS.1)),
        seed: options.seed,
    })
}

/// How many replicas a `PodDisruptionBudget` with `maxUnavailable: 25%` keeps up, which rounds the percentage up as
/// Kubernetes does, but at least one.
fn usual_least(replicas: u32) -> u32 {
    (replicas - replicas.div_ceil(4)).max(1)
}

/// The Leases that the rule asks for.
fn slots(rule: &Rule) -> Option<Slots> {
    let limit = rule.settings.limit.as_ref().filter(|limit| limit.lease.is_some())?;
    let (duration, cover) = (limit.lease_duration, rule.slot_cover(limit));
    Some(Slots { count: limit.slots(), duration, cover })
}

fn rule<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a Rule, Reason> {
    let names = || {
        let names: Vec<&str> = config.rules.iter().map(|rule| rule.name.as_str()).collect();
        format!("one of `{}`", names.join("`, `"))
    };
    match (name, config.rules.as_slice()) {
        (None, [rule]) => Ok(rule),
        (None, _) => Err(Reason::new("there are several rules: add `--rule NAME`").hint(names())),
        (Some(name), rules) => rules.iter().find(|rule| rule.name == name).ok_or_else(|| {
            Reason::new(format!("--rule: no rule is named `{}`", shown::text(name))).hint(names())
        }),
    }
}
