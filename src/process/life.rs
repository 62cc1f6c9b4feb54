//! Whether a process still runs.
//!
//! Reads `/proc/PID/stat`.

use super::{Identity, proc};
use crate::reason::Reason;

/// What became of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It is still the one that was chosen, and runs.
    Runs,
    /// It ended, and perhaps another one has its pid.
    Ended(Reason),
    /// It cannot be told now.
    Unknown(Reason),
}

/// What became of the process that was chosen.
#[must_use]
pub fn life(identity: Identity) -> Life {
    let pid = identity.pid;
    let ended = || Life::Ended(Reason::new(format!("process {pid} ended")));
    match proc::stat(pid) {
        Err(reason) => Life::Unknown(reason),
        Ok(None) => ended(),
        Ok(Some(stat)) if stat.start_ticks != identity.start_ticks => {
            Life::Ended(Reason::new(format!("process {pid} ended, and another one has its pid")))
        }
        Ok(Some(stat)) if stat.is_dead => ended(),
        Ok(Some(_)) => Life::Runs,
    }
}
