//! Performs `Act`: runs a rule's actions once, one after the other.
//!
//! Reads `/proc` and the files that a request names; signals or terminates the target, sends a
//! request or a command, or runs a program. Reads `/proc` on the loop's thread: a pod has few
//! processes, and a switch to another thread would take longer than the reading.

use std::sync::Arc;

use tracing::warn;

use super::progress::Progress;
use super::restart::restart;
use super::{http, pod_end, prepare, program, signal, socket};
use crate::process::{
    self, Context, Refusal, TargetProcess, age, all_read_config_after, choose_preset, find,
    find_cached, find_to_restart, inspect, is_alive, names, remember_container, roots,
};
use crate::publish;
use crate::verify::proofs::{self, StateBefore};
use crate::verify::{Baseline, Partial};
use crate::volume::reads::{Layout, ReadWatch};
use podnudge_config::{Action, RestartOf, Rule};
use podnudge_core::MAX_STARTUP;
use podnudge_core::clock::Moment;
use podnudge_core::command::{Act, Extent};
use podnudge_core::event::{Absence, Acted, Inspection};
use podnudge_core::reason::Reason;

/// Runs the rule's actions once, one after the other. `last` is the state from the attempt before
/// this one, `layout` that of what the application reads.
pub(crate) async fn act(
    context: &Context,
    rule: &Rule,
    act: &Act,
    layout: &Layout,
    last: Baseline,
) -> (Acted, Baseline) {
    let restarted_at = || match inspect(context, rule) {
        Inspection::Running { last, .. } => Some(last),
        _ => None,
    };
    if last.partial.is_some()
        && let Some(acted) = ended_after_partial(&last, rule, act, restarted_at())
    {
        // Report it once: the following attempts act on the restarted process.
        return (acted, Baseline { partial: None, ..last });
    }
    if context.ends.is_open(rule, act) {
        let found = find(context, rule).unwrap_or_default();
        let only = if let [one] = &*found { Some((one.identity, &*one.comm)) } else { None };
        context.ends.judge(rule, only, act);
    }
    let cached = cached_target(context, rule, act);
    let acted = try_to_act(context, rule, act, layout, cached.as_ref()).await;
    match acted {
        // Nothing was done since the attempt before.
        Ok((Acted::Ready, _)) => (Acted::Ready, last),
        Ok((acted, baseline)) => match cached {
            Some(target) => (check_for_other_targets(context, rule, &target, acted), baseline),
            None => (acted, baseline),
        },
        Err(Acted::Absent(absence)) => {
            let was_read = is_target_absent(context, rule) && publish::was_read(rule);
            (Acted::Absent(Absence { was_read, ..absence }), last)
        }
        Err(acted) => (acted, last),
    }
}

/// Whether no target process runs, or the rule names none. A process that is merely not ready has
/// not read the content, so it cannot have ended because of it.
fn is_target_absent(context: &Context, rule: &Rule) -> bool {
    !rule.names_process() || matches!(find(context, rule), Err(Refusal::NotFound(_)))
}

/// The target of the last action, if it is unchanged. A full search takes longer than everything
/// else, so it follows after the signal. Before a restart the full search comes first.
fn cached_target(context: &Context, rule: &Rule, act: &Act) -> Option<TargetProcess> {
    let ends_target = act.restart || rule.restarts_target();
    (rule.names_process() && !ends_target).then(|| find_cached(context, rule)).flatten()
}

/// Searches all processes after an action on a cached target.
fn check_for_other_targets(
    context: &Context,
    rule: &Rule,
    target: &TargetProcess,
    acted: Acted,
) -> Acted {
    let is_other = |found: &TargetProcess| found.identity != target.identity;
    match find(context, rule) {
        // If a signal has ended the target since, its children may outlive it.
        Ok(found)
            if found.iter().any(is_other)
                && (is_alive(target.identity)
                    || !rule.actions.iter().any(Action::needs_process)) =>
        {
            let (old, new) = (&target.name, names(&found));
            let reason = format!("the target was process {old}, and now it is {new}");
            Acted::Failed(Reason::new(reason))
        }
        // The verification detects a target that has ended.
        Ok(_) | Err(Refusal::NotFound(_) | Refusal::ProcUnreadable(_)) => acted,
        Err(refusal) => {
            let Reason { message, hint } = refusal.reason();
            warn!(
                event = "target-ambiguous",
                rule = rule.name,
                reason = message,
                hint,
                "the action used process {} as before; the next action will be refused",
                target.name
            );
            acted
        }
    }
}

