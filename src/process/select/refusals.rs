//! Why no process was selected, in words: what was looked for, what is there, and what to do. Pure.

use super::in_pod::Pod;
use super::{Mounts, Pidfile, Process, ProcessTable, Refusal, matches};
use podnudge_config::{Target, TargetBy, nearest};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The most processes that a message lists.
const MAX_LISTED: usize = 8;

pub(super) fn stale(target: &Target, process: &Process) -> Refusal {
    let path = match &target.by {
        TargetBy::Pidfile(path) => path.display().to_string(),
        _ => String::new(),
    };
    let (name, pid) = (process.display_name(), process.identity.pid);
    Refusal::NotFound(
        Reason::new(format!("the pidfile `{path}` is older than process {name}, so its pid {pid} is that of a process that has ended"))
            .hint("let the application write the file at each start, and remove an old one before that; or use process or cmdline, also if the clock of the node was set since"),
    )
}

/// The refusal of a process that matches and is not of podnudge's pod.
pub(super) fn of_another_pod(
    target: &Target,
    pidfile: Option<Pidfile>,
    table: &ProcessTable,
) -> Option<Refusal> {
    let is_foreign = |process: &&Process| {
        process.pod != Pod::Own
            && process.identity.pid != 1
            && matches(&target.by, pidfile, process)
    };
    let process = table.processes.iter().find(is_foreign)?;
    let name = process.display_name();
    let of =
        if process.pod == Pod::Another { "of another pod" } else { "not known to be of this pod" };
    Some(Refusal::Unsupported(
        Reason::new(format!("process {name} matches, and is {of}: podnudge sees the processes of the node"))
            .hint("set shareProcessNamespace: true in place of hostPID; with hostPID, a target must be in a container of podnudge's pod, or mount the watched volume"),
    ))
}

pub(super) fn not_found(
    target: &Target,
    pidfile: Option<Pidfile>,
    candidates: &[&Process],
) -> Refusal {
    let uid = target.uid.map_or_else(String::new, |uid| format!(" of uid {uid}"));
    let what = match &target.by {
        TargetBy::Mount => return not_mounted(candidates),
        TargetBy::Process(name) => format!("no process named `{name}`"),
        TargetBy::Exe(path) => format!("no process runs `{}`", path.display()),
        TargetBy::Cmdline(regex) => format!("no process has arguments that match `{regex}`"),
        TargetBy::Pidfile(path) => {
            let pid = pidfile.map(|file| file.pid).unwrap_or_default();
            let path = path.display();
            return Refusal::NotFound(
                Reason::new(format!("no process{uid} has the pid {pid} from `{path}`")).hint(
                    "the file may be left over, or its pid is from the application's own process namespace; prefer process or cmdline",
                ),
            );
        }
    };
    let there = if candidates.is_empty() {
        "no other container has a process".to_owned()
    } else {
        format!("processes found: {}", list(candidates))
    };
    let comms: Vec<&str> = candidates.iter().map(|process| process.comm.as_str()).collect();
    let hint = match &target.by {
        TargetBy::Process(name) => match nearest(name, &comms).or_else(|| longer(name, &comms)) {
            Some(near) => format!("did you mean `{}`? {there}", shown::text(near)),
            None => there,
        },
        // /proc/PID/exe is only readable as the same uid, or with SYS_PTRACE (proc(5)).
        TargetBy::Exe(_) if candidates.iter().any(|process| process.exe.is_none()) => {
            format!(
                "{there}; some hide their executable from podnudge's uid: use process or cmdline"
            )
        }
        _ => there,
    };
    Refusal::NotFound(Reason::new(format!("target not found: {what}{uid}")).hint(hint))
}

/// The name that begins with `name`, such as `redis-server` for `redis`.
fn longer<'a>(name: &str, comms: &[&'a str]) -> Option<&'a str> {
    comms.iter().find(|comm| comm.starts_with(name)).copied()
}

fn not_mounted(candidates: &[&Process]) -> Refusal {
    let by_subpath = candidates.iter().find_map(|process| match &process.mounts {
        Mounts::SubPath(path) => Some((process, path)),
        _ => None,
    });
    match by_subpath {
        Some((process, path)) => Refusal::Unsupported(
            Reason::new(format!(
                "process {} mounts the volume by subPath at `{}`, where it never changes",
                process.display_name(),
                shown::path(path)
            ))
            .hint("mount the whole volume into the application's container, without subPath"),
        ),
        None => Refusal::NotFound(
            Reason::new("no process of another container mounts the watched volume").hint(
                "mount the same volume into the application's container, or name the target by process, exe, cmdline or pidfile",
            ),
        ),
    }
}

/// `41 (nginx, uid 101), 52 (php-fpm, uid 82)`, bounded.
pub(in crate::process) fn list(processes: &[&Process]) -> String {
    let name = |process: &&Process| {
        let uid = process.uid.map_or_else(String::new, |uid| format!(", uid {uid}"));
        format!("{} ({}{uid})", process.identity.pid, shown::text(&process.comm))
    };
    let mut names: Vec<String> = processes.iter().take(MAX_LISTED).map(name).collect();
    if processes.len() > MAX_LISTED {
        names.push(format!("and {} more", processes.len() - MAX_LISTED));
    }
    names.join(", ")
}
