//! What the application is known to run: a question with one answer for each way in which it reads.
//!
//! [`Belief`](super::belief::Belief) answers where it reads the volumes themselves,
//! [`Generations`](super::generations::Generations) where it reads what podnudge publishes. Which of
//! the two a rule has is chosen once, in `Rule::new`; what has no meaning for one of them has an
//! answer here.

use std::fmt::Debug;

use super::event::{Current, Inspection, Memory};
use super::fact::Basis;
use super::source::{OnDisk, Source};
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// What follows from a first scan, or from the answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conclusion {
    /// Nothing: the content went on meanwhile.
    Nothing,
    /// It is asked since when the target runs.
    Ask,
    /// The application runs what is on disk.
    Baseline(Basis),
    /// What is on disk is to be rolled out.
    RollOut,
    /// What is published is to be proven: the application reads it, or will at its start.
    Prove(Digest),
    /// The application still runs what is on disk.
    Unchanged,
    /// The content went back to what the application runs.
    WentBack,
}

/// What is to be kept over a restart of podnudge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    Memory(Memory),
    /// In the record of the publish directory.
    Good(Digest),
}

/// What a podnudge before this one has left to be brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The proof of this content is open.
    Proof(OnDisk),
    /// This content failed, and is to be rolled back.
    RollBack(OnDisk),
}

pub(super) trait Known: Debug + Send {
    /// Whether the application reads what is on disk, so that nothing else can be rolled out.
    fn follows_disk(&self) -> bool;

    /// What the application is known, or at start assumed, to run. `None` while that is open: after
    /// anything was sent and before it was verified.
    fn running(&self) -> Option<Digest>;

    /// Whether the first scan was taken.
    fn is_started(&self) -> bool;

    /// Whether it is being asked since when the target runs.
    fn is_asking(&self) -> bool;

    /// Whether it is known what the application ran when podnudge started.
    fn is_settled(&self) -> bool {
        self.is_started() && !self.is_asking()
    }

    /// The first complete scan.
    fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion;

    /// A scan found what the application runs; `after_other` if other content was there before.
    fn unchanged(&mut self, now: Now, source: &Source, after_other: bool) -> Conclusion;

    /// The answer to the open question.
    fn inspected(
        &mut self,
        now: Now,
        target: Inspection,
        disk: OnDisk,
        source: &Source,
    ) -> Conclusion;

    fn take_baseline(&mut self, now: Now, digest: Digest, basis: Basis) -> Keep;

    /// Something was sent, and the application may be reading until `until`: what runs is open.
    fn delivered(&mut self, until: Moment);

    /// What runs is open.
    fn uncertain(&mut self);

    /// The application is known to run this.
    fn applied(&mut self, now: Now, digest: Digest, source: &Source) -> Keep;

    /// A scan found this.
    fn scanned(&mut self, _on_disk: Digest) {}

    /// Whether the action is done even if the target has read the content by itself.
    fn insists(&self) -> bool {
        false
    }

    /// What to keep as an action begins: if podnudge is killed now, what runs is open.
    fn acting(&self, _now: UnixTime) -> Keep {
        Keep::Nothing
    }

    /// What to keep as the content went back to what the application runs.
    fn went_back(&self, _now: UnixTime) -> Keep {
        Keep::Nothing
    }

    fn unfinished(&self, _now: Now) -> Option<Unfinished> {
        None
    }

    /// What the application reads, where that is published.
    fn current(&self) -> Option<Current> {
        None
    }

    /// Since when the application reads this content, when it starts.
    fn readable_since(&self, content: OnDisk) -> Moment {
        content.committed_at
    }

    /// Whether the application has nothing to read before podnudge publishes.
    fn is_empty(&self) -> bool {
        false
    }

    /// What was verified last, and can always be gone back to.
    fn good(&self) -> Option<Digest> {
        None
    }

    /// Why this digest is not used again, if it is quarantined.
    fn why_quarantined(&self, _digest: Digest) -> Option<&Reason> {
        None
    }

    /// Whether this has to be published before the application can read it.
    fn lacks(&self, _digest: Digest) -> bool {
        false
    }

    /// Where a rollout of this digest can be rolled back to.
    fn to_roll_back_to(&self, _from: Digest) -> Option<Digest> {
        None
    }

    /// From here on the application may read this, at any start.
    fn published(&mut self, _now: Moment, _digest: Digest) {}

    /// It could not be published, or not to the end: `current` is what the application reads now, as
    /// far as that can be told. Says whether it reads the new one.
    fn publication_failed(
        &mut self,
        _now: Moment,
        _digest: Digest,
        _current: Option<Digest>,
    ) -> bool {
        false
    }

    /// A resync found this digest published. Says whether that is not what podnudge has put there.
    fn found_published(&mut self, _digest: Option<Digest>) -> bool {
        false
    }

    /// This failed, and is not used again.
    fn quarantine(&mut self, _digest: Digest, _reason: Reason) {}

    /// This may be used again.
    fn release(&mut self, _digest: Digest) {}
}
