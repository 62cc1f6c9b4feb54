//! The output of `podnudge plan`.

use humantime::format_duration;
use serde::Serialize;

use super::advice::advice;
use super::options::scenario;
use super::outcome::{Outcome, simulate};
use super::scenario::Scenario;
use super::{svg, text};
use crate::plan_options::{Options, Restarts};
use podnudge_config::Config;
use podnudge_core::jitter::JitterBy;
use podnudge_core::reason::Reason;

/// What is printed, and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The table and the chart, or JSON.
    pub text: String,
    /// The drawing, if one is wanted.
    pub svg: Option<String>,
}

/// The plan as JSON.
#[derive(Serialize)]
struct Json<'a> {
    scenario: &'a str,
    #[serde(flatten)]
    outcome: &'a Outcome,
    advice: &'a [String],
}

/// Simulates what the options ask for.
///
/// # Errors
///
/// If they do not fit the configuration.
pub fn show(config: &Config, options: &Options) -> Result<Shown, Reason> {
    let scenario = scenario(config, options)?;
    let outcome = simulate(&scenario);
    let advice = advice(&scenario, &outcome);
    let title = title(&scenario);
    let svg = options.svg.is_some().then(|| svg::svg(&title, &outcome, &advice));
    let text = if options.json {
        let json = Json { scenario: &title, outcome: &outcome, advice: &advice };
        let text = serde_json::to_string_pretty(&json);
        text.map_err(|error| Reason::new(error.to_string()))? + "\n"
    } else {
        text::text(&title, &outcome, &advice)
    };
    Ok(Shown { text, svg })
}

/// What was simulated, in one line.
fn title(scenario: &Scenario) -> String {
    let policy = &scenario.policy;
    let mut parts = vec![format!("{} replicas", scenario.replicas), policy.action.to_string()];
    if scenario.changes > 1 {
        let every = format_duration(scenario.every);
        parts.push(format!("{} changes, one each {every}", scenario.changes));
    }
    if !policy.gate.jitter.window.is_zero() {
        let by = if policy.gate.jitter.by == JitterBy::Ordinal { " by ordinal" } else { "" };
        parts.push(format!("jitter {}{by}", format_duration(policy.gate.jitter.window)));
    }
    if let Some(drain) = &policy.permit.drain {
        parts.push(format!("drain {}", format_duration(drain.wait)));
    }
    if let Some(slots) = scenario.slots.filter(|_| policy.permit.slot.is_some()) {
        parts.push(format!("max-concurrent {}", slots.count));
    }
    if let Some(turns) = policy.permit.turns {
        parts.push(format!("{} turns of {}", turns.of, format_duration(turns.every)));
    }
    if policy.rollout.is_restart {
        parts.push(match scenario.restarts {
            Restarts::Kubelet => "started by the kubelet".to_owned(),
            Restarts::Supervised => "started by podnudge supervise".to_owned(),
        });
    }
    parts.join(", ")
}
