//! Finds the target processes of a rule.
//!
//! First the target of the last search is looked at: if it is unchanged (`target_cache.rs`), the action is for it, and
//! all processes are searched afterwards. Each resync forgets it. A search reads the processes (`table.rs`), and
//! selects the root of the matching tree (`select.rs`), or of several unrelated ones the one that is to be preferred
//! (`prefer.rs`).
//!
//! If the rule sends a signal that the root does not take, or its preset is for another program, `wrapper.rs` reads the
//! tree below the root, and `select/taker.rs` selects the one topmost process that takes the signal; `handling.rs` says
//! how a process treats a signal, here and before the sending. [`TargetProcess::wrappers`] are the processes above the
//! selected one: a restart ends the first of them. Such a target is not cached. `last_targets.rs` remembers what each
//! search has found.
//!
//! Reads as much of `/proc` as the target setting needs; changes nothing.

use std::time::Duration;

use nix::sys::signal::Signal;
use tracing::info;

use super::Identity;
use super::candidates::{self, Detail};
use super::config_read::earliest_config_read;
use super::context::Context;
use super::pin::Pin;
use super::prefer::preferred;
use super::proc::{self, MOST_LEVELS};
use super::select::{self, Process, ProcessTable, Refusal};
use super::wrapper::{Taker, find_taker};
use podnudge_config::{Rule, TargetBy};
use podnudge_core::clock::Moment;
use podnudge_core::event::Targets;
use podnudge_core::shown;
use podnudge_core::status::TargetStatus;
use podnudge_supervise::marks::is_supervisor;

/// A target process of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetProcess {
    /// The pid and start time of the process.
    pub identity: Identity,
    /// For messages: `41 (nginx)`, control characters escaped.
    pub name: String,
    /// The name that the kernel reports.
    pub comm: String,
    /// Whether no other target process is its ancestor.
    pub is_root: bool,
    /// Whether it is the main process of a container: its parent is outside of the pod.
    pub is_container: bool,
    /// The id of its container; empty if there is none.
    pub container: String,
    /// The processes above it that do not handle the signal, such as an init or a shell: the root of the
    /// matching tree first. Empty if the target is that root.
    pub wrappers: Vec<Self>,
    /// The processes above it in its container: if podnudge terminates one for another rule, that ends this process,
    /// too. Empty if another target process is its ancestor.
    pub ancestors: Vec<Self>,
    /// The pidfd, if it was opened before all this was seen.
    pub pin: Pin,
}

impl TargetProcess {
    fn new(process: &Process, is_root: bool) -> Self {
        let container = process.container.clone();
        let alone = Self::alone(process.identity, process.parent, process.comm.clone());
        let ancestors = if is_root { ancestors(process) } else { Vec::new() };
        Self { is_root, container, ancestors, ..alone }
    }

    /// A process of which no more is known, such as one above a target.
    pub(super) fn alone(identity: Identity, parent: i32, comm: String) -> Self {
        Self {
            identity,
            name: select::display_name(identity, &comm),
            comm,
            is_root: false,
            is_container: parent == 0,
            container: String::new(),
            wrappers: Vec::new(),
            ancestors: Vec::new(),
            pin: Pin::default(),
        }
    }

    fn below(wrappers: &[Process], process: &Process) -> Self {
        let wrappers = wrappers.iter().map(|wrapper| Self::new(wrapper, false)).collect();
        Self { wrappers, ..Self::new(process, true) }
    }

    /// The root of the matching tree: the process to end for a restart, since its container or its
    /// supervisor ends or restarts with it.
    pub(crate) fn root_of_tree(&self) -> &Self {
        self.wrappers.first().unwrap_or(self)
    }
}

/// The processes above one in its container, but for `podnudge supervise`, which is no target of any rule.
fn ancestors(process: &Process) -> Vec<TargetProcess> {
    let (mut above, mut pid) = (Vec::new(), process.parent);
    for _ in 0..MOST_LEVELS {
        // Pid 1 is no target either.
        if pid <= 1 || proc::container(pid).ok().flatten().as_ref() != Some(&process.container) {
            break;
        }
        let Some(stat) = proc::stat(pid).ok().flatten() else { break };
        let identity = Identity { pid, start_ticks: stat.start_ticks };
        pid = stat.parent;
        if !is_supervisor(&stat.comm) {
            above.push(TargetProcess::alone(identity, pid, stat.comm));
        }
    }
    above
}

