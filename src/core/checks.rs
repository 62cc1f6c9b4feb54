//! Whether content may be used: what the rule's checks say of a digest.
//!
//! A digest is checked once. One that was rejected is not checked again until the content changes, a
//! person triggers the rule, or the time has come for which it was made.

use std::time::Duration;

use super::backoff;
use super::event::Checked;
use super::fact::Fact;
use crate::clock::{Moment, Now};
use crate::config::Retry;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// How long content waits at most that must not be used before a certain time: the clock that it
/// is too early by may be wrong, and be set.
const MOST_UNTIL_AGAIN: Duration = Duration::from_hours(1);

/// What the checks say of a digest, for whoever asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict<'a> {
    Passed,
    /// It may not be used.
    Rejected(&'a Reason),
    /// It is being checked, or is to be; the reason is that of a check that could not be done.
    Pending(Option<&'a Reason>),
}

/// The checks of a rule, and what they said last.
#[derive(Debug)]
pub(super) struct Checks {
    /// Whether the rule has any; what needs no check has passed.
    exist: bool,
    last: Last,
}

#[derive(Debug, Clone, PartialEq)]
enum Last {
    Nothing,
    /// They are at work, after so many times in a row in which they could not be done.
    Asked {
        digest: Digest,
        failures: u32,
    },
    Passed(Digest),
    Rejected {
        digest: Digest,
        reason: Reason,
        /// When the verdict may be another one, should it be a matter of time.
        again: Option<Moment>,
    },
    /// They could not be done, and are asked again at `at`.
    Later {
        digest: Digest,
        at: Moment,
        failures: u32,
        reason: Reason,
    },
}

/// What an answer of the checks means.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) fact: Option<Fact>,
    /// The content is to be scanned again: it changed while it was being checked.
    pub(super) moved: bool,
    pub(super) rejected: bool,
}

impl Checks {
    pub(super) fn new(exist: bool) -> Self {
        Self { exist, last: Last::Nothing }
    }

    pub(super) fn verdict(&self, of: Digest) -> Verdict<'_> {
        match &self.last {
            _ if !self.exist => Verdict::Passed,
            Last::Passed(digest) if *digest == of => Verdict::Passed,
            Last::Rejected { digest, reason, .. } if *digest == of => Verdict::Rejected(reason),
            Last::Later { digest, reason, .. } if *digest == of => Verdict::Pending(Some(reason)),
            _ => Verdict::Pending(None),
        }
    }

    /// Whether there is work to do, or to be done later.
    pub(super) fn are_at_work(&self) -> bool {
        matches!(self.last, Last::Asked { .. } | Last::Later { .. })
    }

    /// Content waits for the verdict: says whether the checks are to be asked now. What they are at
    /// work on is given up for it.
    pub(super) fn ask(&mut self, now: Moment, of: Digest) -> bool {
        let failures = match &self.last {
            Last::Later { digest, at, failures, .. } if *digest == of && *at <= now => *failures,
            Last::Rejected { digest, again: Some(at), .. } if *digest == of && *at <= now => 0,
            Last::Asked { digest, .. }
            | Last::Passed(digest)
            | Last::Rejected { digest, .. }
            | Last::Later { digest, .. }
                if *digest == of =>
            {
                return false;
            }
            _ => 0,
        };
        if self.exist {
            self.last = Last::Asked { digest: of, failures };
        }
        self.exist
    }

    /// What was said counts no more; what is being checked is still answered.
    pub(super) fn forget(&mut self) {
        if !matches!(self.last, Last::Asked { .. }) {
            self.last = Last::Nothing;
        }
    }

    /// Takes the verdict on a digest. `None` if it was given up meanwhile.
    pub(super) fn answered(
        &mut self,
        now: Now,
        of: Digest,
        checked: Checked,
        retry: Retry,
    ) -> Option<Answer> {
        let Last::Asked { digest, failures } = self.last else { return None };
        if digest != of {
            return None;
        }
        let failures = failures.saturating_add(1);
        let wait = backoff::wait_after(failures, retry);
        let later = |reason| Last::Later { digest, at: now.mono.after(wait), failures, reason };
        let (last, fact, moved) = match checked {
            Checked::Passed => (Last::Passed(digest), Some(Fact::Passed(digest)), false),
            Checked::Rejected(reason) => {
                let fact = Fact::Rejected(digest, reason.clone());
                (Last::Rejected { digest, reason, again: None }, Some(fact), false)
            }
            Checked::NotBefore(time, reason) => {
                let wait = time.since(now.wall).max(retry.first).min(MOST_UNTIL_AGAIN);
                let fact = Fact::Rejected(digest, reason.clone());
                let again = Some(now.mono.after(wait));
                (Last::Rejected { digest, reason, again }, Some(fact), false)
            }
            Checked::Moved => {
                let reason = "the volume changed while it was being checked";
                (later(Reason::new(reason)), None, true)
            }
            Checked::Failed(reason) => {
                (later(reason.clone()), Some(Fact::CheckFailed(reason, wait)), false)
            }
        };
        self.last = last;
        let rejected = matches!(self.last, Last::Rejected { .. });
        Some(Answer { fact, moved, rejected })
    }

    /// When the checks are to be asked again about this digest.
    pub(super) fn due(&self, of: Digest) -> Option<Moment> {
        match &self.last {
            Last::Later { digest, at, .. } if *digest == of => Some(*at),
            Last::Rejected { digest, again, .. } if *digest == of => *again,
            _ => None,
        }
    }
}
