//! What follows from a scan, an inspection or a rollout: for the rule to do, and for podnudge to save.

use crate::event::Known;
use crate::evidence::Evidence;
use crate::fact::Basis;
use crate::intake::OnDisk;
use crate::snapshot::Digest;

/// The conclusion from a scan, or from an inspection of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// None: the content has changed meanwhile.
    Nothing,
    /// Inspect the target: its start time decides.
    Inspect,
    /// The application runs the content on disk.
    Baseline(Basis),
    /// Roll out the content on disk.
    RollOut,
    /// Verify the published content: the application reads it, or will read it when it starts.
    Verify(Digest),
    /// The application still runs the content on disk.
    Unchanged,
    /// The content on disk went back to what the application runs.
    Reverted,
}

/// The state to save across a restart of podnudge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    Nothing,
    /// What the application runs, for the state directory.
    Known(Known),
    /// A digest that is good, for the record of the publish directory.
    Good(Digest, Evidence),
}

impl Save {
    /// What to save of a digest that may be good.
    pub(super) fn good(digest: Digest, evidence: Evidence, is_good: bool) -> Self {
        if is_good { Self::Good(digest, evidence) } else { Self::Nothing }
    }
}

/// Work that an earlier podnudge left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// The content is published but unproven.
    Proof(OnDisk),
    /// The content failed and has to be rolled back.
    RollBack(OnDisk),
}
