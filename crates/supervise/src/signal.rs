//! Signals to the own children of a process of podnudge, and to what these have left behind.
//!
//! The kernel does not reuse the pid of a child before that is reaped. Any other process is opened first (`pidfd.rs`): so
//! the signal reaches the process that was meant, or none.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, pidfd_send_signal};
use rustix_libc_wrappers::process::SignalExt as _;

use super::{Identity, pidfd};

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
    let kill = rustix::process::Signal::KILL;
    let pidfd = pidfd::open(identity).ok()?;
    match &pidfd {
        Some(pidfd) => _ = pidfd_send_signal(pidfd, kill),
        None => _ = rustix::process::kill_process(Pid::from_raw(identity.pid)?, kill),
    }
    pidfd
}
