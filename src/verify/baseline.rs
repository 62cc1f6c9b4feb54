//! The state that an action passes to its verification. Reads `/proc`.

use std::sync::Arc;

use nix::sys::signal::Signal;

use super::proofs::StateBefore;
use crate::process::exit_watch::{self, ExitWatch};
use crate::process::{Identity, ProcessState, TargetProcess, process_state, roots};
use crate::volume::reads::ReadWatch;
use podnudge_core::clock::Moment;
use podnudge_core::event::Acted;
use podnudge_core::snapshot::Digest;

/// The state that an action passes to its verification and to the next attempt: the processes it
/// acted on, and the values before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Baseline {
    /// The processes that were acted on and must keep running.
    pub(crate) processes: Vec<Identity>,
    /// The processes above these, such as an init: if podnudge terminates one for another rule, that ends
    /// them, too.
    pub(crate) ancestors: Vec<Identity>,
    /// The processes that were terminated, to be restarted.
    pub(crate) replaced: Vec<Identity>,
    /// When the action was commanded that terminated them: those that replace them started later.
    pub(crate) replaced_at: Moment,
    /// The signal that these processes were sent.
    pub(crate) signal: Option<Signal>,
    /// The values that the proofs compare with.
    pub(crate) before: Option<Arc<StateBefore>>,
    /// Tells whether the new content was opened since the action.
    pub(crate) reads: Option<Arc<ReadWatch>>,
    /// The actions that were done, if a later action of the rule failed.
    pub(crate) partial: Option<Partial>,
}

/// The result of the first actions for a digest, if a later action failed.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    pub(crate) digest: Digest,
    pub(crate) at: Moment,
    pub(crate) acted: Acted,
}

impl Baseline {
    /// For an action on these processes.
    pub(crate) fn of(targets: &[TargetProcess]) -> Self {
        let ancestors = targets.iter().flat_map(|target| &target.ancestors);
        Self {
            processes: roots(targets),
            ancestors: ancestors.map(|ancestor| ancestor.identity).collect(),
            ..Self::default()
        }
    }

    /// Whether a process that must keep running has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let has_ended =
            |process: &Identity| matches!(process_state(*process), ProcessState::Ended(_));
        self.processes.iter().any(has_ended)
    }

    /// Exit watches for the processes that must keep running. Without pidfds, the next verification
    /// detects the exit.
    pub(crate) fn exit_watches(&self) -> Vec<ExitWatch> {
        self.processes.iter().filter_map(|process| exit_watch::open(*process)).collect()
    }
}
