//! Reads `/proc` (proc(5)): only what the target setting needs, and as little as possible of
//! processes that cannot match. Skips processes that end during the reading.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nix::sys::signal::Signal;
use rustix::time::{ClockId, clock_gettime};

use super::select::{Pidfile, Refusal};
use super::{Identity, texts};
use crate::system::files::{self, FileError, LARGEST};
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::reason::Reason;
pub(super) use podnudge_supervise::proc::{
    ProcessStat, all_pids, read_proc_file, read_process_file, stat,
};

/// The most processes above another one that are looked at.
pub(super) const MOST_LEVELS: usize = 64;

/// `/proc/PID/status`; `None` if there is no such process.
pub(super) fn status(pid: i32) -> Result<Option<String>, Reason> {
    Ok(read_process_file(pid, "status")?.map(texts::lossy))
}

/// Whether a mask of signals contains this one.
pub(super) fn contains(mask: u64, signal: Signal) -> bool {
    mask >> (signal as u32 - 1) & 1 == 1
}

/// The time since the process started.
pub(crate) fn age(identity: Identity) -> Duration {
    now().since(identity.started())
}

/// The current time on the clock of process start times, which count from the boot (proc(5)).
pub(crate) fn now() -> Moment {
    Moment(time_of(ClockId::Boottime))
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The executable; `None` if the process does not exist, or podnudge may not read it.
pub(super) fn exe(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

pub(super) fn arguments(pid: i32) -> Result<Vec<String>, Reason> {
    Ok(texts::parse_arguments(&read_process_file(pid, "cmdline")?.unwrap_or_default()))
}

/// The effective uid. The owner of `/proc/PID` may differ: it is root for a process that is not
/// dumpable, such as an nginx worker.
pub(super) fn uid(pid: i32) -> Result<Option<u32>, Reason> {
    Ok(status(pid)?.as_deref().and_then(texts::parse_uid))
}

/// The id of the process's container: the element of its cgroup path with 64 hexadecimal digits,
/// whatever the runtime adds around them. Empty for podnudge's own container if that has a cgroup
/// namespace, and outside containers. `None` if the process has ended.
pub(super) fn container(pid: i32) -> Result<Option<String>, Reason> {
    Ok(cgroup(pid)?.map(|text| texts::parse_container(text.as_bytes())))
}

/// `/proc/PID/cgroup`; `None` if the process has ended.
pub(super) fn cgroup(pid: i32) -> Result<Option<String>, Reason> {
    Ok(read_process_file(pid, "cgroup")?.map(texts::lossy))
}

/// Reads a pidfile; white space around the pid is ignored.
pub(super) fn pidfile(path: &Path) -> Result<Pidfile, Refusal> {
    let shown = path.display();
    let refused = |error: FileError| match error {
        FileError::System(error) if error.kind() == io::ErrorKind::NotFound => Refusal::NotFound(
            Reason::new(format!("there is no pidfile `{shown}`"))
                .hint("mount the directory of the file into both containers, or use process"),
        ),
        error => {
            Refusal::Unsupported(Reason::new(format!("cannot read the pidfile `{shown}`: {error}")))
        }
    };
    // An older time than that of the content is corrected by the next reading.
    let (bytes, metadata) = files::read_dated(path, LARGEST).map_err(refused)?;
    let written = metadata.modified().map_err(|error| refused(error.into()))?;
    let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Now { mono: now(), wall: UnixTime(time_of(ClockId::Realtime)) };
    match texts::parse_pid(&bytes) {
        Ok(Some(pid)) => Ok(Pidfile { pid, written: now.moment_of(UnixTime(written)) }),
        // The application may be writing the file.
        Ok(None) => Err(Refusal::NotFound(Reason::new(format!("the pidfile `{shown}` is empty")))),
        Err(texts::NoPid) => {
            Err(Refusal::Unsupported(Reason::new(format!("the pidfile `{shown}` contains no pid"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{ProcessState, process_state};

    #[test]
    fn the_stat_of_this_process_is_read() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = stat(pid).expect("it can be read").expect("it runs");
        let identity = Identity { pid, start_ticks: stat.start_ticks };
        assert!(age(identity) < Duration::from_hours(1));
        assert_eq!(process_state(identity), ProcessState::Running);
    }
}
