//! Selects the target among the processes. Pure: takes the processes and the target setting, and
//! returns the selection or a refusal with its reason. `taker` looks below a wrapper.
//!
//! Another podnudge is never a target, nor is what it has started: each has a name that all may read (`marks.rs`),
//! whatever its file is called. Where podnudge sees the processes of the node (`node.rs`), `pod` says which are of its
//! own pod. A pidfile is compared with the start time of its process. `find.rs` says when a selection is made.

pub mod in_pod;
mod refusals;
pub mod taker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::in_pod::{OwnPod, Pod};
pub(super) use self::refusals::list;
use self::refusals::{not_found, of_another_pod, stale};
use super::Identity;
use podnudge_config::{Target, TargetBy};
use podnudge_core::clock::Moment;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_supervise::marks::is_supervisor;

/// `comm` holds this many bytes (`TASK_COMM_LEN` less the NUL, proc(5)).
pub(super) const COMM_LENGTH: usize = 15;
/// A process that started later than this after its pidfile was written is another one. An application
/// writes the file after its start, so this only allows for a wall clock that was set meanwhile: the time
/// of the file is from the wall clock, and the start time is not.
const PIDFILE_TOLERANCE: Duration = Duration::from_secs(10);

/// A process, as far as podnudge can read its `/proc` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The pid and start time of the process.
    pub identity: Identity,
    /// The pid of the parent; 0 for a container's main process.
    pub parent: i32,
    /// The name, cut to 15 bytes.
    pub comm: String,
    /// The arguments; empty for kernel threads, and if they were not read.
    pub arguments: Vec<String>,
    /// The executable, if it was read and is not hidden.
    pub exe: Option<PathBuf>,
    /// The effective user id, if it was read.
    pub uid: Option<u32>,
    /// The id of its container, from `/proc/PID/cgroup`; empty if there is none.
    pub container: String,
    /// Whether the process is of podnudge's own pod.
    pub pod: Pod,
    /// How it mounts the rule's volumes, if that was read.
    pub mounts: Mounts,
}

/// How a process mounts the rule's volumes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mounts {
    /// Not mounted, or not read.
    #[default]
    No,
    /// The whole volume is mounted at this path.
    Volume(PathBuf),
    /// A subPath is mounted at this path: the process never sees a change.
    SubPath(PathBuf),
}

/// All processes that were read from `/proc`.
#[derive(Debug, Clone, Default)]
pub struct ProcessTable {
    /// The processes that were read in detail; no kernel threads.
    pub processes: Vec<Process>,
    /// The parent of every process.
    pub parents: BTreeMap<i32, i32>,
    /// podnudge's own process.
    pub own: OwnProcess,
    /// The pids of other podnudges.
    pub agents: Vec<i32>,
}

/// A pidfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pidfile {
    /// The pid in it.
    pub pid: i32,
    /// When it was written, if the wall clock was not set since then.
    pub written: Moment,
}

impl Pidfile {
    /// Whether it names this process.
    pub(super) fn names(self, process: &Process) -> bool {
        self.pid == process.identity.pid && !self.is_older_than(process)
    }

    /// Whether the process started after the file was written: the kernel has used the pid again.
    fn is_older_than(self, process: &Process) -> bool {
        process.identity.started() > self.written.after(PIDFILE_TOLERANCE)
    }
}

/// podnudge's own process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnProcess {
    /// The pid of podnudge.
    pub pid: i32,
    /// The id of podnudge's container.
    pub container: String,
    /// Whether pid 1 is in another container: then it is `/pause`, and the process namespace is
    /// shared.
    pub pid_1_is_foreign: bool,
    /// podnudge's pod, if podnudge sees the processes of the node: then only those of the pod may be selected.
    pub pod_on_node: Option<OwnPod>,
}

/// Why no process was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// podnudge sees only processes of its own container.
    NamespaceNotShared,
    /// No process matches now.
    NotFound(Reason),
    /// Several unrelated processes match.
    Ambiguous(Reason),
    /// The target setting cannot work here, such as with a volume that is mounted by subPath.
    Unsupported(Reason),
    /// `/proc` cannot be read, because the system is out of resources such as descriptors.
    ProcUnreadable(Reason),
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self::ProcUnreadable(reason)
    }
}

impl Refusal {
    /// The message and its hint.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::NamespaceNotShared => {
                Reason::new("podnudge sees no process outside its own container")
                    .hint("set shareProcessNamespace: true in the pod's spec")
            }
            Self::NotFound(reason)
            | Self::Ambiguous(reason)
            | Self::Unsupported(reason)
            | Self::ProcUnreadable(reason) => reason.clone(),
        }
    }
}

impl Process {
    /// The name of the process for messages.
    #[must_use]
    pub fn display_name(&self) -> String {
        display_name(self.identity, &self.comm)
    }
}

/// How messages name a process: `41 (nginx)`, control characters escaped.
pub(super) fn display_name(identity: Identity, comm: &str) -> String {
    format!("{} ({})", identity.pid, shown::text(comm))
}

