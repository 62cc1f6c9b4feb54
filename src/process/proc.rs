//! Reading `/proc` (proc(5)): only what the target needs, and as little as possible for processes
//! that cannot be it. Processes that end meanwhile are passed over.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::Identity;
use super::select::{COMM_LENGTH, Mounts, Own, Process, Refusal, Seen};
use crate::clock::Moment;
use crate::config::{Target, TargetBy};
use crate::files::{self, FileError, LARGEST};
use crate::reason::Reason;
use crate::volume::mounts::{self, Mount};

/// What a file of a process holds; `None` if there is no such process, or it hides from podnudge.
///
/// # Errors
/// If the system has no means left to look: that tells nothing about the process.
fn of_process(pid: i32, file: &str) -> Result<Option<Vec<u8>>, Reason> {
    let path = format!("/proc/{pid}/{file}");
    match contents(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => match Errno::from_io_error(&error) {
            // EINVAL: it is ending, and has no mounts any more.
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM | Errno::INVAL) => {
                Ok(None)
            }
            _ => Err(Reason::new(format!("cannot read `{path}`: {error}"))),
        },
    }
}

/// What a file of `/proc` holds. They say that they are empty, so that reading one by the usual
/// means begins with 32 bytes and takes many system calls.
fn contents(path: &str) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(text),
            length => text.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
    }
}

/// `/proc/PID/status`; `None` if there is no such process.
pub(super) fn status(pid: i32) -> Result<Option<String>, Reason> {
    let text = of_process(pid, "status")?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// How old a process is.
pub(crate) fn age(identity: Identity) -> Duration {
    now().since(identity.started())
}

/// This moment, on the clock of the start times: they count from the boot (proc(5)).
pub(super) fn now() -> Moment {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Moment(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0)))
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessStat {
    pub(super) comm: String,
    pub(super) parent: i32,
    pub(super) start_ticks: u64,
    /// A zombie, or past that.
    pub(super) is_dead: bool,
    is_kernel_thread: bool,
    /// It was forked, and has executed no program since: it goes on with what its parent has read.
    pub(super) is_copy: bool,
}

/// `None` if there is no such process.
pub(super) fn stat(pid: i32) -> Result<Option<ProcessStat>, Reason> {
    Ok(of_process(pid, "stat")?.and_then(|text| parse_stat(&text)))
}

/// Of `flags` (field 9): a thread of the kernel's own (`PF_KTHREAD` in linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The same: forked, and no program executed since (`PF_FORKNOEXEC`).
const FORK_WITHOUT_EXEC: u64 = 0x40;

/// `41 (a name) S 1 …`: the name may hold anything, so the fields count from the last `)`.
fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Fields are numbered from 1 in proc(5); the third is the first behind the name.
    let field = |number: usize| fields.get(number - 3).copied();
    let flags: u64 = field(9)?.parse().ok()?;
    Some(ProcessStat {
        comm: String::from_utf8_lossy(text.get(open + 1..close)?).into_owned(),
        parent: field(4)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
        is_dead: match field(3)? {
            // The first thread of several may end alone, as when another one executes a program.
            "Z" => field(20)?.parse::<u32>().ok()? <= 1,
            state => matches!(state, "X" | "x"),
        },
        is_kernel_thread: flags & KERNEL_THREAD != 0,
        is_copy: flags & FORK_WITHOUT_EXEC != 0,
    })
}

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Processes that may match, as far as their short name or pid tells.
    Likely,
    /// All.
    All,
}

/// Where podnudge itself is. None of it changes while it runs: a look at start is enough.
#[must_use]
pub fn own() -> Own {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let container = |pid| container(pid).ok().flatten().unwrap_or_default();
    Own { pid, pid_1_is_foreign: container(1) != container(pid), container: container(pid) }
}

/// The processes, less kernel threads and dead ones, with what `target` needs of each.
pub(super) fn read(
    own: &Own,
    target: &Target,
    volumes: &[PathBuf],
    pidfile: Option<i32>,
    detail: Detail,
) -> Result<Seen, Refusal> {
    let own_mounts = match &target.by {
        TargetBy::Mount => own_mounts(volumes)?,
        _ => Vec::new(),
    };
    let pids = match (pidfile, detail) {
        (Some(pid), Detail::Likely) => vec![pid],
        _ => all_pids()?,
    };
    let mut seen = Seen { own: own.clone(), ..Seen::default() };
    for pid in pids {
        let Some(stat) = stat(pid)? else { continue };
        seen.parents.insert(pid, stat.parent);
        let may_match = match &target.by {
            TargetBy::Process(name) => name.starts_with(&stat.comm),
            _ => true,
        };
        if stat.is_dead || stat.is_kernel_thread || !(may_match || detail == Detail::All) {
            continue;
        }
        seen.processes.extend(process(pid, stat, target, &own_mounts, detail)?);
    }
    Ok(seen)
}

pub(super) fn all_pids() -> Result<Vec<i32>, Refusal> {
    let entries = fs::read_dir("/proc")
        .map_err(|error| Refusal::Blind(Reason::new(format!("cannot list `/proc`: {error}"))))?;
    let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(pid).collect())
}

