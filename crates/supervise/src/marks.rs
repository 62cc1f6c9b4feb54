//! By what podnudge recognises the supervisor, and how it asks for a restart. Pure.

use std::ffi::CStr;

use nix::sys::signal::Signal;

/// The name of the supervisor (`PR_SET_NAME`). Every process may read it in `/proc/PID/stat`, also one of another uid,
/// container or user namespace. Such a process is never a target: its command is.
pub const SUPERVISOR: &CStr = c"podnudge-init";

/// The request for a restart. No kernel sends this signal (signal(7)), and no known program uses it. It is
/// no real-time signal, whose numbers depend on the C library.
pub const REQUEST: Signal = Signal::SIGSTKFLT;

/// Whether a process with this name is a supervisor.
#[must_use]
pub fn is_supervisor(comm: &str) -> bool {
    comm.as_bytes() == SUPERVISOR.to_bytes()
}
