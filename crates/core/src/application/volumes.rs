//! What the application may have read where it reads the volumes: at its start and at each reload, both of which can
//! fall between two scans.
//!
//! Where the recorded state may be wrong, podnudge inspects when the target started. If that leaves
//! a doubt, podnudge acts, once for each content. What the target has read at its start counts only once it has passed
//! the checks: an application may run on without content that it cannot use.

use super::conclusion::Conclusion;
use super::running::Running;
use crate::clock::{CLOCK_MARGIN, Moment, Now};
use crate::event::{Found, Inspection, Known};
use crate::evidence::{Evidence, MAX_STARTUP};
use crate::fact::Basis;
use crate::intake::{OnDisk, Source};
use crate::memory::Memory;
use crate::policy::{ApplicationPolicy, OnStart};
use crate::snapshot::Digest;

/// Why the start time of the target is inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// First scan: has the target read the content on disk?
    FirstScan,
    /// First scan, of content that an earlier podnudge has not used: has the target read it at its start?
    Unused,
    /// The first scan found the remembered digest in a newer commit: did the target start in
    /// between, and read other content?
    Remembered,
    /// A scan found the running digest in a newer commit: did the target start in between, and read
    /// other content?
    Unchanged,
    /// A scan found the running digest in place of other content that was not rolled out: as `Unchanged`.
    Reverted,
    /// There is no evidence that the target runs the content: has it started since, and read it?
    Later,
}

/// What is known of the reads of the volumes.
#[derive(Debug)]
pub(super) struct Volumes {
    on_start: OnStart,
    /// Whether the application reads them at its start.
    reads_at_start: bool,
    /// Otherwise, the content that the application reads instead, and when podnudge had written it.
    written: Option<(Digest, Moment)>,
    /// The contents of the state directory at start.
    remembered: Option<Known>,
    /// Content that has not passed its checks in an earlier podnudge.
    unchecked: Vec<Digest>,
    /// Whether any other content may be unchecked, too.
    may_be_unchecked: bool,
    question: Option<Question>,
    /// Act on the first content even if the target has read it at its start.
    must_act: bool,
    /// Until when the application may have been reading after the last action.
    read_until: Moment,
    /// The content for which the action was repeated because it may have changed during the action.
    /// Prevents a loop if the application touches its own volume when it reloads.
    repeated: Option<Digest>,
}

impl Volumes {
    pub(super) fn new(policy: &ApplicationPolicy, found: &Found) -> Self {
        Self {
            on_start: policy.on_start,
            reads_at_start: policy.reads_at_start,
            written: None,
            remembered: found.memory.as_ref().and_then(Memory::known),
            unchecked: found.interrupted.iter().map(|known| known.digest).collect(),
            may_be_unchecked: found.is_record_unreadable,
            question: None,
            must_act: false,
            read_until: Moment::default(),
            repeated: None,
        }
    }

    fn inspect(&mut self, question: Question) -> Conclusion {
        self.question = Some(question);
        Conclusion::Inspect
    }

    /// Returns, only once for each content, whether the application may have read unseen content at its last reload.
    fn take_unseen_read(&mut self, source: &Source) -> bool {
        let disk = source.digest();
        let is_open = disk != self.repeated && source.has_gap_before(self.read_until);
        if is_open {
            self.repeated = disk;
        }
        is_open
    }

    /// Whether an inspection of the target is pending.
    pub(super) fn is_inspecting(&self) -> bool {
        self.question.is_some()
    }

    /// The target has read the content at its start, when that had not passed its checks.
    pub(super) fn require_act(&mut self) {
        self.must_act = true;
    }

    /// Whether to act even if the target has read the content at its start.
    pub(super) fn must_act(&self) -> bool {
        self.must_act
    }

    /// How an earlier podnudge knew that the application ran the remembered digest.
    pub(super) fn remembered_evidence(&self) -> Evidence {
        self.remembered.map_or(Evidence::None, |known| known.evidence)
    }

    /// Handles the first complete scan.
    pub(super) fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion {
        match (self.remembered, self.on_start) {
            (Some(known), _) if known.running == Some(disk.digest) => {
                if disk.committed_at <= now.moment_of(known.at) {
                    Conclusion::Baseline(Basis::Remembered)
                } else {
                    self.inspect(Question::Remembered)
                }
            }
            // podnudge has never used it: the application may run other content, whatever `on-start` says.
            _ if self.may_be_unchecked => Conclusion::RollOut,
            (_, OnStart::Never | OnStart::IfNewer) if self.unchecked.contains(&disk.digest) => {
                if self.reads_at_start {
                    self.inspect(Question::Unused)
                } else {
                    Conclusion::RollOut
                }
            }
            (None, OnStart::Never) => Conclusion::Baseline(Basis::Never),
            (None, OnStart::Always) => {
                self.must_act = true;
                Conclusion::RollOut
            }
            (Some(_), _) => Conclusion::RollOut,
            (None, OnStart::IfNewer) => self.inspect(Question::FirstScan),
        }
    }

