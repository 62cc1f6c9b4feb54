//! Whether a process still runs.
//!
//! Reads `/proc/PID/stat`.

use super::Identity;
use super::proc::{Life, stat};
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
        Ok(Some(stat)) if stat.is_dead() => ended(),
        Ok(Some(_)) => ProcessState::Running,
    }
}

/// Whether this process runs, and its last thread has not begun to end: then it has no program any more.
#[must_use]
pub fn is_alive(identity: Identity) -> bool {
    let stat = stat(identity.pid).ok().flatten();
    stat.is_some_and(|stat| stat.start_ticks == identity.start_ticks && stat.life == Life::Running)
}
