//! What the application is known to have read, where it reads the volumes themselves: it reads them
//! when it starts and when it is made to reload, and both can fall between two scans.
//!
//! So this is a belief about a process, and wherever it could be wrong it is asked since when that
//! process runs. In doubt, podnudge acts, once for each content.

use std::time::Duration;

use super::event::{Inspection, Memory};
use super::fact::Basis;
use super::known::{Conclusion, Keep, Known};
use super::source::{OnDisk, Source};
use crate::clock::{Moment, Now, UnixTime};
use crate::config::OnStart;
use crate::volume::snapshot::Digest;

/// File times come from a coarse clock and start times are counted in ticks: each may be up to
/// 10 ms early. Only what is further apart than both together is certain.
pub(super) const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// How long an application may take from its start until it has read its volumes.
pub(crate) const LONGEST_START: Duration = Duration::from_secs(10);

/// Why it is asked since when the target runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// The first scan is complete: has the target read what is on disk?
    FirstScan,
    /// The first scan found what is remembered, committed anew: did the target start meanwhile,
    /// and read something else?
    Remembered,
    /// The content is what the application runs, but it was committed anew: did the target start
    /// meanwhile, and read something else?
    Unchanged,
    /// The same, after content that was not rolled out.
    WentBack,
}

#[derive(Debug)]
pub(super) struct Belief {
    on_start: OnStart,
    /// What the state directory held at start.
    remembered: Option<Memory>,
    started: bool,
    question: Option<Question>,
    running: Option<Digest>,
    /// The first content is acted on even if the target has read it by itself.
    insists: bool,
    /// Until when the application may have been reading after the last action.
    read_until: Moment,
    /// The content that was acted on once more because it may have changed during an action. An
    /// application that touches its own volume as it reloads must not make that a circle.
    repeated: Option<Digest>,
}

impl Belief {
    pub(super) fn new(on_start: OnStart, remembered: Option<Memory>) -> Self {
        Self {
            on_start,
            remembered,
            started: false,
            question: None,
            running: None,
            insists: false,
            read_until: Moment::default(),
            repeated: None,
        }
    }

    fn ask(&mut self, question: Question) -> Conclusion {
        self.question = Some(question);
        Conclusion::Ask
    }

    /// Whether the application may have read something unseen when it was last made to reload. Says
    /// so once for each content.
    fn may_have_reread_unseen(&mut self, source: &Source) -> bool {
        let disk = source.digest();
        let is_open = disk != self.repeated && source.leaves_open(self.read_until);
        if is_open {
            self.repeated = disk;
        }
        is_open
    }

    fn keep(running: Option<Digest>, at: UnixTime) -> Keep {
        Keep::Memory(Memory { running, at })
    }
}

impl Known for Belief {
    fn follows_disk(&self) -> bool {
        true
    }

    fn running(&self) -> Option<Digest> {
        self.running
    }

    fn is_started(&self) -> bool {
        self.started
    }

    fn is_asking(&self) -> bool {
        self.question.is_some()
    }

    fn insists(&self) -> bool {
        self.insists
    }

    fn first_scan(&mut self, now: Now, disk: OnDisk) -> Conclusion {
        self.started = true;
        match (self.remembered, self.on_start) {
            (Some(memory), _) if memory.running == Some(disk.digest) => {
                if disk.committed_at <= now.moment_of(memory.at) {
                    Conclusion::Baseline(Basis::Remembered)
                } else {
                    self.ask(Question::Remembered)
                }
            }
            (_, OnStart::Never) => Conclusion::Baseline(Basis::Never),
            (None, OnStart::Always) => {
                self.insists = true;
                Conclusion::RollOut
            }
            (Some(_), _) => Conclusion::RollOut,
            (None, OnStart::IfNewer) => self.ask(Question::FirstScan),
        }
    }

    fn unchanged(&mut self, now: Now, source: &Source, after_other: bool) -> Conclusion {
        if after_other {
            self.ask(Question::WentBack)
        } else if source.leaves_open(now.mono) {
            // Only where something was swapped there is anything to ask.
            self.ask(Question::Unchanged)
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
            (Question::FirstScan, Inspection::Blind) => Conclusion::RollOut,
            (Question::FirstScan, _) => Conclusion::Baseline(Basis::Unknown),
            (Question::Remembered, Inspection::Running { first, last })
                if self.remembered.is_some_and(|memory| last >= now.moment_of(memory.at))
                    && disk.committed_at.after(CLOCK_MARGIN) >= first =>
            {
                Conclusion::RollOut
            }
            (Question::Remembered, _) => Conclusion::Baseline(Basis::Remembered),
            _ if self.running != Some(disk.digest) => Conclusion::Nothing,
            (_, Inspection::Running { last, .. })
                if source.leaves_open(last.after(LONGEST_START))
                    || self.may_have_reread_unseen(source) =>
            {
                self.running = None;
                Conclusion::RollOut
            }
            (_, Inspection::Blind) => {
                self.running = None;
                Conclusion::RollOut
            }
            (Question::Unchanged, _) => Conclusion::Unchanged,
            (Question::WentBack, _) => Conclusion::WentBack,
        }
    }

    fn scanned(&mut self, on_disk: Digest) {
        self.repeated = self.repeated.filter(|digest| *digest == on_disk);
    }

    fn take_baseline(&mut self, now: Now, digest: Digest, _basis: Basis) -> Keep {
        self.running = Some(digest);
        Self::keep(self.running, now.wall)
    }

    fn acting(&self, now: UnixTime) -> Keep {
        Self::keep(None, now)
    }

    fn went_back(&self, now: UnixTime) -> Keep {
        Self::keep(self.running, now)
    }

    fn delivered(&mut self, until: Moment) {
        self.running = None;
        self.insists = false;
        self.read_until = until;
    }

    fn uncertain(&mut self) {
        self.running = None;
    }

    /// Not known is what it runs where it was made to reload while a volume was missing or changing.
    fn applied(&mut self, now: Now, digest: Digest, source: &Source) -> Keep {
        self.read_until = now.mono;
        // While a volume cannot be read, acting again would not tell more.
        let is_readable = source.unreadable().is_none();
        let is_newest = source.digest() == Some(digest);
        let is_open = is_readable && is_newest && self.may_have_reread_unseen(source);
        let is_known = !source.is_missing_a_volume() && !is_open;
        self.running = Some(digest).filter(|_| is_known);
        // What could not be read is no memory to rely on.
        Self::keep(self.running.filter(|_| is_readable), now.wall)
    }
}
