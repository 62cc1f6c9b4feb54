//! What an action leaves for its verification. Asks `/proc` whether its processes have ended.

use std::sync::Arc;

use super::proofs::Before;
use crate::clock::Moment;
use crate::core::event::Acted;
use crate::process::ending::{self, Ending};
use crate::process::{Identity, Life, life};
use crate::volume::snapshot::Digest;

/// What an action leaves for its verification, and for the next attempt: which processes it is about,
/// and what was there before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Baseline {
    /// The processes that were acted on and must keep running.
    pub(crate) processes: Vec<Identity>,
    /// Those that were ended, to be started anew.
    pub(crate) replaced: Vec<Identity>,
    /// What the proofs compare with.
    pub(crate) before: Option<Arc<Before>>,
    /// What was done where some of the actions were and the last of them were not.
    pub(crate) partial: Option<Partial>,
}

/// What was done for a digest where the last of the actions were not.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    pub(crate) digest: Digest,
    pub(crate) at: Moment,
    pub(crate) acted: Acted,
}

impl Baseline {
    /// Whether a process that must keep running has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let has_ended = |process: &Identity| matches!(life(*process), Life::Ended(_));
        self.processes.iter().any(has_ended)
    }

    /// The ends of the processes that must keep running, to be waited for. Where there are no pidfds,
    /// the next look tells.
    pub(crate) fn endings(&self) -> Vec<Ending> {
        self.processes.iter().filter_map(|process| ending::of(*process)).collect()
    }
}
