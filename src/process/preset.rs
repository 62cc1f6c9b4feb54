//! Chooses the preset of a rule without an action: that of its target's program.
//!
//! Reads `/proc`; changes nothing.

use super::context::Context;
use super::find::{TargetProcess, find, programs_below};
use crate::config::{Preset, Rule};
use crate::reason::Reason;
use crate::shown;

/// Chooses the preset of a rule without an action of its own. Returns the rule with it, and the name
/// of the process that it is for; `None` if the rule needs none, has it already, or has no target now.
///
/// # Errors
/// If podnudge does not know what to do with the target.
pub(crate) fn choose_preset(
    context: &Context,
    rule: &Rule,
) -> Result<Option<(Rule, String)>, Reason> {
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
        return Ok(Some((chosen, target.name.clone())));
    };
    let is_for = |target: &&TargetProcess| {
        Preset::of_program(&target.comm).is_some_and(|one| one.name == preset.name)
    };
    let found = find(context, &chosen).map_err(|refusal| refusal.reason())?;
    let Some(target) = found.iter().find(is_for) else {
        let message = format!(
            "the rule has no action, and {signal} would go to {}, not to the {} below it",
            target.name, preset.name
        );
        let hint = format!("set `--preset {}`, and name its process with `--process`", preset.name);
        return Err(Reason::new(message).hint(hint));
    };
    Ok(Some((chosen, target.name.clone())))
}

/// The preset of the target's program, or of the one program below it that has a preset: the target
/// may be an init or a shell.
fn preset_of(
    context: &Context,
    rule: &Rule,
    target: &TargetProcess,
) -> Result<&'static Preset, Reason> {
    let chosen = Preset::chosen_for(&target.comm);
    if chosen.is_ok() || Preset::of_program(&target.comm).is_some() {
        return chosen;
    }
    let name = |program: &String| Preset::of_program(program).map(|preset| &preset.name);
    let mut programs = programs_below(context, rule, target);
    programs.retain(|program| name(program).is_some());
    programs.sort_by_key(name);
    programs.dedup_by_key(|program| name(program));
    match programs.as_slice() {
        [] => chosen,
        [program] => Preset::chosen_for(program),
        several => {
            let several: Vec<String> = several.iter().map(|program| shown::text(program)).collect();
            let message = format!(
                "the rule has no action, and below {} run several programs that podnudge knows: {}",
                target.name,
                several.join(", ")
            );
            let hint = "set `--preset NAME` for the one that reads the volume, and name its process \
                        with `--process`";
            Err(Reason::new(message).hint(hint))
        }
    }
}
