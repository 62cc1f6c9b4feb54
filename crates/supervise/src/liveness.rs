//! Whether a process still runs.
//!
//! Reads `/proc/PID/stat`.

use super::Identity;
use super::proc::stat;
use podnudge_core::reason::Reason;

/// Whether a process still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessState {
    /// The process runs, and its pid was not reused.
    Running,
    /// The process has ended, and its pid may have been reused.
    Ended(Reason),
    /// `/proc` cannot be read now.
    Unknown(Reason),
}

/// Whether this process still runs.
#[must_use]
pub fn process_state(identity: Identity) -> ProcessState {
    let pid = identity.pid;
    let ended = || ProcessState::Ended(Reason::new(format!("process {pid} ended")));
    match stat(pid) {
        Err(reason) => ProcessState::Unknown(reason),
        Ok(None) => ended(),
        Ok(Some(stat)) if stat.start_ticks != identity.start_ticks => ProcessState::Ended(
            Reason::new(format!("process {pid} ended, and another one has its pid")),
        ),
        Ok(Some(stat)) if stat.is_dead => ended(),
        Ok(Some(_)) => ProcessState::Running,
    }
}
