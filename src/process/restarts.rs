//! Remembers the processes that podnudge itself terminates. Rules may share a target: when one rule
//! restarts it, the other rules' content must not be blamed for the exit.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Identity;

/// How many are remembered: more than can be waited for at the same time.
const MAX_REMEMBERED: usize = 64;

/// Recorded before the signal is sent, so that every exit that is seen can be attributed.
#[derive(Debug, Default)]
pub(crate) struct Restarts(Mutex<VecDeque<Identity>>);

impl Restarts {
    /// Records processes that are about to be terminated.
    pub(crate) fn record(&self, processes: &[Identity]) {
        let mut known = self.known();
        known.extend(processes);
        let surplus = known.len().saturating_sub(MAX_REMEMBERED);
        known.drain(..surplus);
    }

    /// Removes what was recorded last of these processes, of which none was signalled.
    pub(crate) fn forget(&self, processes: &[Identity]) {
        let mut known = self.known();
        for process in processes {
            if let Some(place) = known.iter().rposition(|one| one == process) {
                known.remove(place);
            }
        }
    }

    /// Whether podnudge has terminated this process.
    pub(crate) fn contains(&self, process: Identity) -> bool {
        self.known().contains(&process)
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Identity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
