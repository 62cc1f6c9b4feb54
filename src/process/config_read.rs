//! Finds the earliest time at which a process may have read its configuration.
//!
//! Reads `/proc`; changes nothing. A process reads its configuration after its start, unless it was
//! forked by a process that had read it already: a worker, or an application that becomes a daemon.
//! A process that was forked and has not called exec since (`PF_FORKNOEXEC`) has its parent's
//! configuration, so the parent's start counts. If the parent has ended, its start time is unknown:
//! in a shared process namespace the main process of a container has the parent 0, its descendants
//! have parents in the container, and an orphan gets the parent pid 1, which is `/pause` and in
//! another container (`find_new_reaper()` in the kernel's exit.c).
//!
//! This cannot detect that a process passes what it has read to a program that it executes, such as
//! a shell that fills in a template and then starts the application.

use super::{Identity, proc};
use podnudge_core::MAX_STARTUP;
use podnudge_core::clock::Moment;
use podnudge_core::reason::Reason;

/// The largest number of forks to follow.
const MAX_FORKS: u32 = 16;

/// Which process may have read the configuration of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigReader {
    /// The process itself, after its start.
    Itself,
    /// The process that forked it, which still runs.
    Parent(Identity),
    /// An ancestor that has ended. The first process of the container started at this moment, if
    /// that is known.
    ExitedAncestor(Option<Moment>),
}

/// The earliest moment at which the process, or an ancestor without an exec in between, may have
/// read its configuration; up to one clock tick (10 ms) early.
pub(super) fn earliest_config_read(process: Identity) -> Moment {
    let mut process = process;
    for _ in 0..MAX_FORKS {
        match config_reader(process) {
            Ok(ConfigReader::Parent(parent)) => process = parent,
            // If `/proc` cannot be read it may be an orphan: if in doubt, podnudge acts.
            Err(_) => break,
            Ok(reader) => return reader.since(process.started()),
        }
    }
    ConfigReader::ExitedAncestor(None).since(process.started())
}

impl ConfigReader {
    fn since(self, started: Moment) -> Moment {
        match self {
            Self::Itself | Self::Parent(_) => started,
            Self::ExitedAncestor(container_started) => {
                let earliest = Moment(started.0.saturating_sub(MAX_STARTUP));
                // No process of a container is older than its first one. One that is younger than
                // the orphan was executed in the container later.
                let first = container_started.filter(|first| *first <= started);
                first.map_or(earliest, |first| earliest.max(first))
            }
        }
    }
}

fn config_reader(process: Identity) -> Result<ConfigReader, Reason> {
    let Some(stat) = proc::stat(process.pid)? else { return Ok(ConfigReader::Itself) };
    if stat.parent == 0 {
        return Ok(ConfigReader::Itself);
    }
    let container = proc::container(process.pid)?;
    // If the parent has ended since then, the process is an orphan.
    if proc::container(stat.parent)? == container {
        let parent = proc::stat(stat.parent)?.filter(|_| stat.is_forked_without_exec);
        return Ok(parent.map_or(ConfigReader::Itself, |parent| {
            ConfigReader::Parent(Identity { pid: stat.parent, start_ticks: parent.start_ticks })
        }));
    }
    match container {
        Some(container) if !container.is_empty() => {
            Ok(ConfigReader::ExitedAncestor(first_start(&container)?))
        }
        _ => Ok(ConfigReader::ExitedAncestor(None)),
    }
}

/// The start of a container's first process, among those that were started from outside: the
/// container ends with it.
fn first_start(container: &str) -> Result<Option<Moment>, Reason> {
    let mut first = None;
    for pid in proc::all_pids()? {
        let Some(stat) = proc::stat(pid)?.filter(|stat| stat.parent == 0) else { continue };
        if proc::container(pid)?.as_deref() == Some(container) {
            let started = Identity { pid, start_ticks: stat.start_ticks }.started();
            first = Some(first.map_or(started, |first: Moment| first.min(started)));
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn second(number: u64) -> Moment {
        Moment(Duration::from_secs(number))
    }

    #[test]
    fn a_process_reads_after_its_start() {
        assert_eq!(ConfigReader::Itself.since(second(100)), second(100));
    }

    #[test]
    fn an_orphan_may_have_read_up_to_the_longest_start_before_its_own() {
        assert_eq!(ConfigReader::ExitedAncestor(None).since(second(100)), second(90));
        assert_eq!(
            ConfigReader::ExitedAncestor(None).since(second(4)),
            second(0),
            "right after the boot"
        );
    }

    #[test]
    fn an_orphan_has_read_nothing_before_its_container_started() {
        let since = |first| ConfigReader::ExitedAncestor(Some(second(first))).since(second(100));
        assert_eq!(since(95), second(95));
        assert_eq!(since(20), second(90));
        assert_eq!(since(101), second(90), "executed in the container later");
    }

    #[test]
    fn this_process_has_a_parent_in_its_own_container() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = proc::stat(pid).expect("it can be read").expect("it runs");
        let identity = Identity { pid, start_ticks: stat.start_ticks };
        assert_eq!(earliest_config_read(identity), identity.started());
    }
}