/// Selects the target: of the matching processes the root of the process tree, or all of them with
/// `all`.
///
/// Never selects PID 1 (`/pause` if the namespace is shared; TERM to it restarts every container),
/// podnudge itself, another podnudge, what these have started, `podnudge supervise`, or a process of podnudge's
/// own container, unless that is the only container.
///
/// # Errors
/// If there is no match, or more than one root without `all`, or if the rule's pidfile is older than the
/// process.
pub fn select<'a>(
    target: &Target,
    pidfile: Option<Pidfile>,
    table: &'a ProcessTable,
) -> Result<Vec<&'a Process>, Refusal> {
    let candidates = candidates(table);
    if candidates.is_empty() && !has_foreign_process(table) {
        return Err(Refusal::NamespaceNotShared);
    }
    let matching = matching(target, pidfile, &candidates);
    let is_stale = |process: &&&Process| pidfile.is_some_and(|file| file.is_older_than(process));
    if let Some(process) = matching.iter().find(is_stale) {
        return Err(stale(target, process));
    }
    if target.all && !matching.is_empty() {
        return Ok(matching);
    }
    let roots = roots(&matching, table);
    match roots.as_slice() {
        [] => Err(of_another_pod(target, pidfile, table)
            .unwrap_or_else(|| not_found(target, pidfile, &candidates))),
        [_] => Ok(roots),
        several => Err(Refusal::Ambiguous(
            Reason::new(format!("several processes match: {}", list(several))).hint(
                "name one by process, exe, cmdline, pidfile or uid, or set all = true for every match",
            ),
        )),
    }
}

/// The processes that match.
fn matching<'a>(
    target: &Target,
    pidfile: Option<Pidfile>,
    candidates: &[&'a Process],
) -> Vec<&'a Process> {
    let has_uid = |process: &&Process| target.uid.is_none_or(|uid| process.uid == Some(uid));
    let matches = |process: &&Process| matches(&target.by, pidfile, process);
    candidates.iter().copied().filter(matches).filter(has_uid).collect()
}

/// The matching processes without an ancestor among them.
pub(super) fn matching_roots<'a>(
    target: &Target,
    pidfile: Option<Pidfile>,
    table: &'a ProcessTable,
) -> Vec<&'a Process> {
    roots(&matching(target, pidfile, &candidates(table)), table)
}

/// A process and its descendants.
pub(super) fn in_tree<'a>(
    root: &Process,
    table: &'a ProcessTable,
) -> impl Iterator<Item = &'a Process> {
    let (pid, all) = (root.identity.pid, table.processes.iter());
    all.filter(move |process| process.identity.pid == pid || descends_from(process, pid, table))
}

/// The processes that may be selected at all.
pub(super) fn candidates(table: &ProcessTable) -> Vec<&Process> {
    let only_container = !has_foreign_process(table);
    let allowed = |process: &&Process| {
        let pid = process.identity.pid;
        pid != 1
            && !is_of_podnudge(process, table)
            && process.pod == Pod::Own
            && !is_pause(process)
            && !is_supervisor(&process.comm)
            && (only_container || process.container != table.own.container)
    };
    table.processes.iter().filter(allowed).collect()
}

/// Whether a process is podnudge, this one or another, or was started by one.
fn is_of_podnudge(process: &Process, table: &ProcessTable) -> bool {
    let mut agents = table.agents.iter().chain([&table.own.pid]);
    agents.any(|agent| process.identity.pid == *agent || descends_from(process, *agent, table))
}

/// Whether there is a process of another container, `/pause` included.
fn has_foreign_process(table: &ProcessTable) -> bool {
    table.own.pid_1_is_foreign
        || table.processes.iter().any(|process| process.container != table.own.container)
}

fn is_pause(process: &Process) -> bool {
    process.comm == "pause" && process.arguments.first().is_none_or(|first| first == "/pause")
}

fn matches(by: &TargetBy, pidfile: Option<Pidfile>, process: &Process) -> bool {
    match by {
        TargetBy::Mount => matches!(process.mounts, Mounts::Volume(_)),
        TargetBy::Process(name) => is_named(process, name),
        TargetBy::Exe(path) => process.exe.as_deref() == Some(path),
        TargetBy::Cmdline(regex) => {
            !process.arguments.is_empty() && regex.is_match(&process.arguments.join(" "))
        }
        TargetBy::Pidfile(_) => pidfile.is_some_and(|file| file.pid == process.identity.pid),
    }
}

/// Whether a process has this name. A name that is too long for `comm` is compared with the base
/// name of the executable and of the first argument.
fn is_named(process: &Process, name: &str) -> bool {
    if name.len() <= COMM_LENGTH {
        return process.comm == name;
    }
    let cut = name.as_bytes().get(..COMM_LENGTH).unwrap_or_default();
    let base = |path: &Path| path.file_name().is_some_and(|base| base == name);
    process.comm.as_bytes() == cut
        && (process.exe.as_deref().is_some_and(base)
            || process.arguments.first().is_some_and(|first| base(Path::new(first))))
}

/// The matching processes without an ancestor among them.
pub(super) fn roots<'a>(matching: &[&'a Process], table: &ProcessTable) -> Vec<&'a Process> {
    let is_root = |process: &&&Process| {
        !matching.iter().any(|other| {
            other.identity != process.identity && descends_from(process, other.identity.pid, table)
        })
    };
    matching.iter().filter(is_root).copied().collect()
}

fn descends_from(process: &Process, ancestor: i32, table: &ProcessTable) -> bool {
    // The limit ends a loop, which may appear while pids are reused.
    std::iter::successors(Some(process.parent), |pid| table.parents.get(pid).copied())
        .take(table.parents.len() + 1)
        .any(|pid| pid == ancestor)
}

/// For messages: the processes that may be selected and are not, nor are descendants of, the chosen
/// ones.
pub(super) fn others(table: &ProcessTable, chosen: &[Identity]) -> Option<String> {
    let is_chosen = |process: &Process| {
        chosen
            .iter()
            .any(|chosen| process.identity == *chosen || descends_from(process, chosen.pid, table))
    };
    let others: Vec<&Process> =
        candidates(table).into_iter().filter(|process| !is_chosen(process)).collect();
    (!others.is_empty()).then(|| list(&others))
}
