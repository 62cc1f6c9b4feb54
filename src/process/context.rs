//! What podnudge knows of itself where it looks at processes.
//!
//! Reads `/proc/self`, once.

use super::kept::Kept;
use super::proc;
use super::restarts::Restarts;
use super::select::Own;

/// What podnudge knows of itself: a value for all that looks for targets and acts on them.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where podnudge runs.
    pub(super) own: Own,
    /// Which processes it has ended.
    pub(crate) restarts: Restarts,
    /// The target of each rule, as the last look found it.
    pub(super) kept: Kept,
}

impl Context {
    /// Looks at podnudge's own process. None of it changes while it runs: once, at start, is enough.
    pub(crate) fn new() -> Self {
        Self { own: proc::own(), restarts: Restarts::default(), kept: Kept::default() }
    }

    /// From now on every target is looked for among all processes, until one is found again.
    pub(crate) fn forget_targets(&self) {
        self.kept.forget_all();
    }
}
