//! Ends of the target after its rollout: whether it ends again and again with the same content. Pure.
//!
//! After an end that no rollout waits for, podnudge inspects the target until it has run for a minute. A newer start
//! tells of another end. That no process is found for half a minute is as bad as several ends.

use std::time::Duration;

use super::event::Inspection;
use super::volume_tracker::{CLOCK_MARGIN, MAX_STARTUP};
use crate::clock::Moment;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// After so many ends of the target with the same content, podnudge reports that it keeps ending.
const ENDS_REPORTED: u32 = 3;

/// The intervals between inspections: of a process that may still end during its start, and later or while there is
/// none.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// A process that has run for so long has not ended because of its content.
const STABLE: Duration = Duration::from_mins(1);

/// Without a process for so long after an end, the target does not run the content. One that ends at each start at
/// once is never seen: it lives for some milliseconds, and the kubelet waits longer and longer until the next start.
const ABSENT: Duration = Duration::from_secs(30);

/// Ends of the target with the same content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    since: Moment,
    count: u32,
}

impl Ends {
    /// Counts one more after those before it.
    pub(super) fn after(before: Option<Self>, now: Moment) -> Self {
        let Self { since, count } = before.unwrap_or(Self { since: now, count: 0 });
        Self { since, count: count.saturating_add(1) }
    }

    /// Says how many they are; `None` after the first one, which needs no count.
    pub(super) fn reason(self, now: Moment) -> Option<Reason> {
        let during = Duration::from_secs(now.since(self.since).as_secs());
        let during = humantime::format_duration(during);
        let message =
            format!("the target ended {} times in {during} with this content", self.count);
        (self.count > 1).then(|| Reason::new(message).hint("the log of its container says why"))
    }

    /// Whether this is the one to report.
    pub(super) fn is_reported(self) -> bool {
        self.count == ENDS_REPORTED
    }
}

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
    next_look: Option<Moment>,
    /// Set once it keeps ending.
    reason: Option<Reason>,
    /// When that was found.
    found: Option<Moment>,
}

impl Crashes {
    /// Counts an end that was not looked for.
    pub(super) fn ended(before: Option<Self>, digest: Digest, now: Moment) -> Self {
        let before = before.filter(|before| before.digest == digest);
        let mut crashes = before.unwrap_or(Self {
            digest,
            ends: Ends { since: now, count: 0 },
            last: now,
            runs_since: None,
            next_look: None,
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
        self.next_look
    }

    /// Begins an inspection if one is due. Returns whether it did.
    pub(super) fn begin_due_look(&mut self, now: Moment) -> bool {
        self.next_look.take_if(|at| *at <= now).is_some()
    }

    /// Takes what an inspection has found. Returns whether the target is not looked at any more.
    pub(super) fn looked(&mut self, found: &Inspection, now: Moment) -> bool {
        match (found, self.runs_since) {
            (Inspection::Running { last, .. }, Some(since))
                if *last > since.after(CLOCK_MARGIN) =>
            {
                self.count(now);
                self.runs_since = Some(*last);
            }
            // One that is about to end may still be there.
            (Inspection::Running { last, .. }, None) if last.after(CLOCK_MARGIN) >= self.last => {
                self.is_back(*last);
            }
            (Inspection::Absent, Some(_)) => self.count(now),
            (Inspection::Absent, None)
                if self.reason.is_none() && now >= self.last.after(ABSENT) =>
            {
                self.keeps_ending(now, Some(absent()));
            }
            _ => {}
        }
        let is_young = self.runs_since.is_some_and(|since| now < since.after(MAX_STARTUP));
        let wait = if is_young { LOOK.0 } else { LOOK.1 };
        self.next_look = Some(now.after(wait));
        match self.runs_since {
            Some(since) => now >= since.after(STABLE),
            None => false,
        }
    }

    /// A process was found that had started then.
    fn is_back(&mut self, since: Moment) {
        self.runs_since = Some(since);
        if self.ends.count < ENDS_REPORTED {
            self.reason = None;
        }
    }

    fn count(&mut self, now: Moment) {
        self.ends = Ends::after(Some(self.ends), now);
        (self.last, self.runs_since, self.next_look) = (now, None, Some(now.after(LOOK.0)));
        if self.ends.count >= ENDS_REPORTED {
            self.keeps_ending(now, self.ends.reason(now));
        }
    }

    /// The reason may change; it is reported once.
    fn keeps_ending(&mut self, now: Moment, reason: Option<Reason>) {
        if self.reason.is_none() {
            self.found = Some(now);
        }
        self.reason = reason;
    }

    /// Whether it was found now that the target keeps ending.
    pub(super) fn is_reported(&self, now: Moment) -> bool {
        self.found == Some(now)
    }
}

fn absent() -> Reason {
    let time = humantime::format_duration(ABSENT);
    let message =
        format!("the target ended with this content, and no process of it was found for {time}");
    let hint = "it ends at each start, or cannot start: the log of its container says why";
    Reason::new(message).hint(hint)
}
