//! Tracks what the application has read where it reads the volumes: at its start and at each
//! reload, both of which can fall between two scans.
//!
//! Where the recorded state may be wrong, podnudge inspects when the target started. If that leaves
//! a doubt, podnudge acts, once for each content.

use std::time::Duration;

use super::event::{Found, Inspection, Known};
use super::evidence::Evidence;
use super::fact::Basis;
use super::intake::{OnDisk, Source};
use super::memory::Memory;
use super::policy::OnStart;
use super::tracker::{Conclusion, Save, Tracker};
use crate::clock::{Moment, Now, UnixTime};
use crate::snapshot::Digest;

/// File times come from a coarse clock and process start times are counted in ticks: each may be up
/// to 10 ms early. Only times that differ by more than both together have a certain order.
pub(super) const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// How long an application may take from its start until it has read its volumes.
pub const MAX_STARTUP: Duration = Duration::from_secs(10);

/// Why the start time of the target is inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// First scan: has the target read the content on disk?
    FirstScan,
    /// The first scan found the remembered digest in a newer commit: did the target start in
    /// between, and read other content?
    Remembered,
    /// A scan found the running digest in a newer commit: did the target start in between, and read
    /// other content?
    Unchanged,
    /// The same, after other content that was not rolled out.
    Reverted,
    /// There is no evidence that the target runs the content: has it started since, and read it?
    Later,
}

#[derive(Debug)]
pub(super) struct VolumeTracker {
    on_start: OnStart,
    /// The contents of the state directory at start.
    remembered: Option<Known>,
    /// Content that has not passed its checks in an earlier podnudge.
    unchecked: Vec<Digest>,
    /// Whether any other content may be unchecked, too.
    may_be_unchecked: bool,
    started: bool,
    question: Option<Question>,
    running: Option<Digest>,
    evidence: Evidence,
    /// Act on the first content even if the target has read it at its start.
    must_act: bool,
    /// Until when the application may have been reading after the last action.
    read_until: Moment,
    /// The content for which the action was repeated because it may have changed during the action.
    /// Prevents a loop if the application touches its own volume when it reloads.
    repeated: Option<Digest>,
}

impl VolumeTracker {
    pub(super) fn new(on_start: OnStart, found: &Found) -> Self {
        Self {
            on_start,
            remembered: found.memory.as_ref().and_then(Memory::known),
            unchecked: found.interrupted.iter().map(|known| known.digest).collect(),
            may_be_unchecked: found.is_record_unreadable,
            started: false,
            question: None,
            running: None,
            evidence: Evidence::None,
            must_act: false,
            read_until: Moment::default(),
            repeated: None,
        }
    }

    fn inspect(&mut self, question: Question) -> Conclusion {
        self.question = Some(question);
        Conclusion::Inspect
    }

    /// Whether the application may have read unseen content at its last reload. Returns `true` only
    /// once for each content.
    fn may_have_read_unseen(&mut self, source: &Source) -> bool {
        let disk = source.digest();
        let is_open = disk != self.repeated && source.has_gap_before(self.read_until);
        if is_open {
            self.repeated = disk;
        }
        is_open
    }

    fn save(&self, at: UnixTime) -> Save {
        let evidence = self.evidence();
        Save::Known(Known { running: self.running, evidence, at })
    }
}

impl Tracker for VolumeTracker {
    fn reads_volumes(&self) -> bool {
        true
    }

    fn running(&self) -> Option<Digest> {
        self.running
    }

    fn evidence(&self) -> Evidence {
        self.running.map_or(Evidence::None, |_| self.evidence)
    }

    fn is_started(&self) -> bool {
        self.started
    }

    fn is_inspecting(&self) -> bool {
        self.question.is_some()
    }

    fn must_act(&self) -> bool {
        self.must_act
    }

    fn look_for_evidence(&mut self, disk: Digest) -> Conclusion {
        if !self.is_resolved() || self.running != Some(disk) || self.evidence.is_proof() {
            return Conclusion::Nothing;
        }
        // The process that has opened nothing may have started after the content was in place, too.
        if self.evidence == Evidence::Unread {
            return Conclusion::Nothing;
        }
        self.inspect(Question::Later)
    }

    fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion {
        self.started = true;
        match (self.remembered, self.on_start) {
            (Some(known), _) if known.running == Some(disk.digest) => {
                if disk.committed_at <= now.moment_of(known.at) {
                    Conclusion::Baseline(Basis::Remembered)
                } else {
                    self.inspect(Question::Remembered)
                }
            }
            // It was never used: the application may run other content, whatever `on-start` says.
            _ if self.may_be_unchecked || self.unchecked.contains(&disk.digest) => {
                Conclusion::RollOut
            }
            (_, OnStart::Never) => Conclusion::Baseline(Basis::Never),
            (None, OnStart::Always) => {
                self.must_act = true;
                Conclusion::RollOut
            }
            (Some(_), _) => Conclusion::RollOut,
            (None, OnStart::IfNewer) => self.inspect(Question::FirstScan),
        }
    }

