//! Signals to the own children of a process of podnudge, and to what these have left behind.
//!
//! The kernel does not reuse the pid of a child before that is reaped. Any other process is opened first (`pidfd_open(2)`),
//! and looked at then: so the signal reaches the process that was meant, or none.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use rustix_libc_wrappers::process::SignalExt as _;

use super::Identity;
use super::liveness::{ProcessState, process_state};

/// Continues a child of podnudge that somebody may have stopped. It must not be reaped yet.
pub fn continue_own_child(child: Pid) {
    _ = rustix::process::kill_process(child, rustix::process::Signal::CONT);
}

/// Sends a child of podnudge a signal by its number, which may be that of a real-time signal. It must not be
/// reaped yet.
pub(super) fn pass_on(child: Pid, number: i32) {
    if let Some(signal) = rustix::process::Signal::from_raw(number) {
        _ = rustix::process::kill_process(child, signal);
    }
}

/// Kills a process that a program of podnudge has left behind. Returns its pidfd, to wait for its end.
pub(super) fn kill_left_behind(identity: Identity) -> Option<OwnedFd> {
    let pid = Pid::from_raw(identity.pid)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty());
    // The pid may have been reused before it was opened.
    if process_state(identity) != ProcessState::Running {
        return None;
    }
    match pidfd {
        Ok(pidfd) => {
            _ = pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
            Some(pidfd)
        }
        Err(Errno::NOSYS | Errno::PERM) => {
            _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            None
        }
        Err(_) => None,
    }
}