/// Searches all processes for the rule's target: the root of the matching tree, or all matches. For a
/// signal that the root does not handle, the one topmost process of its tree that does.
///
/// # Errors
/// If no process matches, or none that may be signalled, with the reason.
pub(crate) fn find(context: &Context, rule: &Rule) -> Result<Vec<TargetProcess>, Refusal> {
    match search(context, rule, rule.checked_signal()) {
        Ok(found) => {
            let named = found.iter().map(|target| (target.identity, target.comm.clone()));
            context.last_targets.store(rule, named);
            Ok(found)
        }
        Err(refusal) => {
            context.target_cache.store(rule, None);
            Err(context.last_targets.explain(rule, refusal))
        }
    }
}

/// Remembers the container of the process that an action is for.
pub(crate) fn remember_container(context: &Context, rule: &Rule, targets: &[TargetProcess]) {
    if let [target] = targets {
        context.last_targets.store_container(rule, &target.container);
    }
}

/// The target processes that the last search found and that still run, for the status.
pub(crate) fn running_targets(context: &Context, rule: &Rule) -> Vec<TargetStatus> {
    if rule.names_process() { context.last_targets.running(rule) } else { Vec::new() }
}

/// Searches for the target of a restart, for which it does not matter that several processes handle the signal.
///
/// # Errors
/// As for [`find`].
pub(crate) fn find_to_restart(
    context: &Context,
    rule: &Rule,
) -> Result<Vec<TargetProcess>, Refusal> {
    match find(context, rule) {
        Err(Refusal::Ambiguous(_)) => search(context, rule, None),
        found => found,
    }
}

/// The age of the oldest process that could be selected by another target setting.
pub(crate) fn age_of_oldest_candidate(context: &Context, rule: &Rule) -> Option<Duration> {
    let (own, target) = (&context.own, &rule.settings.target);
    let table =
        candidates::read(own, target, rule.read_by_application(), None, Detail::All).ok()?;
    select::candidates(&table).into_iter().map(|process| proc::age(process.identity)).max()
}

/// The target that the last search found, if it is unchanged. This removes it from the cache, so
/// the caller must search all processes after the action.
pub(crate) fn find_cached(context: &Context, rule: &Rule) -> Option<TargetProcess> {
    let (process, pin) = context.target_cache.take_unchanged(rule)?;
    let is_named = match &rule.settings.target.by {
        TargetBy::Pidfile(path) => proc::pidfile(path).ok()?.names(&process),
        _ => true,
    };
    is_named.then(|| TargetProcess { pin, ..TargetProcess::new(&process, true) })
}

fn search(
    context: &Context,
    rule: &Rule,
    signal: Option<Signal>,
) -> Result<Vec<TargetProcess>, Refusal> {
    let (own, target, volumes) = (&context.own, &rule.settings.target, rule.read_by_application());
    let wanted = match &target.by {
        TargetBy::Pidfile(path) => Some(proc::pidfile(path)?),
        _ => None,
    };
    let mut table = candidates::read(own, target, volumes, wanted, Detail::Likely)?;
    if select::select(target, wanted, &table).is_err() {
        // The error message lists all processes.
        table = candidates::read(own, target, volumes, wanted, Detail::All)?;
    }
    let (chosen, because) = match select::select(target, wanted, &table) {
        Err(Refusal::Ambiguous(reason)) => {
            let roots = select::matching_roots(target, wanted, &table);
            let preferred = preferred(context, rule, signal, &roots, &table);
            let (one, because) = preferred.ok_or(Refusal::Ambiguous(reason))?;
            (vec![one], Some(because))
        }
        chosen => (chosen?, None),
    };
    if context.last_targets.store_reason(rule, because.as_deref())
        && let ([target], Some(because)) = (chosen.as_slice(), because)
    {
        info!(
            event = "target-chosen",
            rule = rule.name,
            target = shown::text(&target.comm),
            pid = target.identity.pid,
            because,
            "several processes match; this one is the target"
        );
    }
    if let ([root], Some(signal)) = (chosen.as_slice(), signal) {
        match find_taker(context, rule, root, signal)? {
            Taker::Root => {}
            // Another process may be the target next time, so it is not cached.
            Taker::Below(wrappers, taker) => {
                context.target_cache.store(rule, None);
                return Ok(vec![TargetProcess::below(&wrappers, &taker)]);
            }
            Taker::Unknown => {
                context.target_cache.store(rule, None);
                return Ok(vec![TargetProcess::new(root, true)]);
            }
        }
    }
    context.target_cache.store(rule, Some(&chosen));
    let roots = select::roots(&chosen, &table);
    Ok(chosen.iter().map(|process| TargetProcess::new(process, roots.contains(process))).collect())
}

