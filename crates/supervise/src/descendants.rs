//! Ends the descendants of the calling process: what its programs have left behind.
//!
//! Reads `/proc`; kills the processes that it finds. A descendant can detach from its parent, but not from
//! a subreaper (`PR_SET_CHILD_SUBREAPER`), whose child it becomes: so all of them are found again.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use podnudge_core::collect;

use super::Identity;
use super::proc::{all_pids, stat};
use super::signal::kill_left_behind;

/// How long one pass waits for the end of the processes that it has killed.
const PASS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The descendants of this process that are alive, but for these children and their descendants.
fn alive(except: &[i32]) -> Vec<Identity> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let pids = all_pids().unwrap_or_default();
    let read = |pid| Some((pid, stat(pid).ok()??));
    let table = collect::map(pids.into_iter().filter_map(read));
    let is_left = |pid: i32| {
        let mut at = pid;
        // Pids that were reused during the reading could form a circle.
        for _ in 0..table.len() {
            if except.contains(&at) {
                return false;
            }
            match table.get(&at) {
                Some(stat) if stat.parent == own => return true,
                Some(stat) => at = stat.parent,
                // Its parent has ended meanwhile: the next pass finds it elsewhere.
                None => return false,
            }
        }
        false
    };
    let left = table.iter().filter(|(pid, stat)| !stat.is_dead() && is_left(**pid));
    left.map(|(pid, stat)| Identity { pid: *pid, start_ticks: stat.start_ticks }).collect()
}

/// What one pass has found.
pub struct Pass {
    is_empty: bool,
    /// One of those that it has killed.
    killed: Option<OwnedFd>,
}

/// Kills the descendants of this process that are alive now, but for these children and their descendants.
/// It does not wait for their end. No child may be started meanwhile that is not among `except`.
#[must_use]
pub fn kill_alive(except: &[i32]) -> Pass {
    let found = alive(except);
    let is_empty = found.is_empty();
    let kill = |killed, left| kill_left_behind(left).or(killed);
    Pass { is_empty, killed: found.into_iter().fold(None, kill) }
}

/// Kills all descendants of this process, and reaps them with `reap`, which says whether there is no child any more.
/// Gives up after so many passes.
pub fn end_and_reap(passes: u32, reap: &mut dyn FnMut() -> bool) {
    for pass in 0..passes {
        if pass > 1 {
            // One that has ended cannot be reaped while a debugger has it.
            _ = poll(&mut [], Some(&PASS));
        }
        // A process cannot be killed while it waits for a device.
        if reap() || !end_all(passes, &|| kill_alive(&[])) {
            return;
        }
    }
}

/// Kills descendants of this process, with `pass`, until none is alive. Returns whether it succeeded: a
/// process cannot be killed while it waits for a device, or if it has another uid. It waits at most
/// 10 ms for each pass, and only between them.
///
/// It reaps none of them: while they count, a limit on processes keeps the others from forking.
pub fn end_all(passes: u32, pass: &dyn Fn() -> Pass) -> bool {
    let mut was_empty = false;
    for _ in 0..passes {
        let Pass { is_empty, killed } = pass();
        // One that is moved to another parent during the reading may be missed, but not twice.
        if is_empty && was_empty {
            return true;
        }
        was_empty = is_empty;
        if !is_empty {
            // Without a pidfd, for the whole time.
            let pidfd = killed.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
            _ = poll(&mut pidfd.collect::<Vec<_>>(), Some(&PASS));
        }
    }
    false
}
