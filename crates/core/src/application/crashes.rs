//! Ends of the target after its rollout: whether it ends again and again with the same content. Pure.
//!
//! After an end that no rollout waits for, podnudge inspects the target until it has run for a minute. A newer start
//! tells of another end. That no process comes for minutes after an end soon after the content is as bad as several ends.

use std::time::Duration;

use crate::clock::{CLOCK_MARGIN, Moment};
use crate::ends::Ends;
use crate::event::Inspection;
use crate::evidence::MAX_STARTUP;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The intervals between inspections: of a process that may still end during its start, and later or while there is
/// none.
const INSPECT_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// A process that has run for so long has not ended because of its content.
const STABLE: Duration = Duration::from_mins(1);

/// How long podnudge looks for a process after fewer ends than those that it reports.
const GONE: Duration = Duration::from_mins(10);

/// An end so soon after the content was in place may be due to it.
const SOON: Duration = Duration::from_mins(10);

/// After so many inspections in a row that find no process, six minutes, the target does not run the content. One that ends
/// at each start at once is never seen: it lives for some milliseconds, and the kubelet waits up to five minutes until
/// the next start.
const ABSENCES_REPORTED: u32 = 72;

/// The ends of the target since its last rollout, while it may end again.
#[derive(Debug)]
pub(super) struct Crashes {
    digest: Digest,
    ends: Ends,
    /// When the last one was seen.
    last: Moment,
    /// The start of the process that runs now, if one was found.
    runs_since: Option<Moment>,
    /// When to inspect it next; `None` during an inspection.
    next_inspection: Option<Moment>,
    /// Whether the first one came soon after the content was in place.
    came_soon: bool,
    /// How many inspections in a row have found no process.
    absences: u32,
    /// Set once it keeps ending, or does not come back.
    reason: Option<Reason>,
    /// When that was found first.
    found: Option<Moment>,
}

impl Crashes {
    /// Counts an end that no inspection has found. `exposed_at`: when the target could first read the content of a rollout.
    pub(super) fn ended(
        before: Option<Self>,
        digest: Digest,
        exposed_at: Option<Moment>,
        now: Moment,
    ) -> Self {
        let before = before.filter(|before| before.digest == digest);
        let mut crashes = before.unwrap_or(Self {
            digest,
            ends: Ends::none(now),
            last: now,
            runs_since: None,
            next_inspection: None,
            came_soon: exposed_at.is_some_and(|at| now < at.after(SOON)),
            absences: 0,
            reason: None,
            found: None,
        });
        crashes.count(now);
        crashes
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// Why the target is taken to keep ending, if it is.
    pub(super) fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        self.next_inspection
    }

    /// Begins an inspection if one is due. Returns whether it did.
    pub(super) fn begin_due_inspection(&mut self, now: Moment) -> bool {
        self.next_inspection.take_if(|at| *at <= now).is_some()
    }

    /// Takes what an inspection has found. Returns whether the target is not inspected any more.
    pub(super) fn inspected_after_end(&mut self, found: &Inspection, now: Moment) -> bool {
        // Others inspect the target, too, and more often.
        let is_own = self.next_inspection.is_none();
        if *found != Inspection::Absent {
            self.absences = 0;
        } else if is_own {
            self.absences = self.absences.saturating_add(1);
        }
        match (found, self.runs_since) {
            (Inspection::Running { last, .. }, Some(since))
                if *last > since.after(CLOCK_MARGIN) =>
            {
                self.count(now);
                self.runs_since = Some(*last);
            }
            (Inspection::Running { last, .. }, None) => {
                // One that is about to end may still be there.
                if last.after(CLOCK_MARGIN) >= self.last {
                    self.runs_since = Some(*last);
                }
                self.target_found();
            }
            (Inspection::Absent, Some(_)) => self.count(now),
            (Inspection::Absent, None)
                if self.came_soon
                    && self.reason.is_none()
                    && self.absences >= ABSENCES_REPORTED =>
            {
                self.keeps_ending(now, Some(absent(now.since(self.last))));
            }
            _ => {}
        }
        let is_young = self.runs_since.is_some_and(|since| now < since.after(MAX_STARTUP));
        let wait = if is_young { INSPECT_EVERY.0 } else { INSPECT_EVERY.1 };
        self.next_inspection = Some(now.after(wait));
        match self.runs_since {
            Some(since) => now >= since.after(STABLE),
            None => self.reason.is_none() && now >= self.last.after(GONE),
        }
    }

    /// A process runs, so the target does not stay away any more.
    fn target_found(&mut self) {
        if !self.ends.are_many() {
            self.reason = None;
        }
    }

    fn count(&mut self, now: Moment) {
        self.ends = Ends::after(Some(self.ends), now);
        (self.last, self.runs_since, self.next_inspection) =
            (now, None, Some(now.after(INSPECT_EVERY.0)));
        if self.ends.are_many() {
            self.keeps_ending(now, self.ends.reason(now));
        }
    }

    /// The reason may change, or be gone for a while; it is reported once.
    fn keeps_ending(&mut self, now: Moment, reason: Option<Reason>) {
        self.found.get_or_insert(now);
        self.reason = reason;
    }

    /// Whether it was found now that the target keeps ending.
    pub(super) fn is_reported(&self, now: Moment) -> bool {
        self.found == Some(now)
    }
}

fn absent(time: Duration) -> Reason {
    let time = humantime::format_duration(Duration::from_secs(time.as_secs()));
    let message =
        format!("the target ended with this content, and no process of it was found for {time}");
    let hint = "it ends at each start, or cannot start: the log of its container says why";
    Reason::new(message).hint(hint)
}
