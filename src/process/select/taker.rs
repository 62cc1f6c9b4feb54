//! Selects the process that takes a signal, below a root that does not: an init, a shell or another
//! wrapper. Pure.

use nix::sys::signal::Signal;

use super::{Process, ProcessTable, Refusal, descends_from, is_of_podnudge, list};
use podnudge_core::reason::Reason;

/// A process of the target's tree: the root, or one that a wrapper has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The process itself, as it was read.
    pub process: Process,
    /// How it treats the signal.
    pub role: Role,
    /// Whether it may still be starting.
    pub is_young: bool,
    /// Whether it was forked and has not called exec since: a worker of its parent, or a daemon that
    /// an init has adopted.
    pub is_forked_without_exec: bool,
}

/// How a process of the target's tree treats the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The process takes the signal.
    Taker,
    /// The process passes signals on to its child.
    Init,
    /// The process does not take the signal, and is too old to be starting.
    Wrapper,
    /// The process does not take the signal, but is too young to tell.
    Starting,
    /// The process does not take the signal now, but is known to do so at other times.
    Restarting,
    /// podnudge may not read how the process treats the signal.
    Unknown,
}

/// The processes below the root, in its container. None of podnudge's.
pub(in crate::process) fn below<'a>(root: &Process, table: &'a ProcessTable) -> Vec<&'a Process> {
    let is_below = |process: &&Process| {
        process.identity.pid != root.identity.pid
            && process.container == root.container
            && descends_from(process, root.identity.pid, table)
            && !is_of_podnudge(process, table)
    };
    table.processes.iter().filter(is_below).collect()
}

/// Selects the target in the tree of a root that does not take the signal: the one topmost process that
/// does, or the root if there is none, or if that is uncertain. `tree` begins with the root, and holds
/// the children of wrappers only. With `uid`, only processes with this user id are selected.
///
/// # Errors
/// If several take the signal.
pub fn select_taker(
    uid: Option<u32>,
    signal: Signal,
    tree: &[Member],
) -> Result<&Process, Refusal> {
    let Some(root) = tree.first() else {
        return Err(Refusal::NotFound(Reason::new("the process has ended")));
    };
    let has = |role: Role| tree.iter().any(|member| member.role == role);
    let is_adopted = |member: &Member| {
        let mut inits = tree.iter().filter(|other| other.role == Role::Init);
        inits.any(|init| init.process.identity.pid == member.process.parent)
    };
    // A fork of a process that does not take the signal has the handlers of an earlier program of that
    // process, which is starting again.
    let is_worker = |member: &Member| {
        member.role == Role::Taker && member.is_forked_without_exec && !is_adopted(member)
    };
    if has(Role::Unknown) || tree.iter().any(is_worker) {
        return Ok(&root.process);
    }
    let takers: Vec<&Member> = tree
        .iter()
        .filter(|member| matches!(member.role, Role::Taker | Role::Restarting))
        .filter(|member| uid.is_none_or(|uid| member.process.uid == Some(uid)))
        .collect();
    match takers.as_slice() {
        // While others start, the first one with a handler may be the wrong one.
        [taker] if taker.is_young && has(Role::Starting) => Ok(&root.process),
        [taker] => Ok(&taker.process),
        [] => Ok(&root.process),
        several => {
            let several: Vec<&Process> = several.iter().map(|member| &member.process).collect();
            Err(several_take(&root.process, signal, &several))
        }
    }
}

/// The refusal of several processes below a root that does not take the signal.
pub(in crate::process) fn several_take(
    root: &Process,
    signal: Signal,
    several: &[&Process],
) -> Refusal {
    let (root, list) = (root.display_name(), list(several));
    let message = format!(
        "process {root} does not handle {signal}, and several processes below it do: {list}"
    );
    Refusal::Ambiguous(
        Reason::new(message).hint("name one by process, exe, cmdline, pidfile or uid"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Mounts;
    use super::super::in_pod::Pod;
    use super::*;
    use crate::process::Identity;

    /// A process with the pid of its place in the tree, and its parent.
    fn member(pid: i32, parent: i32, role: Role) -> Member {
        let process = Process {
            identity: Identity { pid, start_ticks: 1 },
            parent,
            comm: format!("p{pid}"),
            arguments: Vec::new(),
            exe: None,
            uid: Some(if pid < 10 { 0 } else { 101 }),
            container: String::new(),
            pod: Pod::Own,
            mounts: Mounts::No,
        };
        Member { process, role, is_young: false, is_forked_without_exec: false }
    }

    /// The pid of the selected process; `None` if several take the signal.
    fn selected(uid: Option<u32>, tree: &[Member]) -> Option<i32> {
        select_taker(uid, Signal::SIGHUP, tree).ok().map(|process| process.identity.pid)
    }

    #[test]
    fn the_only_process_below_a_wrapper_that_takes_the_signal_is_selected() {
        let init = member(1, 0, Role::Init);
        let shell = member(2, 1, Role::Wrapper);
        let app = member(3, 2, Role::Taker);
        let sleep = Member { is_young: true, ..member(4, 2, Role::Starting) };
        let restarting = member(5, 2, Role::Restarting);
        let unknown = member(6, 2, Role::Unknown);
        let tree = [init, shell, app, sleep];
        assert_eq!(selected(None, &tree), Some(3));
        let [init, shell, app, sleep] = tree;
        let with = |member: &Member| {
            selected(None, &[init.clone(), shell.clone(), app.clone(), member.clone()])
        };
        assert_eq!(with(&member(7, 2, Role::Wrapper)), Some(3));
        assert_eq!(with(&member(7, 2, Role::Taker)), None, "two take it");
        assert_eq!(with(&restarting), None, "two take it at other times");
        assert_eq!(with(&unknown), Some(1), "the other one may take it, too");
        assert_eq!(selected(None, &[init.clone(), restarting]), Some(5));
        assert_eq!(selected(None, &[init.clone(), shell, sleep]), Some(1), "none takes it");
    }

    #[test]
    fn a_young_process_is_not_selected_while_another_one_starts() {
        let shell = member(1, 0, Role::Wrapper);
        let young = Member { is_young: true, ..member(2, 1, Role::Taker) };
        let starting = Member { is_young: true, ..member(3, 1, Role::Starting) };
        assert_eq!(selected(None, &[shell.clone(), young.clone()]), Some(2));
        assert_eq!(selected(None, &[shell, young, starting]), Some(1));
    }

    #[test]
    fn a_fork_of_a_wrapper_is_not_selected_and_a_daemon_adopted_by_an_init_is() {
        let fork =
            |parent| Member { is_forked_without_exec: true, ..member(3, parent, Role::Taker) };
        let (init, shell) = (member(1, 0, Role::Init), member(2, 1, Role::Wrapper));
        assert_eq!(selected(None, &[init.clone(), shell.clone(), fork(2)]), Some(1));
        assert_eq!(selected(None, &[init, shell, fork(1)]), Some(3));
    }

    #[test]
    fn with_a_uid_only_processes_with_it_are_selected() {
        let tree =
            [member(1, 0, Role::Init), member(2, 1, Role::Taker), member(10, 1, Role::Taker)];
        assert_eq!(selected(None, &tree), None);
        assert_eq!(selected(Some(0), &tree), Some(2));
        assert_eq!(selected(Some(101), &tree), Some(10));
        assert_eq!(selected(Some(7), &tree), Some(1));
    }
}
