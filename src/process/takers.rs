//! Remembers the processes that took a signal. One that does not take it any more, or a new one of the
//! same name, is starting again: an application that executes itself has no handlers until it has
//! installed them, and must not be mistaken for a wrapper of its own workers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::Signal;

use super::Identity;
use super::handling::is_young;
use super::select::Process;

/// How many are remembered: more than the targets of a pod.
const MAX_REMEMBERED: usize = 64;

/// Processes and the signals that they took.
#[derive(Debug, Default)]
pub(super) struct Takers(Mutex<VecDeque<(Identity, String, Signal)>>);

impl Takers {
    /// Records that this process takes the signal.
    pub(super) fn record(&self, process: &Process, signal: Signal) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(identity, _, of)| (*identity, *of) != (process.identity, signal));
        known.push_back((process.identity, process.comm.clone(), signal));
        let surplus = known.len().saturating_sub(MAX_REMEMBERED);
        known.drain(..surplus);
    }

    /// Whether a process that does not take the signal now is starting again.
    pub(super) fn is_restarting(&self, process: &Process, signal: Signal) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|(identity, comm, of)| {
            let is_same = *identity == process.identity;
            *of == signal && (is_same || (*comm == process.comm && is_young(process.identity)))
        })
    }
}