    /// Handles a scan that found what the application runs. `after_other`: there was a candidate or a rollout of other
    /// content before.
    pub(super) fn unchanged(&mut self, now: Now, source: &Source, after_other: bool) -> Conclusion {
        if after_other {
            self.inspect(Question::Reverted)
        } else if source.has_gap_before(now.mono) {
            // Without a swap, the target cannot have read other content.
            self.inspect(Question::Unchanged)
        } else {
            Conclusion::Unchanged
        }
    }

    /// Looks for evidence that the application runs the content on disk, if there is none: it may have started since.
    pub(super) fn look_for_evidence(&mut self, disk: Digest, running: &Running) -> Conclusion {
        // The process that has opened nothing may have started after the content was in place, too.
        let is_settled = running.evidence().is_proof() || running.evidence() == Evidence::Unread;
        let is_unknown =
            running.digest() != Some(disk) || (!self.reads_at_start && self.written.is_none());
        if self.is_inspecting() || is_unknown || is_settled {
            return Conclusion::Nothing;
        }
        self.inspect(Question::Later)
    }

    /// Handles the answer to the pending inspection.
    pub(super) fn inspected(
        &mut self,
        now: Now,
        target: Inspection,
        disk: OnDisk,
        source: &Source,
        running: Option<Digest>,
    ) -> Conclusion {
        let Some(question) = self.question.take() else { return Conclusion::Nothing };
        match (question, target) {
            (Question::FirstScan | Question::Unused, Inspection::Running { first, .. }) => {
                if disk.committed_at.after(CLOCK_MARGIN) >= first {
                    Conclusion::RollOut
                } else {
                    Conclusion::Baseline(Basis::TargetIsYounger)
                }
            }
            (Question::Later, Inspection::Running { first, last })
                if running == Some(disk.digest)
                    && self.in_place_since(disk).after(CLOCK_MARGIN) < first
                    && now.mono >= last.after(MAX_STARTUP)
                    && !source.has_gap_before(now.mono) =>
            {
                Conclusion::Baseline(Basis::TargetIsYounger)
            }
            (Question::Later, _) => Conclusion::Nothing,
            (Question::Unused, _)
            | (Question::FirstScan | Question::Remembered, Inspection::Blind) => {
                Conclusion::RollOut
            }
            (Question::FirstScan, _) => Conclusion::Baseline(Basis::Unknown),
            (Question::Remembered, Inspection::Running { first, last })
                if self.remembered.is_some_and(|known| last >= now.moment_of(known.at))
                    && disk.committed_at.after(CLOCK_MARGIN) >= first =>
            {
                Conclusion::RollOut
            }
            (Question::Remembered, _) => Conclusion::Baseline(Basis::Remembered),
            _ if running != Some(disk.digest) => Conclusion::Nothing,
            (Question::Unchanged | Question::Reverted, target) => {
                let may_run_other = match target {
                    Inspection::Running { last, .. } => {
                        source.has_gap_before(last.after(MAX_STARTUP))
                            || self.take_unseen_read(source)
                    }
                    Inspection::Blind => true,
                    Inspection::Unknown | Inspection::Absent => false,
                };
                match question {
                    _ if may_run_other => Conclusion::RollOut,
                    Question::Reverted => Conclusion::Reverted,
                    _ => Conclusion::Unchanged,
                }
            }
        }
    }

    /// Since when the application finds this content at its start.
    fn in_place_since(&self, disk: OnDisk) -> Moment {
        self.written.map_or(disk.committed_at, |(_, at)| at)
    }

    /// A scan found this digest.
    pub(super) fn scanned(&mut self, on_disk: Digest) {
        self.repeated = self.repeated.filter(|digest| *digest == on_disk);
        // The other content may be written for an action that is not sent.
        self.written = self.written.filter(|(digest, _)| *digest == on_disk);
    }

    /// An action was sent: the application may be reading until `until`.
    pub(super) fn delivered(&mut self, until: Moment) {
        self.must_act = false;
        self.read_until = until;
        self.written = None;
    }

    /// The rollout of this digest has succeeded. Returns whether the application runs it for certain: that stays
    /// unknown if a volume was missing or changing during the reload.
    pub(super) fn applied(&mut self, now: Moment, digest: Digest, source: &Source) -> bool {
        self.read_until = now;
        self.written = (!self.reads_at_start).then_some((digest, now));
        // While a volume is unreadable, another action would give no more certainty.
        let is_readable = source.unreadable().is_none();
        let is_newest = source.digest() == Some(digest);
        // A missing volume leaves a gap: the action that follows its return closes it.
        let is_whole = !source.is_missing_a_volume();
        let is_open = is_whole && is_readable && is_newest && self.take_unseen_read(source);
        is_whole && !is_open
    }
}
