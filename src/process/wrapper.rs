//! Looks through an init, a shell or another wrapper to the process that takes the signal.
//!
//! Reads `/proc`; changes nothing. `select::taker` decides.

use nix::sys::signal::Signal;

use super::candidates::{self, Detail};
use super::context::Context;
use super::handling::{Handling, handling, is_young};
use super::proc::{self, ProcessStat};
use super::select::taker::{Member, Role, below, select_taker, several_take};
use super::select::{self, Process, Refusal};
use super::starter::{is_foreign_supervisor, programs_below};
use podnudge_config::Rule;
use podnudge_core::reason::Reason;

/// The process that takes the signal.
#[derive(Debug)]
pub(super) enum Taker {
    /// The root itself.
    Root,
    /// A process below the root, and those above it, from the root down.
    Below(Vec<Process>, Process),
    /// None is known, so the root stays the target, and is refused or waited for.
    Unknown,
}

/// Finds the process that takes the signal: the one of the rule's preset, or the root, or where that does not take
/// the signal, the one topmost process below it that does.
///
/// # Errors
/// If several do, if there is none below a supervisor yet, or if `/proc` cannot be read.
pub(super) fn find_taker(
    context: &Context,
    rule: &Rule,
    root: &Process,
    signal: Signal,
) -> Result<Taker, Refusal> {
    let Some(top) = member(context, root, signal)? else { return Ok(Taker::Unknown) };
    let preset = rule.preset.filter(|preset| !preset.is_for(&root.comm));
    match top.role {
        Role::Taker if preset.is_none() => return Ok(Taker::Root),
        Role::Taker | Role::Init | Role::Wrapper => {}
        Role::Starting | Role::Restarting | Role::Unknown => return Ok(Taker::Unknown),
    }
    let target = &rule.settings.target;
    let table = candidates::read(&context.own, target, &[], None, Detail::All)?;
    let all = below(root, &table);
    let found = |taker: &Process| Taker::Below(between(root, taker, &all), taker.clone());
    if let Some(preset) = preset {
        let matching: Vec<&Process> =
            all.iter().copied().filter(|process| preset.is_for(&process.comm)).collect();
        match select::roots(&matching, &table).as_slice() {
            [] if top.role == Role::Taker => return Ok(Taker::Root),
            [] => {}
            [taker] => return Ok(found(taker)),
            several => return Err(several_take(root, signal, several)),
        }
    }
    let mut tree = vec![top];
    let mut next = 0;
    // Processes below one that takes the signal are its workers.
    while let Some(wrapper) = tree.get(next).map(|member| (member.role, member.process.identity)) {
        next += 1;
        let (Role::Init | Role::Wrapper, parent) = wrapper else { continue };
        for child in all.iter().filter(|child| child.parent == parent.pid) {
            tree.extend(member(context, child, signal)?);
        }
    }
    let chosen = select_taker(target.uid, signal, &tree)?;
    if chosen.identity != root.identity {
        return Ok(found(chosen));
    }
    let is_starting =
        |program: &&Process| tree.iter().any(|one| one.process == **program && one.is_young);
    let programs = programs_below(root, &table);
    if is_foreign_supervisor(&root.comm, root.identity.pid)
        && (programs.is_empty() || programs.iter().any(is_starting))
    {
        let name = root.display_name();
        let message = format!("the supervisor {name} has no program that handles {signal} now");
        return Err(Refusal::NotFound(Reason::new(message)));
    }
    Ok(Taker::Unknown)
}

/// The processes between the root and the one that takes the signal: the root first, without the taker.
fn between(root: &Process, taker: &Process, all: &[&Process]) -> Vec<Process> {
    let above = |process: &Process| {
        let mut parents = all.iter().copied().chain([root]);
        parents.find(|parent| parent.identity.pid == process.parent).cloned()
    };
    let chain = std::iter::successors(above(taker), |process| {
        if process.identity == root.identity { None } else { above(process) }
    });
    let mut wrappers: Vec<Process> = chain.take(all.len() + 1).collect();
    wrappers.reverse();
    wrappers
}

/// `None` if it has ended.
fn member(context: &Context, process: &Process, signal: Signal) -> Result<Option<Member>, Reason> {
    let stat = proc::stat(process.identity.pid)?;
    let is_same = |stat: &ProcessStat| stat.start_ticks == process.identity.start_ticks;
    let Some(stat) = stat.filter(is_same) else { return Ok(None) };
    let Some(status) = proc::status(process.identity.pid)? else { return Ok(None) };
    let handling = handling(&status, process.identity, signal);
    if handling == Handling::Taken {
        context.takers.record(process, signal);
    }
    let role = match handling {
        Handling::Taken => Role::Taker,
        Handling::Init | Handling::Supervisor => Role::Init,
        Handling::Blocked => Role::Restarting,
        _ if context.takers.is_restarting(process, signal) => Role::Restarting,
        Handling::Starting => Role::Starting,
        Handling::Untaken(_) | Handling::ExitTrap => Role::Wrapper,
        Handling::Unreadable(_) => Role::Unknown,
    };
    Ok(Some(Member {
        process: process.clone(),
        role,
        is_young: is_young(process.identity),
        is_forked_without_exec: stat.is_forked_without_exec,
    }))
}
