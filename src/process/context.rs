//! State that is shared by all code that finds or signals processes.
//!
//! Reads `/proc/self`, once.

use super::kept::Kept;
use super::proc;
use super::restarts::Restarts;
use super::select::Own;

/// State that is shared by all code that finds or signals processes.
#[derive(Debug)]
pub(crate) struct Context {
    /// podnudge's own process and container.
    pub(super) own: Own,
    /// The processes that podnudge itself has terminated.
    pub(crate) restarts: Restarts,
    /// The target of each rule, as found by the last search.
    pub(super) kept: Kept,
}

impl Context {
    /// Reads podnudge's own identity. It never changes, so once at start is enough.
    pub(crate) fn new() -> Self {
        Self { own: proc::own(), restarts: Restarts::default(), kept: Kept::default() }
    }

    /// Empties the target cache, so that the next search of each rule reads all processes.
    pub(crate) fn forget_targets(&self) {
        self.kept.forget_all();
    }
}
