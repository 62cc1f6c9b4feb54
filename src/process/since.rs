//! Since when a process may have read its configuration.
//!
//! Reads `/proc`; changes nothing. A process reads its configuration after its start, unless it
//! was forked by one that had read it already: a worker, or an application that makes itself a
//! daemon. A process that was forked and has executed no program since has read what its parent
//! has (`PF_FORKNOEXEC`), so the parent's start counts. Where the parent has ended, nothing tells
//! when that was: in a shared process namespace the main process of a container has the parent 0,
//! its descendants have parents in the container, and an orphan gets pid 1, which is `/pause` and in
//! another container (`find_new_reaper()` in the kernel's exit.c).
//!
//! What this cannot tell: that a parent hands down what it has read to a program that it executes, as
//! a shell does that fills a template and then starts the application.

use super::{Identity, proc};
use crate::clock::Moment;
use crate::core::LONGEST_START;
use crate::reason::Reason;

/// How many forks are followed.
const MOST_FORKS: u32 = 16;

/// Who may have read the configuration of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// The process, after its start.
    Itself,
    /// The one that it was forked from, which still runs.
    Parent(Identity),
    /// One before it that has ended. The first process of the container started at this moment,
    /// as far as that is known.
    Earlier(Option<Moment>),
}

/// The earliest moment at which the process, or the one that it was forked from, may have read its
/// configuration; up to one clock tick (10 ms) early.
pub(super) fn may_have_read_since(process: Identity) -> Moment {
    let mut process = process;
    for _ in 0..MOST_FORKS {
        match reader(process) {
            Ok(Reader::Parent(parent)) => process = parent,
            // What cannot be looked at may be an orphan: in doubt, podnudge acts.
            Err(_) => break,
            Ok(reader) => return reader.since(process.started()),
        }
    }
    Reader::Earlier(None).since(process.started())
}

impl Reader {
    fn since(self, started: Moment) -> Moment {
        match self {
            Self::Itself | Self::Parent(_) => started,
            Self::Earlier(container_started) => {
                let earliest = Moment(started.0.saturating_sub(LONGEST_START));
                // Nobody in a container is older than its first process. One that is younger than
                // the orphan is none, but was executed in the container later.
                let first = container_started.filter(|first| *first <= started);
                first.map_or(earliest, |first| earliest.max(first))
            }
        }
    }
}

fn reader(process: Identity) -> Result<Reader, Reason> {
    let Some(stat) = proc::stat(process.pid)? else { return Ok(Reader::Itself) };
    if stat.parent == 0 {
        return Ok(Reader::Itself);
    }
    let container = proc::container(process.pid)?;
    // A parent that has ended since then leaves an orphan.
    if proc::container(stat.parent)? == container {
        let parent = proc::stat(stat.parent)?.filter(|_| stat.is_copy);
        return Ok(parent.map_or(Reader::Itself, |parent| {
            Reader::Parent(Identity { pid: stat.parent, start_ticks: parent.start_ticks })
        }));
    }
    match container {
        Some(container) if !container.is_empty() => Ok(Reader::Earlier(first_start(&container)?)),
        _ => Ok(Reader::Earlier(None)),
    }
}

/// When the first of the processes started that were started in a container from outside: the
/// container ends with it.
fn first_start(container: &str) -> Result<Option<Moment>, Reason> {
    let mut first = None;
    for pid in proc::all_pids().map_err(|error| error.reason())? {
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
        assert_eq!(Reader::Itself.since(second(100)), second(100));
    }

    #[test]
    fn an_orphan_may_have_read_as_long_before_its_start_as_a_start_may_take() {
        assert_eq!(Reader::Earlier(None).since(second(100)), second(90));
        assert_eq!(Reader::Earlier(None).since(second(4)), second(0), "right after the boot");
    }

    #[test]
    fn an_orphan_has_read_nothing_before_its_container_started() {
        let since = |first| Reader::Earlier(Some(second(first))).since(second(100));
        assert_eq!(since(95), second(95));
        assert_eq!(since(20), second(90));
        assert_eq!(since(101), second(90), "executed in the container later");
    }

    #[test]
    fn this_process_has_a_parent_in_its_own_container() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = proc::stat(pid).expect("it can be read").expect("it runs");
        let identity = Identity { pid, start_ticks: stat.start_ticks };
        assert_eq!(may_have_read_since(identity), identity.started());
    }
}
