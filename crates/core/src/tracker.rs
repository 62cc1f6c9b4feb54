//! Tracks which content the application runs, as far as that is known.
//!
//! [`VolumeTracker`](super::volume_tracker::VolumeTracker) does so where the application reads the
//! volumes, [`Generations`](super::generations::Generations) where it reads what podnudge
//! publishes. `Rule::new` chooses between them. The default methods here serve the one to which a
//! method does not apply.

use std::fmt::Debug;

use super::event::{Current, Inspection, Known};
use super::evidence::Evidence;
use super::fact::Basis;
use super::intake::{OnDisk, Source};
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The conclusion from a scan, or from an inspection of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conclusion {
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
pub(super) enum Save {
    Nothing,
    /// Save it in the state directory.
    Known(Known),
    /// This digest is good: save it in the record of the publish directory.
    Good(Digest, Evidence),
}

/// Work that an earlier podnudge left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// This content is published but unproven.
    Proof(OnDisk),
    /// This content failed and has to be rolled back.
    RollBack(OnDisk),
}

pub(super) trait Tracker: Debug + Send {
    /// Whether the application reads the volumes, so that only the content on disk can be rolled
    /// out.
    fn reads_volumes(&self) -> bool;

    /// The digest that the application is known, or at start assumed, to run. `None` after anything
    /// was sent and until it is verified.
    fn running(&self) -> Option<Digest>;

    /// How that is known.
    fn evidence(&self) -> Evidence;

    /// Whether the first scan is complete.
    fn is_started(&self) -> bool;

    /// Whether an inspection of the target is pending.
    fn is_inspecting(&self) -> bool;

    /// Whether the first scan is complete and no inspection of the target is pending.
    fn is_resolved(&self) -> bool {
        self.is_started() && !self.is_inspecting()
    }

    /// Handles the first complete scan.
    fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion;

    /// Handles a scan that found what the application runs. `after_other`: there was a candidate or
    /// a rollout of other content before.
    fn unchanged(&mut self, now: Now, source: &Source, after_other: bool) -> Conclusion;

    /// Looks for evidence that the application runs the content on disk, if there is none: it may have
    /// started since.
    fn look_for_evidence(&mut self, _disk: Digest) -> Conclusion {
        Conclusion::Nothing
    }

    /// Handles the answer to the pending inspection.
    fn inspected(
        &mut self,
        now: Now,
        target: Inspection,
        disk: OnDisk,
        source: &Source,
    ) -> Conclusion;

    fn set_baseline(&mut self, now: Now, digest: Digest, basis: Basis) -> Save;

    /// An action was sent: what runs is unknown, and the application may be reading until `until`.
    fn delivered(&mut self, until: Moment);

    /// The target has ended after the rollout: what ran the content is gone.
    fn target_ended(&mut self) {}

    /// Forgets the running digest.
    fn invalidate(&mut self);

    /// The rollout of this digest has succeeded, with this evidence.
    fn applied(&mut self, now: Now, digest: Digest, evidence: Evidence, source: &Source) -> Save;

    /// The digest has passed its trial, or needs none: it is good.
    fn survived(&mut self, _digest: Digest) -> Save {
        Save::Nothing
    }

    /// A scan found this digest.
    fn scanned(&mut self, _on_disk: Digest) {}

    /// Whether to act even if the target has read the content at its start.
    fn must_act(&self) -> bool {
        false
    }

    /// The state to save as an action begins, in case podnudge is killed before its outcome.
    fn action_started(&self, _now: UnixTime) -> Save {
        Save::Nothing
    }

    /// The state to save when the content went back to what the application runs.
    fn reverted(&self, _now: UnixTime) -> Save {
        Save::Nothing
    }

    fn unfinished(&self, _now: Now) -> Option<Unfinished> {
        None
    }

    /// The published generation, where podnudge publishes.
    fn current(&self) -> Option<Current> {
        None
    }

    /// Since when an application that starts reads this content.
    fn readable_since(&self, content: OnDisk) -> Moment {
        content.committed_at
    }

    /// Whether the application has nothing to read until podnudge publishes.
    fn is_empty(&self) -> bool {
        false
    }

    /// The last good digest, to which a rollback is possible.
    fn last_good(&self) -> Option<Digest> {
        None
    }

    /// Why this digest is quarantined, if it is.
    fn quarantine_reason(&self, _digest: Digest) -> Option<&Reason> {
        None
    }

    /// Whether this digest must be published before the application can read it.
    fn needs_publish(&self, _digest: Digest) -> bool {
        false
    }

    /// The digest to which a rollout of `from` can be rolled back.
    fn roll_back_to(&self, _from: Digest) -> Option<Digest> {
        None
    }

    /// The digest was published: from now on the application may read it when it starts.
    fn published(&mut self, _now: Moment, _digest: Digest) {}

    /// Publishing failed, perhaps after the swap. `current` is what the application now reads, if
    /// that is known. Returns whether it reads `digest`.
    fn publication_failed(
        &mut self,
        _now: Moment,
        _digest: Digest,
        _current: Option<Digest>,
    ) -> bool {
        false
    }

    /// A resync found this digest published. Returns whether podnudge had published another one.
    fn found_published(&mut self, _digest: Option<Digest>) -> bool {
        false
    }

    /// Quarantines a digest that failed.
    fn quarantine(&mut self, _digest: Digest, _reason: Reason) {}

    /// Releases a digest from quarantine.
    fn release(&mut self, _digest: Digest) {}
}
