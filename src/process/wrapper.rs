//! Looks through an init, a shell or another wrapper to the process that takes the signal.
//!
//! Reads `/proc`; changes nothing. `select::taker` decides.

use nix::sys::signal::Signal;

use super::context::Context;
use super::handling::{Handling, handling, is_young};
use super::proc::{self, ProcessStat};
use super::select::taker::{Member, Role, below, select_taker};
use super::select::{Process, Refusal};
use super::table::{self, Detail};
use crate::config::Target;
use crate::reason::Reason;

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

/// Finds the process that takes the signal: the root, or where it does not take the signal, the one
/// topmost process below it that does.
///
/// # Errors
/// If several do, or if `/proc` cannot be read.
pub(super) fn find_taker(
    context: &Context,
    target: &Target,
    root: &Process,
    signal: Signal,
) -> Result<Taker, Refusal> {
    let Some(top) = member(context, root, signal)? else { return Ok(Taker::Unknown) };
    match top.role {
        Role::Taker => return Ok(Taker::Root),
        Role::Init | Role::Wrapper => {}
        Role::Starting | Role::Restarting | Role::Unknown => return Ok(Taker::Unknown),
    }
    let table = table::read(&context.own, target, &[], None, Detail::All)?;
    let all = below(root, &table);
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
    let above = |process: &Process| {
        let parent = tree.iter().find(|member| member.process.identity.pid == process.parent);
        parent.map(|member| member.process.clone())
    };
    if chosen.identity == root.identity {
        return Ok(Taker::Unknown);
    }
    let chain = std::iter::successors(above(chosen), |process| {
        if process.identity == root.identity { None } else { above(process) }
    });
    let mut wrappers: Vec<Process> = chain.take(tree.len()).collect();
    wrappers.reverse();
    Ok(Taker::Below(wrappers, chosen.clone()))
}

/// `None` if it has ended.
fn member(context: &Context, process: &Process, signal: Signal) -> Result<Option<Member>, Reason> {
    let stat = proc::stat(process.identity.pid)?;
    let is_same = |stat: &ProcessStat| stat.start_ticks == process.identity.start_ticks;
    let Some(stat) = stat.filter(is_same) else { return Ok(None) };
    let Some(handling) = handling(process.identity, signal)? else { return Ok(None) };
    if handling == Handling::Taken {
        context.takers.record(process, signal);
    }
    let role = match handling {
        Handling::Taken => Role::Taker,
        Handling::Init => Role::Init,
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