/// `Err` is an outcome that needs no verification.
async fn try_to_act(
    context: &Context,
    rule: &Rule,
    act: &Act,
    layout: &Layout,
    cached: Option<&TargetProcess>,
) -> Result<(Acted, Baseline), Acted> {
    if rule.settings.restart.is_some_and(|restart| restart.what != RestartOf::Target) {
        return pod_end::act(context, rule, act).map_err(|error| acted_on_refusal(&error));
    }
    let targets = match cached {
        Some(target) => vec![target.clone()],
        None if act.restart => {
            find_to_restart(context, rule).map_err(|error| acted_on_refusal(&error))?
        }
        None if rule.names_process() => {
            find(context, rule).map_err(|error| acted_on_refusal(&error))?
        }
        None => Vec::new(),
    };
    if act.fresh_after.is_some_and(|moment| all_read_config_after(&targets, moment)) {
        let before = Some(Arc::new(StateBefore::for_new_process(rule, act.digest)));
        let baseline = Baseline { before, ..Baseline::of(&targets) };
        return Ok((Acted::Fresh(process::targets(&targets)), baseline));
    }
    if rule.actions.is_empty() && !act.restart {
        return Err(without_action(context, rule, &targets));
    }
    if act.extent == Extent::LookForFresh {
        let reason = Reason::new("the target did not start after the content was in place");
        return Err(Acted::Absent(Absence::unread(reason)));
    }
    if act.is_preparation() {
        return prepare::prepare(rule, act, &targets).map(|()| (Acted::Ready, Baseline::default()));
    }
    remember_container(context, rule, &targets);
    if act.restart {
        refuse_if_late(act)?;
        let reads = watch_reads(rule, act, layout);
        let restarted = restart(context, rule, act, &targets).await;
        return restarted.map(|(acted, baseline)| (acted, Baseline { reads, ..baseline }));
    }
    let before = match proofs::state_before(rule, act.digest, &roots(&targets)).await {
        Ok(before) => before,
        Err(_) if rule.restarts_target() => StateBefore::for_new_process(rule, act.digest),
        // The broken content may be the cause.
        Err(_) if act.lenient => StateBefore::unknown(rule, act.digest),
        Err(reason) => return Err(Acted::Absent(Absence::unread(reason))),
    };
    // To find out the state may have taken long.
    refuse_if_late(act)?;
    let before = Some(Arc::new(before));
    let reads = watch_reads(rule, act, layout);
    let mut baseline = Baseline { before, reads, ..Baseline::of(&targets) };
    let mut progress = Progress::default();
    for action in &rule.actions {
        let step = match action {
            Action::Signal(action) => {
                let sent = signal::send(context, rule, act, *action, &targets);
                // The target has to wake up before it reads anything.
                if let Some(reads) = &baseline.reads {
                    reads.watch_others();
                }
                sent.map(|sent| {
                    progress.signalled = Some(process::targets(sent.iter().copied()));
                    baseline.processes = roots(sent);
                    baseline.signal = Some(action.name);
                })
            }
            Action::Http(action) => progress.record(http::act(rule, action, act.digest).await),
            Action::Exec(program) => progress.record(program::run(rule, program, act).await),
            Action::Command(command) => progress.record(socket::send(command).await),
            // Each is the only action of its rule.
            Action::RestartPod(_) | Action::Evict(_) => continue,
            // Always the last action: after it no process would receive another one.
            Action::Restart => match restart(context, rule, act, &targets).await {
                Err(acted) => Err(acted),
                Ok((acted, restarted)) => {
                    return Ok((acted, Baseline { reads: baseline.reads, ..restarted }));
                }
            },
        };
        if let Err(acted) = step {
            let acted = match (acted, rule.preset) {
                (Acted::Declined(reason), Some(preset)) => {
                    let log = || context.log_command(roots(&targets).first().copied());
                    Acted::Declined(preset.explain(reason, log))
                }
                (acted, _) => acted,
            };
            return progress.interrupted(acted, act, baseline);
        }
    }
    Ok((progress.to_acted(), baseline))
}

/// Refuses an action whose slot another replica may have by now.
pub(crate) fn refuse_if_late(act: &Act) -> Result<(), Acted> {
    let reason =
        || Acted::Refused(Reason::new("the slot of this rule expired before the action began"));
    if act.is_late(process::now()) { Err(reason()) } else { Ok(()) }
}

/// Why a rule without an action cannot act. A target that has just started may be the shell that is about to execute
/// the application.
fn without_action(context: &Context, rule: &Rule, targets: &[TargetProcess]) -> Acted {
    match choose_preset(context, rule) {
        Err(reason) if !targets.iter().any(|target| age(target.identity) < MAX_STARTUP) => {
            Acted::Refused(reason)
        }
        _ => {
            let message = format!("what {} starts is not known yet", names(targets));
            Acted::Absent(Absence::unread(Reason::new(message)))
        }
    }
}

/// Watches what the application is to read, from now on. If a signal is what comes next, most of many volumes are watched
/// after it, so that it is not delayed.
fn watch_reads(rule: &Rule, act: &Act, layout: &Layout) -> Option<Arc<ReadWatch>> {
    let is_signal_next = !act.restart && matches!(rule.actions.first(), Some(Action::Signal(_)));
    let watch = || {
        let watch = ReadWatch::start(&rule.volumes_read(), layout, &rule.keys);
        if !is_signal_next {
            watch.watch_others();
        }
        Arc::new(watch)
    };
    rule.is_read_by_application().then(watch)
}

/// The result of the earlier attempt for this digest, if it was interrupted and a process has ended
/// because of it. Otherwise its replacement would be taken for the process that was acted on.
fn ended_after_partial(
    last: &Baseline,
    rule: &Rule,
    act: &Act,
    restarted_at: Option<Moment>,
) -> Option<Acted> {
    let Partial { digest, at, acted } = last.partial.as_ref()?;
    // After `alive-for` the exit has another cause.
    let is_soon = restarted_at.unwrap_or(act.at) <= at.after(rule.verify.alive_for);
    (*digest == act.digest && is_soon && last.has_ended()).then(|| acted.clone())
}

fn acted_on_refusal(refusal: &Refusal) -> Acted {
    match refusal {
        Refusal::NotFound(reason) => Acted::Absent(Absence::unread(reason.clone())),
        refused => Acted::Refused(refused.reason()),
    }
}
