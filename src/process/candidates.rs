//! Reads the processes that may be selected, and how they mount the watched volumes: only what the target
//! setting needs, and as little as possible of processes that cannot match. Reads `/proc`; changes
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::marks::is_agent;
use super::proc::{
    MOST_LEVELS, ProcessStat, all_pids, arguments, cgroup, container, exe, read_proc_file,
    read_process_file, stat, uid,
};
use super::select::in_pod::{OwnPod, Pod};
use super::select::{COMM_LENGTH, Mounts, OwnProcess, Pidfile, Process, ProcessTable, Refusal};
use super::{Identity, node, texts};
use crate::volume::mounts::{self, Mount};
use podnudge_config::{Target, TargetBy};
use podnudge_core::reason::Reason;
use podnudge_supervise::marks::is_supervisor;

/// Which processes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Only those that may match, judged by their short name or pid.
    Likely,
    /// All of them, with all details.
    All,
}

/// Reads podnudge's own pid and container. They never change, so once at start is enough.
pub(super) fn own_process() -> OwnProcess {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let container = |pid| container(pid).ok().flatten().unwrap_or_default();
    OwnProcess {
        pid,
        pid_1_is_foreign: container(1) != container(pid),
        container: container(pid),
        pod_on_node: node::own_pod_on_node(),
    }
}

/// Reads the processes without kernel threads and zombies, as far as `target` needs them.
pub(super) fn read(
    own: &OwnProcess,
    target: &Target,
    volumes: &[PathBuf],
    pidfile: Option<Pidfile>,
    detail: Detail,
) -> Result<ProcessTable, Refusal> {
    let own_mounts = match &target.by {
        TargetBy::Mount => own_mounts(volumes)?,
        _ => Vec::new(),
    };
    let on_node = own.pod_on_node.as_ref().map(|pod| (pod, node::volumes_of_pod(volumes)));
    let pids = match (pidfile, detail) {
        (Some(file), Detail::Likely) => with_ancestors(file.pid)?,
        _ => all_pids()?,
    };
    let mut table = ProcessTable { own: own.clone(), ..ProcessTable::default() };
    let (mut supervisors, mut alive) = (Vec::new(), Vec::new());
    for pid in pids {
        let Some(stat) = stat(pid)? else { continue };
        table.parents.insert(pid, stat.parent);
        if is_supervisor(&stat.comm) {
            supervisors.push((pid, stat.session));
        } else if is_agent(&stat.comm) && pid != own.pid {
            table.agents.push(pid);
        }
        if !stat.is_dead() {
            alive.push(Alive {
                group_and_session: (stat.group, stat.session),
                start_ticks: stat.start_ticks,
                pid,
                parent: stat.parent,
            });
        }
        let may_match = match &target.by {
            TargetBy::Process(name) => name.starts_with(&stat.comm),
            TargetBy::Pidfile(_) => pidfile.is_some_and(|file| file.pid == pid),
            _ => true,
        };
        if stat.is_dead() || stat.is_kernel_thread || !(may_match || detail == Detail::All) {
            continue;
        }
        table.processes.extend(process(pid, stat, target, &own_mounts, on_node.as_ref(), detail)?);
    }
    for supervisor in supervisors {
        adopt(&mut table, supervisor, &alive);
    }
    Ok(table)
}

/// A process that has not ended.
struct Alive {
    group_and_session: (i32, i32),
    start_ticks: u64,
    pid: i32,
    parent: i32,
}

/// Makes the orphans that `podnudge supervise` has adopted children of its command, as which they began: they
/// are no targets of their own. The supervisor starts its command in a process group of its own, and in its own session,
/// which tells it from what an entrypoint has started before. Of several, the command is the oldest child, since the
/// supervisor kills what is left of an earlier one.
fn adopt(table: &mut ProcessTable, (supervisor, session): (i32, i32), alive: &[Alive]) {
    let children = || alive.iter().filter(|one| one.parent == supervisor);
    let order = |one: &&Alive| {
        let is_other = one.group_and_session != (one.pid, session);
        (is_other, one.start_ticks, one.pid)
    };
    let Some(&Alive { pid: command, .. }) = children().min_by_key(order) else { return };
    for orphan in children().filter(|one| one.pid != command) {
        table.parents.insert(orphan.pid, command);
        let processes = table.processes.iter_mut();
        let orphan = processes.filter(|process| process.identity.pid == orphan.pid);
        orphan.for_each(|process| process.parent = command);
    }
}

/// A process and those above it, which show whether a podnudge has started it.
fn with_ancestors(process: i32) -> Result<Vec<i32>, Reason> {
    let (mut pids, mut pid) = (vec![process], process);
    for _ in 0..MOST_LEVELS {
        let Some(stat) = stat(pid)?.filter(|stat| stat.parent > 0) else { break };
        pid = stat.parent;
        pids.push(pid);
    }
    Ok(pids)
}

