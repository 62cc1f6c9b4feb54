//! The processes that podnudge ends itself: rules may share a target, and what one rule ends is held
//! against no content of another.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Identity;

/// How many are remembered: more than can be waited for at a time.
const MOST: usize = 64;

/// Written before a process is ended, so that nobody sees its end without knowing whose it is.
#[derive(Debug, Default)]
pub(crate) struct Restarts(Mutex<VecDeque<Identity>>);

impl Restarts {
    /// These are about to be ended.
    pub(crate) fn begin(&self, processes: &[Identity]) {
        let mut known = self.known();
        known.extend(processes);
        let surplus = known.len().saturating_sub(MOST);
        known.drain(..surplus);
    }

    /// Whether podnudge has ended this one.
    pub(crate) fn has(&self, process: Identity) -> bool {
        self.known().contains(&process)
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Identity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
