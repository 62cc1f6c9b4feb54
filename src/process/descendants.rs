//! Ends the descendants of the calling process: what its programs have left behind.
//!
//! Reads `/proc`; kills the processes that it finds. A descendant can detach from its parent, but not from
//! a subreaper (`PR_SET_CHILD_SUBREAPER`), whose child it becomes: so all of them are found again.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Identity, proc, signal};

/// How long one pass waits for the end of the processes that it has killed.
const PASS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The descendants of this process that are alive, but for these children and their descendants.
fn alive(except: &[i32]) -> Vec<Identity> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let pids = proc::all_pids().unwrap_or_default();
    let read = |pid| Some((pid, proc::stat(pid).ok()??));
    let table: BTreeMap<i32, proc::ProcessStat> = pids.into_iter().filter_map(read).collect();
    let is_left = |pid: i32| {
        let mut at = pid;
        // Pids that were reused during the reading could form a circle.
        for _ in 0..table.len() {
            if except.contains(&at) {
                return false;
            }
            match table.get(&at) {
                Some(stat) if stat.parent == own => return !except.contains(&at),
                Some(stat) => at = stat.parent,
                // Its parent has ended meanwhile: the next pass finds it elsewhere.
                None => return false,
            }
        }
        false
    };
    let left = table.iter().filter(|(pid, stat)| !stat.is_dead && is_left(**pid));
    left.map(|(pid, stat)| Identity { pid: *pid, start_ticks: stat.start_ticks }).collect()
}

/// Kills all descendants of this process, but for these children and their descendants, until none is
/// alive. Returns whether it succeeded: a process cannot be killed while it waits for a device, or if
/// it has another uid. It takes at most 10 ms for each pass.
///
/// It reaps none of them: while they count, a limit on processes keeps the others from forking.
pub(crate) fn end_all(except: &[i32], passes: u32) -> bool {
    let mut was_empty = false;
    for _ in 0..passes {
        let found = alive(except);
        // One that is moved to another parent during the reading may be missed, but not twice.
        if found.is_empty() && was_empty {
            return true;
        }
        was_empty = found.is_empty();
        let mut killed = None;
        for left in found {
            killed = signal::kill_left_behind(left).or(killed);
        }
        if let Some(pidfd) = killed {
            _ = poll(&mut [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)], Some(&PASS));
        }
    }
    false
}
