//! The name that podnudge gives to its own processes (`PR_SET_NAME`), but for `podnudge supervise`
//! ([`podnudge_supervise::marks`]). Another podnudge recognises them by it, whatever the files are called: every process
//! may read it in `/proc/PID/stat`, also those of another uid, container or user namespace.
//!
//! Changes only the name of the calling process.

use std::ffi::CStr;

use nix::sys::prctl;

/// The name of each process of podnudge but `podnudge supervise`. Neither such a process nor what it has
/// started is a target.
pub const AGENT: &CStr = c"podnudge-agent";
/// The name of the executable in the image: that of a process that has only just started.
const FILE: &CStr = c"podnudge";

/// Marks this process as podnudge. Call it first, on the main thread: threads inherit the name, programs do not.
pub fn mark_as_agent() {
    // It only fails for an address that cannot be read.
    _ = prctl::set_name(AGENT);
}

/// Whether a process with this name is podnudge, and not `podnudge supervise`.
pub(super) fn is_agent(comm: &str) -> bool {
    [AGENT, FILE].iter().any(|name| name.to_bytes() == comm.as_bytes())
}