/// `None` if it ended meanwhile.
fn process(
    pid: i32,
    stat: ProcessStat,
    target: &Target,
    volumes: &[Mount],
    detail: Detail,
) -> Result<Option<Process>, Reason> {
    let all = detail == Detail::All;
    // A name that may be longer than `comm` holds.
    let is_cut = stat.comm.len() >= COMM_LENGTH;
    let (by_arguments, by_exe) = match &target.by {
        TargetBy::Cmdline(_) => (true, false),
        TargetBy::Exe(_) => (false, true),
        TargetBy::Process(_) => (is_cut, is_cut),
        TargetBy::Mount | TargetBy::Pidfile(_) => (false, false),
    };
    // `/pause` is told from others of its name by its arguments.
    let by_arguments = by_arguments || stat.comm == "pause";
    let Some(container) = container(pid)? else { return Ok(None) };
    Ok(Some(Process {
        identity: Identity { pid, start_ticks: stat.start_ticks },
        parent: stat.parent,
        arguments: if all || by_arguments { arguments(pid)? } else { Vec::new() },
        exe: by_exe.then(|| exe(pid)).flatten(),
        uid: if all || target.uid.is_some() { uid(pid)? } else { None },
        container,
        mounts: if volumes.is_empty() { Mounts::No } else { mounts(pid, volumes)? },
        comm: stat.comm,
    }))
}

/// The executable; `None` if there is no such process, or it hides that from podnudge.
pub(super) fn exe(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

pub(super) fn arguments(pid: i32) -> Result<Vec<String>, Reason> {
    let text = of_process(pid, "cmdline")?.unwrap_or_default();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let words = text.split(|byte| *byte == 0);
    Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The effective uid: the second number of `Uid:`. The owner of `/proc/PID` is not it, for a
/// process that may not be dumped, such as an nginx worker.
pub(super) fn uid(pid: i32) -> Result<Option<u32>, Reason> {
    let Some(status) = status(pid)? else { return Ok(None) };
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    Ok(line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()))
}

/// What tells one container from another: the element of the process's cgroup that holds the
/// container's id, 64 hexadecimal digits, whatever the runtime puts around them. Empty for
/// podnudge's own container where that has a cgroup namespace, and where there are no containers.
/// `None` if the process ended.
pub(super) fn container(pid: i32) -> Result<Option<String>, Reason> {
    let Some(text) = of_process(pid, "cgroup")? else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    let mut elements = text.lines().filter_map(|line| line.rsplit('/').next());
    let element = elements.rfind(|element| holds_container_id(element));
    Ok(Some(element.unwrap_or_default().to_owned()))
}

fn holds_container_id(element: &str) -> bool {
    element.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() >= 64)
}

/// The mounts that show the watched paths to podnudge itself.
fn own_mounts(volumes: &[PathBuf]) -> Result<Vec<Mount>, Refusal> {
    let text = contents("/proc/self/mountinfo").map_err(|error| {
        Refusal::Blind(Reason::new(format!("cannot read `/proc/self/mountinfo`: {error}")))
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
                    "`{path}` is no volume of its own, so its mount does not tell who uses it"
                ));
                return Err(Refusal::Wrong(reason.hint(
                    "name the target by process, exe, cmdline or pidfile, or mount a volume there",
                )));
            }
        }
    }
    Ok(found)
}

/// How a process mounts these volumes; the whole volume counts before a part of it.
fn mounts(pid: i32, volumes: &[Mount]) -> Result<Mounts, Reason> {
    let text = of_process(pid, "mountinfo")?.unwrap_or_default();
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

/// The pid in a file, as podnudge sees the file; white space around it is nothing.
pub(super) fn pidfile(path: &Path) -> Result<i32, Refusal> {
    let shown = path.display();
    let bytes = files::read(path, LARGEST).map_err(|error| match error {
        FileError::System(error) if error.kind() == io::ErrorKind::NotFound => Refusal::NotFound(
            Reason::new(format!("there is no pidfile `{shown}`"))
                .hint("mount the directory of the file into both containers, or use process"),
        ),
        error => Refusal::Wrong(Reason::new(format!("cannot read the pidfile `{shown}`: {error}"))),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    match text.trim().parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        // A file that is being written is empty for a moment.
        _ if text.trim().is_empty() => {
            Err(Refusal::NotFound(Reason::new(format!("the pidfile `{shown}` is empty"))))
        }
        _ => Err(Refusal::Wrong(Reason::new(format!("the pidfile `{shown}` holds no pid")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let line = b"41 (a) S 9 (b) S 7 41 41 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        let stat = parse_stat(line).expect("it is a stat line");
        assert_eq!(stat.comm, "a) S 9 (b");
        assert_eq!((stat.parent, stat.start_ticks, stat.is_dead), (7, 12345, false));
    }

    #[test]
    fn a_first_thread_that_has_ended_alone_is_no_end() {
        let line = |state: &str, threads: u32| {
            format!(
                "41 (a) {state} 7 41 41 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 1 1"
            )
        };
        let is_dead = |text: String| parse_stat(text.as_bytes()).expect("a stat line").is_dead;
        assert!(!is_dead(line("Z", 2)) && !is_dead(line("S", 1)));
        assert!(is_dead(line("Z", 1)) && is_dead(line("Z", 0)) && is_dead(line("X", 1)));
    }

    #[test]
    fn this_process_is_seen_as_it_is() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = stat(pid).expect("it can be read").expect("it runs");
        let identity = Identity { pid, start_ticks: stat.start_ticks };
        assert!(age(identity) < Duration::from_hours(1));
        assert_eq!(super::super::life::life(identity), super::super::life::Life::Runs);
    }
}