    fn unchanged(&mut self, now: Now, source: &Source, after_other: bool) -> Conclusion {
        if after_other {
            self.inspect(Question::Reverted)
        } else if source.has_gap_before(now.mono) {
            // Without a swap, the target cannot have read other content.
            self.inspect(Question::Unchanged)
        } else {
            Conclusion::Unchanged
        }
    }

    fn inspected(
        &mut self,
        now: Now,
        target: Inspection,
        disk: OnDisk,
        source: &Source,
    ) -> Conclusion {
        let Some(question) = self.question.take() else { return Conclusion::Nothing };
        match (question, target) {
            (Question::FirstScan, Inspection::Running { first, .. }) => {
                if disk.committed_at.after(CLOCK_MARGIN) >= first {
                    Conclusion::RollOut
                } else {
                    Conclusion::Baseline(Basis::TargetIsYounger)
                }
            }
            (Question::Later, Inspection::Running { first, last })
                if self.running == Some(disk.digest)
                    && disk.committed_at.after(CLOCK_MARGIN) < first
                    && now.mono >= last.after(MAX_STARTUP)
                    && !source.has_gap_before(now.mono) =>
            {
                Conclusion::Baseline(Basis::TargetIsYounger)
            }
            (Question::Later, _) => Conclusion::Nothing,
            (Question::FirstScan, Inspection::Blind) => Conclusion::RollOut,
            (Question::FirstScan, _) => Conclusion::Baseline(Basis::Unknown),
            (Question::Remembered, Inspection::Running { first, last })
                if self.remembered.is_some_and(|known| last >= now.moment_of(known.at))
                    && disk.committed_at.after(CLOCK_MARGIN) >= first =>
            {
                Conclusion::RollOut
            }
            (Question::Remembered, _) => Conclusion::Baseline(Basis::Remembered),
            _ if self.running != Some(disk.digest) => Conclusion::Nothing,
            (_, Inspection::Running { last, .. })
                if source.has_gap_before(last.after(MAX_STARTUP))
                    || self.may_have_read_unseen(source) =>
            {
                self.running = None;
                Conclusion::RollOut
            }
            (_, Inspection::Blind) => {
                self.running = None;
                Conclusion::RollOut
            }
            (Question::Unchanged, _) => Conclusion::Unchanged,
            (Question::Reverted, _) => Conclusion::Reverted,
        }
    }

    fn scanned(&mut self, on_disk: Digest) {
        self.repeated = self.repeated.filter(|digest| *digest == on_disk);
    }

    fn set_baseline(&mut self, now: Now, digest: Digest, basis: Basis) -> Save {
        self.running = Some(digest);
        self.evidence = match basis {
            Basis::Remembered => self.remembered.map_or(Evidence::None, |known| known.evidence),
            Basis::TargetIsYounger => Evidence::ReadAtStart,
            Basis::Unknown | Basis::Never => Evidence::None,
        };
        self.save(now.wall)
    }

    fn action_started(&self, now: UnixTime) -> Save {
        Save::Known(Known { running: None, evidence: Evidence::None, at: now })
    }

    fn reverted(&self, now: UnixTime) -> Save {
        self.save(now)
    }

    fn delivered(&mut self, until: Moment) {
        self.running = None;
        self.must_act = false;
        self.read_until = until;
    }

    fn target_ended(&mut self) {
        self.evidence = Evidence::None;
    }

    fn invalidate(&mut self) {
        self.running = None;
    }

    /// The running digest stays unknown if a volume was missing or changing during the reload.
    fn applied(&mut self, now: Now, digest: Digest, evidence: Evidence, source: &Source) -> Save {
        self.read_until = now.mono;
        // While a volume is unreadable, another action would give no more certainty.
        let is_readable = source.unreadable().is_none();
        let is_newest = source.digest() == Some(digest);
        // A missing volume leaves a gap: the action that follows its return closes it.
        let is_whole = !source.is_missing_a_volume();
        let is_open = is_whole && is_readable && is_newest && self.may_have_read_unseen(source);
        let is_known = is_whole && !is_open;
        self.running = Some(digest).filter(|_| is_known);
        self.evidence = evidence;
        // Do not remember a digest that cannot be confirmed by reading.
        if is_readable { self.save(now.wall) } else { self.action_started(now.wall) }
    }
}
