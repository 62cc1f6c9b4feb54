//! Chooses the preset of a rule without an action: that of its target's program.
//!
//! Reads `/proc`; signals nothing.

use super::context::Context;
use super::find::{TargetProcess, find, process_table, targets as targets_of};
use super::handling::is_young;
use super::select::Refusal;
use super::starter::programs_below;
use podnudge_config::{Preset, Rule};
use podnudge_core::collect;
use podnudge_core::event::Targets;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// Chooses the preset of a rule without an action of its own. Returns the rule with it, and
/// its target; `None` if the rule needs none or has it already, or if the target is not known yet.
///
/// # Errors
/// If podnudge does not know what to do with the target.
pub(crate) fn choose_preset(
    context: &Context,
    rule: &Rule,
) -> Result<Option<(Rule, Targets)>, Reason> {
    let targets = rule.awaits_preset().then(|| find(context, rule)).and_then(Result::ok);
    let Some(target) = targets.as_ref().and_then(|targets| targets.first()) else {
        return Ok(None);
    };
    let preset = match preset_of(context, rule, target) {
        // Another program may run for a moment.
        Err(_) if rule.preset.is_some() => return Ok(None),
        chosen => chosen?,
    };
    if rule.preset.is_some_and(|chosen| chosen.name == preset.name) {
        return Ok(None);
    }
    let chosen = rule.with_preset(preset)?;
    let Some(signal) = chosen.checked_signal() else {
        return Ok(Some((chosen, targets_of([target]))));
    };
    let found = match find(context, &chosen) {
        Ok(found) => found,
        Err(Refusal::Ambiguous(reason)) => return Err(reason),
        // The preflight reports it, if it lasts.
        Err(_) => return Ok(None),
    };
    let is_for = |target: &&TargetProcess| {
        Preset::of_program(&target.comm).is_some_and(|one| one.name == preset.name)
    };
    if let Some(target) = found.iter().find(is_for) {
        return Ok(Some((chosen, targets_of([target]))));
    }
    if is_young(target.identity) {
        return Ok(None);
    }
    let message = format!(
        "the rule has no action, and {signal} would go to {}, not to the {} below it",
        target.name, preset.name
    );
    let hint = format!("set `--preset {}`, and name its process with `--process`", preset.name);
    Err(Reason::new(message).hint(hint))
}

/// The preset of the target's program. If that is an init or a shell, the preset of the one program
/// that it has started.
fn preset_of(
    context: &Context,
    rule: &Rule,
    target: &TargetProcess,
) -> Result<&'static Preset, Reason> {
    let chosen = Preset::chosen_for(&target.comm);
    if chosen.is_ok() || Preset::of_program(&target.comm).is_some() {
        return chosen;
    }
    let programs = programs_started_by(context, rule, target);
    let name = |program: &String| Preset::of_program(program).map(|preset| &preset.name);
    let mut names = Vec::new();
    for name in programs.iter().map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match (names.as_slice(), programs.first()) {
        ([Some(_)], Some(program)) => Preset::chosen_for(program),
        ([_, _, ..], _) => {
            let programs: Vec<String> = programs.iter().map(|name| shown::text(name)).collect();
            let message = format!(
                "the rule has no action, and {} has started several programs: {}",
                target.name,
                programs.join(", ")
            );
            let hint = "set `--preset NAME` for the one that reads the volume, and name its process \
                        with `--process`";
            Err(Reason::new(message).hint(hint))
        }
        _ => chosen,
    }
}

/// The names of the programs that the target has started, if it is an init, a shell or a supervisor.
fn programs_started_by(context: &Context, rule: &Rule, target: &TargetProcess) -> Vec<String> {
    let table = process_table(context, rule);
    let root = table.processes.iter().find(|process| process.identity == target.identity);
    let programs = root.map(|root| programs_below(root, &table)).unwrap_or_default();
    collect::set(programs.iter().map(|program| program.comm.clone())).into_iter().collect()
}
