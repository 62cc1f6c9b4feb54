//! What to change, in words. Whatever is recommended was simulated, too.

use std::time::Duration;

use humantime::format_duration;

use super::outcome::{Outcome, simulate};
use super::scenario::{Scenario, Slots};
use crate::plan_options::Restarts;
use podnudge_core::SlotPolicy;

/// As `max-concurrent` allows.
const MOST_SLOTS: u32 = 100;
/// The most runs to try a recommendation.
const RUNS: u32 = 50;

/// What the figures mean, and what to change; a sentence each.
pub(super) fn advice(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut advice = Vec::new();
    let spare = scenario.spare();
    let worst = outcome.down_at_once.worst;
    if outcome.outages == 0 {
        advice.push(format!(
            "no outage: at most {worst:.0} of {} replicas are down at once, and {} must be up",
            scenario.replicas, scenario.min_available
        ));
    } else if spare == 0 {
        advice.push(format!(
            "no replica may be down: run at least {} replicas, or lower --min-available",
            scenario.replicas.saturating_add(1)
        ));
    } else if scenario.slots.is_some() && scenario.policy.permit.slot.is_some() {
        advice.push(format!("set max-concurrent to {spare} or less"));
    } else {
        advice.push(spread(scenario, spare));
    }
    if outcome.failing_seconds_per_replica > 0.0 && scenario.policy.permit.drain.is_some() {
        advice.push(format!(
            "requests reach replicas that are down: the drain's wait is shorter than the endpoints take to \
             follow, {}",
            format_duration(scenario.endpoint_delay)
        ));
    } else if outcome.failing_seconds_per_replica > 0.0 {
        let before =
            if scenario.policy.rollout.is_restart { "" } else { " with before = \"action\"" };
        advice.push(format!(
            "requests reach replicas that are down: add [rule.drain]{before}, which takes a pod out of \
             its Services first"
        ));
    }
    if scenario.policy.rollout.is_restart && scenario.changes > 1 {
        advice.extend(delays(scenario, outcome));
    }
    if outcome.unfinished > 0 {
        advice.push(format!(
            "in {} of {} runs, not all replicas have the last change after 24 h",
            outcome.unfinished, outcome.runs
        ));
    }
    advice
}

/// What prevents the outage: slots are the only guarantee.
fn spread(scenario: &Scenario, spare: u32) -> String {
    let slots = spare.min(MOST_SLOTS);
    let tried = simulate(&with_slots(scenario, slots));
    let jitter = scenario.policy.gate.jitter.window;
    let problem = if jitter.is_zero() {
        "nothing limits how many replicas act at once".to_owned()
    } else {
        let jitter = format_duration(jitter);
        format!(
            "jitter alone does not help: nothing limits how many replicas act at once within {jitter}"
        )
    };
    let took = tried.seconds_until_all_have_it.map_or_else(
        || "not all replicas have the last change after 24 h".to_owned(),
        |until| format!("all have the last change after {} (p95)", seconds(until.p95)),
    );
    format!(
        "{problem}. Set max-concurrent = {slots} and a lease in [rule.limit]: then at most {:.0} of {} are \
         down at once, and {took}",
        tried.down_at_once.worst, scenario.replicas
    )
}

/// The scenario with this many slots.
fn with_slots(scenario: &Scenario, count: u32) -> Scenario {
    let duration = Duration::from_secs(15);
    let mut with = scenario.clone();
    with.policy.permit.slot = Some(SlotPolicy {
        acts_when_unreachable: false,
        awaits_readiness: scenario.policy.rollout.is_restart,
        patience: Duration::ZERO,
        bake: Duration::ZERO,
    });
    with.slots = Some(Slots { count, duration, cover: duration });
    with.runs = with.runs.min(RUNS);
    with
}

/// What restarts without the kubelet's back-off, and without a budget, would change.
fn delays(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut with = Scenario { runs: scenario.runs.min(RUNS), ..scenario.clone() };
    let mut before = outcome.seconds_until_all_have_it.map(|until| until.p95);
    let mut saves = |with: &Scenario| {
        let after = simulate(with).seconds_until_all_have_it?.p95;
        let was = before.replace(after);
        // Not by chance.
        let is_longer = was.is_none_or(|was| was > after * 1.1);
        let was = was.map_or("more than 24 h".to_owned(), seconds);
        is_longer.then(|| format!("after {} instead of {was} (p95)", seconds(after)))
    };
    let mut advice = Vec::new();
    if scenario.restarts == Restarts::Kubelet {
        with.restarts = Restarts::Supervised;
        advice.extend(saves(&with).map(|time| {
            format!(
                "the kubelet's back-off delays restarts, and so does the `min-interval` that avoids it: below \
                 `podnudge supervise`, all have the last change {time}"
            )
        }));
    }
    if scenario.changes > scenario.policy.application.restarts.most {
        let budget = scenario.policy.application.restarts;
        let is = format!("{} in {}", budget.most, format_duration(budget.within));
        with.policy.application.restarts.most = u32::MAX;
        advice.extend(saves(&with).map(|time| {
            format!("the restart budget, {is}, delays the last changes: without it, all have them {time}")
        }));
    }
    advice
}

/// For people: `4.2s`, `95s`, `12min`.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        few if few < 10.0 => format!("{few:.1}s"),
        some if some < 600.0 => format!("{some:.0}s"),
        many if many < 36_000.0 => format!("{:.0}m", many / 60.0),
        hours => format!("{:.1}h", hours / 3600.0),
    }
}
