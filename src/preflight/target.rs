//! The target of a rule: whether it is there, handles the signal and may be signalled, and what the
//! presets know of its program.

use std::time::Duration;

use crate::process::signal::{SendError, prepare};
use crate::process::{
    Context, Refusal, Supervised, TargetProcess, age, age_of_oldest_candidate, choose_preset,
};
use podnudge_config::{Action, OnFailure, Preset, Rule, SignalAction};
use podnudge_core::MAX_STARTUP;
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// A missing target is a problem only if other containers run a process that is older than this: the
/// application may be starting.
pub(super) const YOUNG: Duration = Duration::from_secs(2);

/// The problems with the target. `found` is the result of the search for it, if the rule has one.
pub(super) fn problems(
    context: &Context,
    rule: &Rule,
    found: Option<&Result<Vec<TargetProcess>, Refusal>>,
) -> Vec<Problem> {
    match found {
        None => Vec::new(),
        Some(Err(refusal)) => not_found(context, rule, refusal).into_iter().collect(),
        Some(Ok(targets)) => {
            if let Err(reason) = choose_preset(context, rule) {
                return vec![Problem::new(ProblemKind::NoPreset, reason)];
            }
            let known = targets.iter().find_map(|target| known(rule, &target.comm));
            let unproven = unproven_restart(rule, targets);
            signal(context, rule, targets).into_iter().chain(known).chain(unproven).collect()
        }
    }
}

/// What is known of the target's program, and contradicts the rule.
fn known(rule: &Rule, program: &str) -> Option<Problem> {
    let preset = rule.preset.or_else(|| Preset::of_program(program))?;
    let program = shown::text(program);
    let useless = rule.actions.iter().find_map(|action| match action {
        Action::Signal(signal) if preset.no_reload_on.contains(&signal.name) => Some(signal.name),
        _ => None,
    });
    if let Some((signal, because)) = useless.zip(preset.no_reload_because.as_ref()) {
        let message = format!("`{program}` does not reload on {signal}: {because}");
        let note =
            preset.limits.as_ref().map_or(String::new(), |limits| format!("; note: {limits}"));
        let hint =
            format!("what it needs is {}: set `--preset {}`{note}", preset.about, preset.name);
        let reason = Reason::new(message).hint(hint);
        return Some(Problem::new(ProblemKind::SignalDoesNotReload, reason));
    }
    let rolls_back = rule.settings.publish.as_ref().is_some_and(|publish| publish.rollback);
    if !preset.ends || !rule.checks.is_empty() || rolls_back {
        return None;
    }
    let message = format!("a broken configuration ends `{program}`, and the rule has no check");
    let publish = "publish the volume, so that broken content is rolled back";
    let hint = if preset.check.is_empty() {
        publish.to_owned()
    } else {
        let command = preset.check.join(" ");
        let check = match rule.preset {
            Some(preset) if preset.check_on_request => "with `--check=preset`".to_owned(),
            Some(_) => format!("where it uses `{command}` by itself"),
            None => format!("with `--check-exec \"{command}\"`"),
        };
        format!("run podnudge in its image, {check}; or {publish}")
    };
    Some(Problem::new(ProblemKind::Unchecked, Reason::new(message).hint(hint)))
}

/// Why the next replica may be restarted before the application has started here. Where the kubelet starts it
/// again, the pod is not Ready meanwhile.
fn unproven_restart(rule: &Rule, targets: &[TargetProcess]) -> Option<Problem> {
    let reason = rule.unproven_restart("the target runs")?;
    let is_supervised = |target: &TargetProcess| Supervised::of(target).is_below_supervisor();
    let mut roots = targets.iter().map(TargetProcess::root_of_tree);
    roots.any(is_supervised).then(|| Problem::new(ProblemKind::RestartUnproven, reason))
}

/// Why the target cannot be signalled.
fn signal(context: &Context, rule: &Rule, targets: &[TargetProcess]) -> Option<Problem> {
    signalled(rule, targets).iter().find_map(|(target, signal)| {
        let ends = context.ends.reason(&target.comm, signal.name);
        let ends = ends.filter(|_| !signal.allow_unhandled);
        let problem = |reason| Problem::new(ProblemKind::SignalNotHandled, reason);
        ends.map(problem).or_else(|| signal_problem(target, *signal))
    })
}

/// Why it is not known yet whether the target handles the signal. podnudge looks again, the doctor does
/// not.
pub(crate) fn still_starting(rule: &Rule, targets: &[TargetProcess]) -> Option<Problem> {
    let again = || {
        let time = humantime::format_duration(MAX_STARTUP);
        format!("wait until it is older than {time}, and run the doctor again")
    };
    let mut young = targets.iter().filter(|target| age(target.identity) < MAX_STARTUP);
    if let Some(target) = young.next().filter(|_| rule.actions.is_empty()) {
        let what = format!(
            "process {} has just started, and what it starts is not known yet",
            target.name
        );
        return Some(Problem::new(ProblemKind::NoPreset, Reason::new(what).hint(again())));
    }
    signalled(rule, targets).iter().find_map(|(target, signal)| match prepare(target, *signal) {
        Err(SendError::Starting(reason)) => {
            Some(Problem::new(ProblemKind::SignalNotHandled, reason.hint(again())))
        }
        _ => None,
    })
}

/// The processes that the rule signals, or has ended for a restart, with the signal of each.
fn signalled(rule: &Rule, targets: &[TargetProcess]) -> Vec<(TargetProcess, SignalAction)> {
    let of_rule = rule.actions.iter().find_map(|action| match action {
        Action::Signal(signal) => Some(*signal),
        _ => None,
    });
    let signalled = |target: &TargetProcess| Some((target.clone(), of_rule?));
    let restarts = rule.restarts_target() || rule.settings.on_failure.contains(&OnFailure::Restart);
    let restarted = targets.iter().filter(|_| restarts).map(TargetProcess::root_of_tree);
    let ended = |one: &Supervised| {
        let (process, signal) = one.signalled();
        (process.clone(), signal)
    };
    let ended: Vec<_> = Supervised::of_all(restarted).iter().map(ended).collect();
    targets.iter().filter_map(signalled).chain(ended).collect()
}

fn signal_problem(target: &TargetProcess, signal: SignalAction) -> Option<Problem> {
    let refused = |kind: ProblemKind, error: SendError| match error {
        SendError::Refused(reason) => Some(Problem { kind, reason }),
        // The process is starting or ending, or the system is out of resources.
        SendError::Gone(_) | SendError::Starting(_) | SendError::Failed(_) => None,
    };
    match prepare(target, signal) {
        Ok(ready) => ready
            .check_permission()
            .err()
            .and_then(|error| refused(ProblemKind::NotPermitted, error)),
        Err(error) => refused(ProblemKind::SignalNotHandled, error),
    }
}

fn not_found(context: &Context, rule: &Rule, refusal: &Refusal) -> Option<Problem> {
    let kind = match refusal {
        Refusal::NamespaceNotShared => ProblemKind::NamespaceNotShared,
        Refusal::Ambiguous(_) => ProblemKind::TargetAmbiguous,
        Refusal::Unsupported(_) => ProblemKind::TargetUnsupported,
        Refusal::NotFound(_) => {
            let is_late = || age_of_oldest_candidate(context, rule).is_some_and(|age| age > YOUNG);
            if !context.target_has_exited(rule) && !is_late() {
                return None;
            }
            ProblemKind::TargetNotFound
        }
        Refusal::ProcUnreadable(_) => return None,
    };
    Some(Problem { kind, reason: refusal.reason() })
}
