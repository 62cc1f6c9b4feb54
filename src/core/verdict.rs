//! Whether what is on disk may be used: the rule's checks say so, before anything is done with it.
//!
//! A digest is asked about once. What was refused is not asked about again until the content
//! changes, a person forces it, or the time has come for which it was made; the application keeps
//! what it has.

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff;
use super::delivery::Phase;
use super::event::{Checked, Command};
use super::fact::Fact;
use super::look::OnDisk;
use super::rule::Rule;
use crate::clock::{Moment, Now};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// How long content waits at most that must not be used before a certain time: the clock that it
/// is too early by may be wrong, and be set.
const MOST_UNTIL_AGAIN: Duration = Duration::from_hours(1);

/// What the checks say of a digest.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// They were not asked.
    Open,
    /// They are at work, after so many times in a row in which they could not be done.
    Asked {
        digest: Digest,
        failures: u32,
    },
    Passed(Digest),
    Refused {
        digest: Digest,
        reason: Reason,
        /// When they may see it otherwise, should it be a matter of time.
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

impl Verdict {
    fn digest(&self) -> Option<Digest> {
        match self {
            Self::Open => None,
            Self::Asked { digest, .. }
            | Self::Passed(digest)
            | Self::Refused { digest, .. }
            | Self::Later { digest, .. } => Some(*digest),
        }
    }

    /// Why this digest may not be used, if that was found.
    fn objection(&self, to: Digest) -> Option<&Reason> {
        match self {
            Self::Refused { digest, reason, .. } | Self::Later { digest, reason, .. }
                if *digest == to =>
            {
                Some(reason)
            }
            _ => None,
        }
    }

    /// When the checks want to be asked again.
    pub(super) fn due(&self) -> Option<Moment> {
        match self {
            Self::Later { at, .. } => Some(*at),
            Self::Refused { again, .. } => *again,
            _ => None,
        }
    }
}

impl Rule {
    /// Whether what is on disk has passed the checks, where there are any.
    pub(super) fn is_usable(&self) -> bool {
        let disk = self.look.on_disk().map(|disk| disk.digest);
        let has_passed = disk.is_some_and(|digest| self.verdict == Verdict::Passed(digest));
        (has_passed || !self.policy.has_checks) && !self.is_taken_back()
    }

    /// Whether what is on disk was taken back.
    pub(super) fn is_taken_back(&self) -> bool {
        self.look.on_disk().is_some_and(|disk| self.why_bad(disk.digest).is_some())
    }

    /// Why this digest may not be used, if that was found.
    pub(super) fn objection(&self, digest: Digest) -> Option<&Reason> {
        self.why_bad(digest).or_else(|| self.verdict.objection(digest))
    }

    /// Whether the checks refuse what is on disk.
    pub(super) fn is_rejected(&self) -> bool {
        let disk = self.look.on_disk().map(|disk| disk.digest);
        matches!(&self.verdict, Verdict::Refused { digest, .. } if Some(*digest) == disk)
    }

    /// Asks the checks, unless they know this content. Says whether it has passed.
    pub(super) fn check(&mut self, disk: OnDisk, out: &mut VecDeque<Command>) -> bool {
        // One look at a time; the answer to an older question comes first.
        let is_busy =
            matches!(self.verdict, Verdict::Asked { .. }) || self.look.is_missing_a_volume();
        let is_open = self.policy.has_checks && self.why_bad(disk.digest).is_none();
        if is_open && !is_busy && self.verdict.digest() != Some(disk.digest) {
            self.ask_checks(disk.digest, 0, out);
        }
        self.is_usable()
    }

    fn ask_checks(&mut self, digest: Digest, failures: u32, out: &mut VecDeque<Command>) {
        self.verdict = Verdict::Asked { digest, failures };
        out.push_back(Command::Check(self.id, digest));
    }

    /// A person wants to have it checked once more.
    pub(super) fn check_again(&mut self) {
        if !matches!(self.verdict, Verdict::Asked { .. }) {
            self.verdict = Verdict::Open;
        }
    }

    /// Asks again, when the time has come.
    pub(super) fn check_if_due(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let (digest, failures) = match self.verdict {
            Verdict::Later { digest, at, failures, .. } if at <= now.mono => (digest, failures),
            Verdict::Refused { digest, again: Some(at), .. } if at <= now.mono => (digest, 0),
            _ => return,
        };
        let disk = self.look.on_disk().map(|disk| disk.digest);
        let is_wanted = disk == Some(digest) && (self.forced || self.running != disk);
        if is_wanted && !self.look.is_missing_a_volume() {
            self.ask_checks(digest, failures, out);
        } else {
            // Whoever wants it asks anew.
            self.verdict = Verdict::Open;
            self.reconcile(now, out);
        }
    }

    pub(super) fn checked(&mut self, now: Now, checked: Checked, out: &mut VecDeque<Command>) {
        let Verdict::Asked { digest, failures } = self.verdict else { return };
        match checked {
            Checked::Passed => {
                self.counters.checks_passed += 1;
                self.say(Fact::Passed(digest), out);
                self.verdict = Verdict::Passed(digest);
            }
            Checked::Refused(reason) => self.refuse(digest, reason, None, out),
            Checked::NotBefore(time, reason) => {
                let wait = time.since(now.wall).max(self.policy.retry.first).min(MOST_UNTIL_AGAIN);
                self.refuse(digest, reason, Some(now.mono.after(wait)), out);
            }
            Checked::Moved => {
                // A look tells what is there now; should it be the same, it is asked about later.
                self.look.touched_all(now.mono);
                let reason = Reason::new("the volume changed while it was being checked");
                self.check_later(now.mono, digest, failures, reason);
            }
            Checked::Failed(reason) => {
                self.counters.checks_failed += 1;
                let wait = self.check_later(now.mono, digest, failures, reason.clone());
                self.say(Fact::CheckFailed(reason, wait), out);
            }
        }
        self.reconcile(now, out);
    }

    fn refuse(
        &mut self,
        digest: Digest,
        reason: Reason,
        again: Option<Moment>,
        out: &mut VecDeque<Command>,
    ) {
        self.counters.checks_refused += 1;
        self.say(Fact::Rejected(digest, reason.clone()), out);
        self.verdict = Verdict::Refused { digest, reason, again };
        // Of content that is no longer on disk, that is all there is to say.
        if self.is_rejected() {
            self.forced = false;
            if matches!(self.phase, Phase::Waiting { .. }) {
                self.phase = Phase::Idle;
            }
        }
    }

    fn check_later(
        &mut self,
        now: Moment,
        digest: Digest,
        failures: u32,
        reason: Reason,
    ) -> Duration {
        let failures = failures.saturating_add(1);
        let wait = backoff::wait_after(failures, self.policy.retry);
        self.verdict = Verdict::Later { digest, at: now.after(wait), failures, reason };
        wait
    }
}