/// `None` if it has ended meanwhile.
fn process(
    pid: i32,
    stat: ProcessStat,
    target: &Target,
    volumes: &[Mount],
    on_node: Option<&(&OwnPod, Vec<Mount>)>,
    detail: Detail,
) -> Result<Option<Process>, Reason> {
    let all = detail == Detail::All;
    // `comm` may hold only the beginning of the name.
    let is_cut = stat.comm.len() >= COMM_LENGTH;
    let (by_arguments, by_exe) = match &target.by {
        TargetBy::Cmdline(_) => (true, false),
        TargetBy::Exe(_) => (false, true),
        TargetBy::Process(_) => (is_cut, is_cut),
        TargetBy::Mount | TargetBy::Pidfile(_) => (false, false),
    };
    // Only the arguments distinguish `/pause` from other programs called `pause`.
    let by_arguments = by_arguments || stat.comm == "pause";
    let Some(cgroup) = cgroup(pid)? else { return Ok(None) };
    let pod = match on_node {
        Some((own, volumes)) => node::pod_of(own, pid, &cgroup, volumes)?,
        None => Pod::Own,
    };
    Ok(Some(Process {
        identity: Identity { pid, start_ticks: stat.start_ticks },
        parent: stat.parent,
        arguments: if by_arguments { arguments(pid)? } else { Vec::new() },
        exe: by_exe.then(|| exe(pid)).flatten(),
        uid: if all || target.uid.is_some() { uid(pid)? } else { None },
        container: texts::parse_container(cgroup.as_bytes()),
        pod,
        mounts: if volumes.is_empty() { Mounts::No } else { mounts(pid, volumes)? },
        comm: stat.comm,
    }))
}

/// podnudge's own mounts of the watched paths.
fn own_mounts(volumes: &[PathBuf]) -> Result<Vec<Mount>, Refusal> {
    let text = read_proc_file("/proc/self/mountinfo").map_err(|error| {
        Refusal::ProcUnreadable(Reason::new(format!("cannot read `/proc/self/mountinfo`: {error}")))
    })?;
    let all = mounts::parse(&text);
    let mut found = Vec::new();
    for path in volumes {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        match mounts::containing(&real, &all) {
            Some(mount) if mount.mount_point != Path::new("/") => found.push(mount.clone()),
            _ => {
                let path = path.display();
                let reason = Reason::new(format!(
                    "`{path}` is not a volume of its own, so its mount does not identify the target"
                ));
                return Err(Refusal::Unsupported(reason.hint(
                    "name the target, such as by `--process NAME`, or by exe, cmdline or pidfile; or mount a volume there",
                )));
            }
        }
    }
    Ok(found)
}

/// How a process mounts these volumes. A mount of a whole volume takes precedence.
fn mounts(pid: i32, volumes: &[Mount]) -> Result<Mounts, Reason> {
    let text = read_process_file(pid, "mountinfo")?.unwrap_or_default();
    let all = mounts::parse(&text);
    let same = |mount: &&Mount| {
        volumes.iter().any(|own| own.device == mount.device && own.root == mount.root)
    };
    let part = |mount: &&Mount| {
        mount.is_subpath()
            && volumes
                .iter()
                .any(|own| own.device == mount.device && mount.root.starts_with(&own.root))
    };
    Ok(if let Some(mount) = all.iter().find(same) {
        Mounts::Volume(mount.mount_point.clone())
    } else if let Some(mount) = all.iter().find(part) {
        Mounts::SubPath(mount.mount_point.clone())
    } else {
        Mounts::No
    })
}

/// What a process sees of volumes that podnudge mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum View {
    /// The process mounts one of the volumes, or a directory of it, and no part of them by subPath.
    Mounted,
    /// The process mounts a generation of one by subPath at this path, and sees no change.
    SubPath(PathBuf),
    /// The process mounts none of the volumes.
    Nothing,
}

/// What a process sees of the volumes at these paths. `None` if they are no volumes of their own in
/// podnudge's container, or if that cannot be read.
pub(crate) fn view_of(identity: Identity, paths: &[PathBuf]) -> Option<View> {
    let own = own_mounts(paths).ok()?;
    let text = read_process_file(identity.pid, "mountinfo").ok()??;
    let all = mounts::parse(&text);
    let shares = |mount: &&Mount| {
        own.iter()
            .filter(|own| own.device == mount.device)
            .any(|own| mount.root.starts_with(&own.root) || own.root.starts_with(&mount.root))
    };
    let volumes = all.iter().filter(|mount| mount.mount_point != Path::new("/"));
    let seen: Vec<&Mount> = volumes.filter(shares).collect();
    // Its root file system may hold the volume.
    let is_root = |mount: &&Mount| mount.mount_point == Path::new("/");
    if seen.is_empty() && all.iter().filter(is_root).any(|mount| shares(&mount)) {
        return None;
    }
    // A key that is mounted beside the volume is read from there, if at all.
    let of_key = seen.iter().find(|mount| mount.is_subpath());
    Some(match of_key.or(seen.first()) {
        None => View::Nothing,
        Some(mount) if mount.is_subpath() => View::SubPath(mount.mount_point.clone()),
        Some(_) => View::Mounted,
    })
}
