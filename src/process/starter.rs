//! Processes that start others: inits, shells and supervisors. They are known by their names, as nothing else tells a
//! supervisor from an application: it has handlers as that has, and ends or restarts all of its programs on a signal.
//!
//! Reads `/proc`; changes nothing.

use std::ffi::OsStr;
use std::path::Path;

use super::proc;
use super::select::taker::below;
use super::select::{Process, ProcessTable};

/// Programs that start another one, and pass signals on or end with it.
const INITS_AND_SHELLS: &[&str] = &[
    "tini",
    "tini-static",
    "dumb-init",
    "docker-init",
    "catatonit",
    "sh",
    "ash",
    "bash",
    "dash",
    "busybox",
];

/// Programs that start several others, and start each again that has ended.
const SUPERVISORS: &[&str] = &["s6-svscan", "s6-supervise", "runsv", "runsvdir", "supervisord"];

/// Whether a process is an init, a shell or a supervisor, or a script that a shell runs.
pub(super) fn is_starter(comm: &str, pid: i32) -> bool {
    INITS_AND_SHELLS.contains(&comm)
        || is_foreign_supervisor(comm, pid)
        || program(pid, 0).is_some_and(|name| {
            INITS_AND_SHELLS.contains(&name.as_str()) || SUPERVISORS.contains(&name.as_str())
        })
}

/// Whether a process is a supervisor other than `podnudge supervise`. It is no target: its programs are.
pub(super) fn is_foreign_supervisor(comm: &str, pid: i32) -> bool {
    // The interpreter may be named in place of the script.
    let is_script = || program(pid, 1).is_some_and(|script| SUPERVISORS.contains(&script.as_str()));
    SUPERVISORS.contains(&comm) || (comm.starts_with("python") && is_script())
}

/// The programs that a process has started, if it is an init, a shell or a supervisor, also by others of these.
pub(super) fn programs_below<'a>(root: &Process, table: &'a ProcessTable) -> Vec<&'a Process> {
    if !is_starter(&root.comm, root.identity.pid) {
        return Vec::new();
    }
    let all = below(root, table);
    let (mut starters, mut programs) = (vec![root.identity.pid], Vec::new());
    while let Some(starter) = starters.pop() {
        for child in all.iter().filter(|child| child.parent == starter) {
            if is_starter(&child.comm, child.identity.pid) {
                starters.push(child.identity.pid);
            } else {
                programs.push(*child);
            }
        }
    }
    programs
}

/// Whether a process runs one of these programs, by its executable or its first argument: podnudge may not read the
/// executable of another uid, or of a process with more capabilities.
pub(super) fn runs(pid: i32, names: &[&str]) -> bool {
    let exe = proc::exe(pid);
    let exe = exe.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
    let argument = program(pid, 0);
    // That of a login shell begins with a hyphen.
    let argument = argument.as_deref().map(|name| name.trim_start_matches('-'));
    [exe, argument].into_iter().flatten().any(|name| names.contains(&name))
}

/// The name of the file that an argument of a process names.
fn program(pid: i32, argument: usize) -> Option<String> {
    let arguments = proc::arguments(pid).unwrap_or_default();
    let name = Path::new(arguments.get(argument)?).file_name()?;
    Some(name.to_str()?.to_owned())
}