/// The target processes without an ancestor among the others: they must survive a reload. It may
/// replace their descendants, such as workers.
pub(crate) fn roots<'a>(targets: impl IntoIterator<Item = &'a TargetProcess>) -> Vec<Identity> {
    let roots = targets.into_iter().filter(|target| target.is_root);
    roots.map(|target| target.identity).collect()
}

/// Whether there are target processes, and all of them read their configuration after `moment`.
pub(crate) fn all_read_config_after(targets: &[TargetProcess], moment: Moment) -> bool {
    // Compare the start times first: that is cheap, and mostly decides.
    let reads_after = |target: &TargetProcess| {
        target.identity.started() > moment && earliest_config_read(target.identity) > moment
    };
    !targets.is_empty() && targets.iter().all(reads_after)
}

/// For messages: `41 (nginx), 52 (nginx)`.
pub(crate) fn names<'a>(targets: impl IntoIterator<Item = &'a TargetProcess>) -> String {
    let names: Vec<&str> = targets.into_iter().map(|target| target.name.as_str()).collect();
    names.join(", ")
}

/// The target's names for the core, which compares the targets of its rules. Another rule may end a
/// wrapper or another ancestor, and so the target.
pub(crate) fn targets<'a>(chosen: impl IntoIterator<Item = &'a TargetProcess> + Clone) -> Targets {
    let text = names(chosen.clone());
    let are_containers = chosen.clone().into_iter().all(|one| one.root_of_tree().is_container);
    let pid = chosen.clone().into_iter().next().map(|target| target.identity.pid);
    let (mut names, mut ancestors, mut containers) = (Vec::new(), Vec::new(), Vec::new());
    for target in chosen {
        containers.push(target.container.clone());
        names.push(target.comm.clone());
        names.extend(comms(&target.wrappers));
        ancestors.extend(comms(&target.ancestors));
    }
    Targets { names, ancestors, containers, pid, text, are_containers }
}

fn comms(processes: &[TargetProcess]) -> impl Iterator<Item = String> {
    processes.iter().map(|process| process.comm.clone())
}

/// For messages: the target processes, the setting that they match, and why these ones.
pub(crate) fn why(context: &Context, rule: &Rule, chosen: &[TargetProcess]) -> String {
    let how = match &rule.settings.target.by {
        TargetBy::Mount => "mounts the volume".to_owned(),
        TargetBy::Process(name) => format!("named `{name}`"),
        TargetBy::Exe(path) => format!("runs `{}`", path.display()),
        TargetBy::Cmdline(regex) => format!("its arguments match `{regex}`"),
        TargetBy::Pidfile(path) => format!("its pid is in `{}`", path.display()),
    };
    let below = match chosen {
        [TargetProcess { wrappers, .. }] => wrappers.first(),
        _ => None,
    };
    let below = below.map_or_else(String::new, |root| format!(" below {}", root.name));
    let because = context.last_targets.reason(rule);
    let because = because.map_or_else(String::new, |because| format!("; chosen because {because}"));
    format!("{}{below}: {how}{because}", names(chosen))
}

/// All processes, in detail; none if they cannot be read.
pub(super) fn process_table(context: &Context, rule: &Rule) -> ProcessTable {
    let table = candidates::read(&context.own, &rule.settings.target, &[], None, Detail::All);
    table.unwrap_or_default()
}

/// For messages: the other processes that a target setting could select, if there are any.
pub(crate) fn others(context: &Context, rule: &Rule, chosen: &[TargetProcess]) -> Option<String> {
    let (own, target) = (&context.own, &rule.settings.target);
    let table =
        candidates::read(own, target, rule.read_by_application(), None, Detail::All).ok()?;
    let roots: Vec<Identity> = chosen.iter().map(|target| target.root_of_tree().identity).collect();
    select::others(&table, &roots)
}
