//! Tracks what the application has read where it reads what podnudge publishes: the current
//! generation, the last good one, and the quarantined ones.
//!
//! The application reads the published files when it starts and when it reloads, and never the
//! volumes. So podnudge knows what it can have read.

use super::event::{Current, Inspection, Published, Standing};
use super::evidence::Evidence;
use super::fact::Basis;
use super::intake::{OnDisk, Source};
use super::tracker::{Conclusion, Save, Tracker, Unfinished};
use super::volume_tracker::CLOCK_MARGIN;
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::snapshot::Digest;

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Generations {
    current: Option<Current>,
    good: Option<Digest>,
    /// How the application is known to have run the good digest.
    good_evidence: Evidence,
    /// Oldest first.
    quarantined: Vec<(Digest, Reason)>,
    /// The current digest, if its publication failed after the swap and has to be completed.
    incomplete: Option<Digest>,
    /// Whether the application has something to read.
    is_filled: bool,
    rolls_back: bool,
    started: bool,
    is_inspecting: bool,
    running: Option<Digest>,
    evidence: Evidence,
}

impl Generations {
    pub(super) fn new(found: Published, rolls_back: bool) -> Self {
        Self {
            is_filled: found.current.is_some(),
            current: found.current,
            good: found.good,
            good_evidence: found.evidence,
            quarantined: found.quarantined,
            incomplete: None,
            rolls_back,
            started: false,
            is_inspecting: false,
            running: None,
            evidence: Evidence::None,
        }
    }

    fn is_current(&self, digest: Digest) -> bool {
        self.current.is_some_and(|current| current.digest == digest)
    }

    fn swapped(&mut self, now: Moment, digest: Digest) {
        self.running = None;
        if !self.is_current(digest) {
            self.current = Some(Current { digest, at: now, standing: Standing::Unproven });
        }
    }

    fn approve(&mut self, digest: Digest, evidence: Evidence) -> Save {
        let Some(current) = self.current.as_mut().filter(|current| current.digest == digest) else {
            return Save::Nothing;
        };
        current.standing = Standing::Good;
        self.good = Some(digest);
        self.good_evidence = evidence;
        Save::Good(digest, evidence)
    }
}

impl Tracker for Generations {
    fn reads_volumes(&self) -> bool {
        false
    }

    fn running(&self) -> Option<Digest> {
        self.running
    }

    fn evidence(&self) -> Evidence {
        self.running.map_or(Evidence::None, |_| self.evidence)
    }

    fn current(&self) -> Option<Current> {
        self.current
    }

    fn is_started(&self) -> bool {
        self.started
    }

    fn is_inspecting(&self) -> bool {
        self.is_inspecting
    }

    fn readable_since(&self, content: OnDisk) -> Moment {
        self.current.map_or(content.committed_at, |current| current.at)
    }

    fn is_empty(&self) -> bool {
        !self.is_filled
    }

    fn last_good(&self) -> Option<Digest> {
        self.good
    }

    fn quarantine_reason(&self, digest: Digest) -> Option<&Reason> {
        self.quarantined.iter().find(|(failed, _)| *failed == digest).map(|(_, reason)| reason)
    }

    fn needs_publish(&self, digest: Digest) -> bool {
        !self.is_current(digest) || self.incomplete == Some(digest)
    }

    fn roll_back_to(&self, from: Digest) -> Option<Digest> {
        self.good.filter(|good| self.rolls_back && *good != from)
    }

    fn unfinished(&self, now: Now) -> Option<Unfinished> {
        let current = self.current?;
        let committed = UnixTime(now.wall.0.saturating_sub(now.mono.since(current.at)));
        let content = OnDisk { digest: current.digest, committed, committed_at: current.at };
        match self.quarantine_reason(current.digest) {
            Some(_) => self.roll_back_to(current.digest).map(|_| Unfinished::RollBack(content)),
            None => (current.standing == Standing::Unproven).then_some(Unfinished::Proof(content)),
        }
    }

    /// The application can only have read what is published.
    fn first_scan(&mut self, _now: Now, disk: OnDisk) -> Conclusion {
        self.started = true;
        let Some(current) = self.current else { return Conclusion::RollOut };
        match current.standing {
            Standing::Good if current.digest == disk.digest => {
                Conclusion::Baseline(Basis::Remembered)
            }
            Standing::ForStart if current.digest == disk.digest => {
                self.is_inspecting = true;
                Conclusion::Inspect
            }
            Standing::Good => {
                self.running = Some(current.digest);
                self.evidence = self.good_evidence;
                Conclusion::RollOut
            }
            Standing::ForStart | Standing::Unproven => Conclusion::RollOut,
        }
    }

    /// Handles the inspection for content that was published before the application's start.
    fn inspected(
        &mut self,
        _now: Now,
        target: Inspection,
        _disk: OnDisk,
        _source: &Source,
    ) -> Conclusion {
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

    /// The last good generation stays that until another one is good.
    fn set_baseline(&mut self, _now: Now, digest: Digest, basis: Basis) -> Save {
        self.running = Some(digest);
        self.evidence = match basis {
            Basis::Remembered => self.good_evidence,
            Basis::TargetIsYounger => Evidence::ReadAtStart,
            Basis::Unknown | Basis::Never => Evidence::None,
        };
        let is_proof = basis == Basis::Remembered || self.good.is_none_or(|good| good == digest);
        if is_proof { self.approve(digest, self.evidence) } else { Save::Nothing }
    }

    fn published(&mut self, now: Moment, digest: Digest) {
        self.swapped(now, digest);
        self.incomplete = None;
        self.is_filled = true;
        self.release(digest);
    }

    fn publication_failed(&mut self, now: Moment, digest: Digest, current: Option<Digest>) -> bool {
        let is_swapped = current == Some(digest);
        if is_swapped {
            self.incomplete = current;
            self.swapped(now, digest);
        } else if current.is_none_or(|current| !self.is_current(current)) {
            self.running = None;
            self.current = None;
        }
        is_swapped
    }

    fn found_published(&mut self, digest: Option<Digest>) -> bool {
        let is_lost = self.current.is_some_and(|current| Some(current.digest) != digest);
        if is_lost {
            self.running = None;
            self.current = None;
            self.is_filled = digest.is_some();
        }
        is_lost
    }

    /// Beyond the limit, the oldest entries are dropped.
    fn quarantine(&mut self, digest: Digest, reason: Reason) {
        self.release(digest);
        self.quarantined.push((digest, reason));
        let surplus = self.quarantined.len().saturating_sub(Published::MOST_QUARANTINED);
        self.quarantined.drain(..surplus);
    }

    fn release(&mut self, digest: Digest) {
        self.quarantined.retain(|(failed, _)| *failed != digest);
    }

    fn unchanged(&mut self, _now: Now, _source: &Source, after_other: bool) -> Conclusion {
        if after_other { Conclusion::Reverted } else { Conclusion::Unchanged }
    }

    fn delivered(&mut self, _until: Moment) {
        self.running = None;
    }

    fn invalidate(&mut self) {
        self.running = None;
    }

    fn applied(&mut self, _now: Now, digest: Digest, evidence: Evidence, _: &Source) -> Save {
        self.running = self.current.map(|current| current.digest).filter(|one| *one == digest);
        self.evidence = evidence;
        Save::Nothing
    }

    fn survived(&mut self, digest: Digest) -> Save {
        self.approve(digest, self.evidence)
    }
}
