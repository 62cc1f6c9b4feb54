//! What the application is known to have read, where it reads what podnudge publishes: the current
//! generation, the last good one, and those that are quarantined.
//!
//! The application reads what is published when it starts and when it reloads, and never the
//! volumes. So nothing needs to be asked about what it can have read.

use super::belief::CLOCK_MARGIN;
use super::event::{Current, Inspection, Published, Standing};
use super::fact::Basis;
use super::known::{Conclusion, Keep, Known, Unfinished};
use super::source::{OnDisk, Source};
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Generations {
    current: Option<Current>,
    good: Option<Digest>,
    /// The oldest first.
    quarantined: Vec<(Digest, Reason)>,
    /// What is published, and still has to be published to the end.
    half: Option<Digest>,
    /// Whether the application has something to read.
    is_filled: bool,
    rolls_back: bool,
    started: bool,
    is_asking: bool,
    running: Option<Digest>,
}

impl Generations {
    pub(super) fn new(found: Published, rolls_back: bool) -> Self {
        Self {
            is_filled: found.current.is_some(),
            current: found.current,
            good: found.good,
            quarantined: found.quarantined,
            half: None,
            rolls_back,
            started: false,
            is_asking: false,
            running: None,
        }
    }

    fn is_current(&self, digest: Digest) -> bool {
        self.current.is_some_and(|current| current.digest == digest)
    }

    fn turned(&mut self, now: Moment, digest: Digest) {
        self.running = None;
        if !self.is_current(digest) {
            self.current = Some(Current { digest, at: now, standing: Standing::Unproven });
        }
    }

    fn approve(&mut self, digest: Digest) -> Keep {
        let Some(current) = self.current.as_mut().filter(|current| current.digest == digest) else {
            return Keep::Nothing;
        };
        current.standing = Standing::Good;
        self.good = Some(digest);
        Keep::Good(digest)
    }
}

impl Known for Generations {
    fn follows_disk(&self) -> bool {
        false
    }

    fn running(&self) -> Option<Digest> {
        self.running
    }

    fn current(&self) -> Option<Current> {
        self.current
    }

    fn is_started(&self) -> bool {
        self.started
    }

    fn is_asking(&self) -> bool {
        self.is_asking
    }

    fn readable_since(&self, content: OnDisk) -> Moment {
        self.current.map_or(content.committed_at, |current| current.at)
    }

    /// Whether the application has nothing to read before podnudge publishes.
    fn is_empty(&self) -> bool {
        !self.is_filled
    }

    /// What was verified last, and can always be gone back to.
    fn good(&self) -> Option<Digest> {
        self.good
    }

    /// Why this digest is not used again, if it is quarantined.
    fn why_quarantined(&self, digest: Digest) -> Option<&Reason> {
        self.quarantined.iter().find(|(failed, _)| *failed == digest).map(|(_, reason)| reason)
    }

    /// Whether this has to be published before the application can read it.
    fn lacks(&self, digest: Digest) -> bool {
        !self.is_current(digest) || self.half == Some(digest)
    }

    /// Where a rollout of this digest can be rolled back to.
    fn to_roll_back_to(&self, from: Digest) -> Option<Digest> {
        self.good.filter(|good| self.rolls_back && *good != from)
    }

    /// What a podnudge before this one was killed at, whatever is on disk now.
    fn unfinished(&self, now: Now) -> Option<Unfinished> {
        let current = self.current?;
        let committed = UnixTime(now.wall.0.saturating_sub(now.mono.since(current.at)));
        let content = OnDisk { digest: current.digest, committed, committed_at: current.at };
        match self.why_quarantined(current.digest) {
            Some(_) => self.to_roll_back_to(current.digest).map(|_| Unfinished::RollBack(content)),
            None => (current.standing == Standing::Unproven).then_some(Unfinished::Proof(content)),
        }
    }

    /// The first complete scan: what the application can have read is what it finds published.
    fn first_scan(&mut self, _now: Now, disk: OnDisk) -> Conclusion {
        self.started = true;
        let Some(current) = self.current else { return Conclusion::RollOut };
        match current.standing {
            Standing::Good if current.digest == disk.digest => {
                Conclusion::Baseline(Basis::Remembered)
            }
            Standing::ForStart if current.digest == disk.digest => {
                self.is_asking = true;
                Conclusion::Ask
            }
            Standing::Good => {
                self.running = Some(current.digest);
                Conclusion::RollOut
            }
            Standing::ForStart | Standing::Unproven => Conclusion::RollOut,
        }
    }

    /// The answer to the question since when the target runs, for what was published for its start.
    fn inspected(
        &mut self,
        _now: Now,
        target: Inspection,
        _disk: OnDisk,
        _source: &Source,
    ) -> Conclusion {
        if !std::mem::take(&mut self.is_asking) {
            return Conclusion::Nothing;
        }
        let Some(current) = self.current else { return Conclusion::RollOut };
        match target {
            Inspection::Running { first, .. } if current.at.after(CLOCK_MARGIN) >= first => {
                Conclusion::RollOut
            }
            // It has read it, or will; whether it works with it is still to be seen.
            Inspection::Running { .. } | Inspection::Absent => Conclusion::Prove(current.digest),
            Inspection::Blind => Conclusion::RollOut,
            Inspection::Unknown => Conclusion::Baseline(Basis::Unknown),
        }
    }

    /// What was verified is not given up for what was not.
    fn take_baseline(&mut self, _now: Now, digest: Digest, basis: Basis) -> Keep {
        self.running = Some(digest);
        let is_proof = basis == Basis::Remembered || self.good.is_none_or(|good| good == digest);
        if is_proof { self.approve(digest) } else { Keep::Nothing }
    }

    /// From here on the application may read this, at any start.
    fn published(&mut self, now: Moment, digest: Digest) {
        self.turned(now, digest);
        self.half = None;
        self.is_filled = true;
        self.release(digest);
    }

    /// It could not be published, or not to the end: `current` is what the application reads now, as
    /// far as that can be told. Says whether it reads the new one.
    fn publication_failed(&mut self, now: Moment, digest: Digest, current: Option<Digest>) -> bool {
        let is_turned = current == Some(digest);
        if is_turned {
            self.half = current;
            self.turned(now, digest);
        } else if current.is_none_or(|current| !self.is_current(current)) {
            self.running = None;
            self.current = None;
        }
        is_turned
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

    /// This failed, and is not used again. Of many, the oldest is forgotten.
    fn quarantine(&mut self, digest: Digest, reason: Reason) {
        self.release(digest);
        self.quarantined.push((digest, reason));
        let surplus = self.quarantined.len().saturating_sub(Published::MOST_QUARANTINED);
        self.quarantined.drain(..surplus);
    }

    /// This may be used again.
    fn release(&mut self, digest: Digest) {
        self.quarantined.retain(|(failed, _)| *failed != digest);
    }

    fn unchanged(&mut self, _now: Now, _source: &Source, after_other: bool) -> Conclusion {
        if after_other { Conclusion::WentBack } else { Conclusion::Unchanged }
    }

    fn delivered(&mut self, _until: Moment) {
        self.running = None;
    }

    fn uncertain(&mut self) {
        self.running = None;
    }

    /// The application is known to run this. Says whether that is to be remembered.
    fn applied(&mut self, _now: Now, digest: Digest, _source: &Source) -> Keep {
        self.running = self.current.map(|current| current.digest).filter(|one| *one == digest);
        self.approve(digest)
    }
}
