//! The generations in the publish directory, where the application reads what podnudge publishes: the current one, and
//! the last good one.
//!
//! The application reads the published files when it starts and when it reloads, and never the volumes. So podnudge
//! knows what it can have read.

use super::conclusion::Conclusion;
use crate::clock::{CLOCK_MARGIN, Moment};
use crate::event::{Current, Inspection, Published, Standing};
use crate::evidence::Evidence;
use crate::fact::Basis;
use crate::snapshot::Digest;

/// What is published.
#[derive(Debug)]
pub(super) struct Generations {
    current: Option<Current>,
    good: Option<Digest>,
    /// How the application is known to have run the good digest.
    good_evidence: Evidence,
    /// The current digest, if its publication failed after the swap and has to be completed.
    incomplete: Option<Digest>,
    /// Whether the application has something to read.
    is_filled: bool,
    rolls_back: bool,
    is_inspecting: bool,
}

/// What a publication that failed has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// What was published before.
    Before,
    /// The new generation: the application may read it.
    New,
    /// Something else, or what cannot be found out.
    Unknown,
}

impl Generations {
    pub(super) fn new(found: &Published, rolls_back: bool) -> Self {
        Self {
            is_filled: found.current.is_some(),
            current: found.current,
            good: found.good,
            good_evidence: found.evidence,
            incomplete: None,
            rolls_back,
            is_inspecting: false,
        }
    }

    pub(super) fn current(&self) -> Option<Current> {
        self.current
    }

    pub(super) fn is_current(&self, digest: Digest) -> bool {
        self.current.is_some_and(|current| current.digest == digest)
    }

    /// The digest that is current and good, and how the application is known to have run it.
    pub(super) fn good_current(&self) -> Option<(Digest, Evidence)> {
        let current = self.current.filter(|current| current.standing == Standing::Good)?;
        Some((current.digest, self.good_evidence))
    }

    /// Whether the action for the current digest, or its proof, is pending.
    pub(super) fn is_unproven(&self) -> bool {
        self.current.is_some_and(|current| current.standing == Standing::Unproven)
    }

    /// The last good digest.
    pub(super) fn good(&self) -> Option<Digest> {
        self.good
    }

    pub(super) fn good_evidence(&self) -> Evidence {
        self.good_evidence
    }

    /// The digest to which a rollout of `from` can be rolled back.
    pub(super) fn roll_back_to(&self, from: Digest) -> Option<Digest> {
        self.good.filter(|good| self.rolls_back && *good != from)
    }

    /// Whether the application has nothing to read until podnudge publishes.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_filled
    }

    /// Whether this digest must be published before the application can read it.
    pub(super) fn needs_publish(&self, digest: Digest) -> bool {
        !self.is_current(digest) || self.incomplete == Some(digest)
    }

    /// Whether an inspection of the target is pending.
    pub(super) fn is_inspecting(&self) -> bool {
        self.is_inspecting
    }

    /// Handles the first complete scan. The application can only have read what is published.
    pub(super) fn first_scan(&mut self, disk: Digest) -> Conclusion {
        let Some(current) = self.current.filter(|current| current.digest == disk) else {
            return Conclusion::RollOut;
        };
        match current.standing {
            Standing::Good => Conclusion::Baseline(Basis::Remembered),
            Standing::ForStart => {
                self.is_inspecting = true;
                Conclusion::Inspect
            }
            Standing::Unproven => Conclusion::RollOut,
        }
    }

    /// Handles a scan that found what the application runs. `after_other`: there was a candidate or a rollout of other
    /// content before, which was not published and so not read.
    pub(super) fn unchanged(after_other: bool) -> Conclusion {
        if after_other { Conclusion::Reverted } else { Conclusion::Unchanged }
    }

    /// Handles the inspection for content that was published before the application's start.
    pub(super) fn inspected(&mut self, target: Inspection) -> Conclusion {
        if !std::mem::take(&mut self.is_inspecting) {
            return Conclusion::Nothing;
        }
        let Some(current) = self.current else { return Conclusion::RollOut };
        match target {
            Inspection::Running { first, .. } if current.at.after(CLOCK_MARGIN) >= first => {
                Conclusion::RollOut
            }
            // It has read the content, or will; verify that the application works with it.
            Inspection::Running { .. } | Inspection::Absent => Conclusion::Verify(current.digest),
            Inspection::Blind => Conclusion::RollOut,
            Inspection::Unknown => Conclusion::Baseline(Basis::Unknown),
        }
    }

    /// The application runs this digest. The last good generation stays that until another one is good. Returns whether
    /// this one is.
    pub(super) fn set_baseline(&mut self, digest: Digest, basis: Basis, by: Evidence) -> bool {
        let is_proof = basis == Basis::Remembered || self.good.is_none_or(|good| good == digest);
        is_proof && self.approve(digest, by)
    }

    /// The digest is good, if it is the current one. Returns whether it is.
    pub(super) fn approve(&mut self, digest: Digest, by: Evidence) -> bool {
        let Some(current) = self.current.as_mut().filter(|current| current.digest == digest) else {
            return false;
        };
        current.standing = Standing::Good;
        (self.good, self.good_evidence) = (Some(digest), by);
        true
    }

    /// The digest was published: from now on the application may read it when it starts.
    pub(super) fn published(&mut self, now: Moment, digest: Digest) {
        self.swapped(now, digest);
        self.incomplete = None;
        self.is_filled = true;
    }

    /// Publishing failed, perhaps after the swap. `current` is what the application now reads, if that is known.
    pub(super) fn publication_failed(
        &mut self,
        now: Moment,
        digest: Digest,
        current: Option<Digest>,
    ) -> Left {
        if current == Some(digest) {
            self.incomplete = current;
            self.swapped(now, digest);
            Left::New
        } else if current.is_none_or(|current| !self.is_current(current)) {
            self.current = None;
            Left::Unknown
        } else {
            Left::Before
        }
    }

    fn swapped(&mut self, now: Moment, digest: Digest) {
        if !self.is_current(digest) {
            self.current = Some(Current { digest, at: now, standing: Standing::Unproven });
        }
    }

    /// A resync found this digest published. Returns whether podnudge had published another one.
    pub(super) fn found(&mut self, digest: Option<Digest>) -> bool {
        let is_lost = self.current.is_some_and(|current| Some(current.digest) != digest);
        if is_lost {
            self.current = None;
            self.is_filled = digest.is_some();
        }
        is_lost
    }
}
