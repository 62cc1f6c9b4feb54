//! The verdict of the rule's checks on a digest.
//!
//! A digest is checked once. Rejected content is checked again only if it changes, a person
//! triggers the rule, or the time comes at which it becomes valid.
//!
//! A check may end podnudge itself: the content takes too much memory, or a bug does it. Content whose
//! check an earlier podnudge did not survive is checked while nothing else is checked, so that it alone is
//! counted, and rejected after [`Interrupted::MOST`] times.

use std::time::Duration;

use crate::backoff;
use crate::backoff::Retry;
use crate::clock::{Moment, Now};
use crate::event::{Checked, Interrupted};
use crate::fact::Fact;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The longest wait for content that is not valid yet. The node's clock may be wrong, and may be
/// corrected.
const MAX_RECHECK_WAIT: Duration = Duration::from_hours(1);

/// The verdict of the checks on a digest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict<'a> {
    Passed,
    /// The content must not be used.
    Rejected(&'a Reason),
    /// The checks are running or have to run; the reason says why they could not run before.
    Pending(Option<&'a Reason>),
}

/// The checks of a rule, and the state of their last run.
#[derive(Debug)]
pub(crate) struct Checks {
    /// Whether the rule has checks. Without any, all content passes.
    configured: bool,
    last: Run,
    /// The content whose check earlier podnudges have begun, until this one has survived it.
    interrupted: Vec<Interrupted>,
    /// The content that was recorded because it waits for its checks.
    recorded: Option<Digest>,
}

/// The checks of the other rules that are running: why to wait for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtherChecks {
    /// Why to wait for any other check.
    pub(crate) any: Option<Reason>,
    /// Why to wait for a check of content that has interrupted podnudge before.
    pub(crate) alone: Option<Reason>,
}

/// Whether checks begin.
#[derive(Debug, PartialEq)]
pub(crate) enum Start {
    No,
    Run,
    /// Like `Run`, for content whose check has interrupted podnudge so many times.
    RunAgain(u32),
    /// The content is rejected without a check.
    Rejected(Fact),
}

#[derive(Debug, Clone, PartialEq)]
enum Run {
    None,
    /// The checks of another rule come first.
    Waiting {
        digest: Digest,
        failures: u32,
        reason: Reason,
    },
    /// The checks are running, after this number of consecutive runs that failed to complete.
    Running {
        digest: Digest,
        failures: u32,
    },
    Passed(Digest),
    Rejected {
        digest: Digest,
        reason: Reason,
        /// When to check again, if the verdict depends on the time.
        recheck: Option<Moment>,
    },
    /// The checks failed to run, and are repeated at `at`.
    Failed {
        digest: Digest,
        at: Moment,
        failures: u32,
        reason: Reason,
    },
}

/// The consequences of a verdict.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) fact: Option<Fact>,
    /// The content changed during the check, and has to be scanned again.
    pub(crate) content_changed: bool,
    pub(crate) rejected: bool,
}

impl Checks {
    pub(crate) fn new(configured: bool, interrupted: Vec<Interrupted>) -> Self {
        Self { configured, last: Run::None, interrupted, recorded: None }
    }

    pub(crate) fn set_configured(&mut self, configured: bool, accepted: Option<Digest>) {
        self.configured = configured;
        if let Some(content) = accepted {
            self.last = Run::Passed(content);
        }
    }

    pub(crate) fn verdict(&self, content: Digest) -> Verdict<'_> {
        match &self.last {
            _ if !self.configured => Verdict::Passed,
            Run::Passed(digest) if *digest == content => Verdict::Passed,
            Run::Rejected { digest, reason, .. } if *digest == content => Verdict::Rejected(reason),
            Run::Failed { digest, reason, .. } | Run::Waiting { digest, reason, .. }
                if *digest == content =>
            {
                Verdict::Pending(Some(reason))
            }
            _ => Verdict::Pending(None),
        }
    }

    /// Whether the checks are running, wait, or have to be repeated.
    pub(crate) fn in_progress(&self) -> bool {
        matches!(self.last, Run::Running { .. } | Run::Waiting { .. } | Run::Failed { .. })
    }

    /// How many times podnudge has ended during the check of this content.
    pub(crate) fn interruptions(&self, content: Digest) -> u32 {
        Interrupted::times(&self.interrupted, content)
    }

    /// Whether checks are running.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.last, Run::Running { .. })
    }

    /// Whether checks are running that must be the only ones.
    pub(crate) fn is_running_alone(&self) -> bool {
        matches!(self.last, Run::Running { digest, .. } if self.interruptions(digest) > 0)
    }

    /// Returns, at the first call only, whether to record that this content waits for its checks: it is held, or those
    /// of another rule come first. The checks themselves are recorded when they run.
    pub(crate) fn take_unrecorded(&mut self, content: Digest) -> bool {
        let is_pending = matches!(self.verdict(content), Verdict::Pending(_));
        let is_running = matches!(self.last, Run::Running { digest, .. } if digest == content);
        let is_due = is_pending && !is_running && self.recorded != Some(content);
        if is_due {
            self.recorded = Some(content);
        }
        is_due
    }

    /// Starts the checks for `content` unless its verdict is known or pending, or they have to wait for
    /// those of another rule. This abandons a run for other content.
    pub(crate) fn start(&mut self, now: Moment, content: Digest, others: &OtherChecks) -> Start {
        let failures = match &self.last {
            Run::Waiting { digest, failures, .. } if *digest == content => *failures,
            Run::Failed { digest, at, failures, .. } if *digest == content && *at <= now => {
                *failures
            }
            Run::Rejected { digest, recheck: Some(at), .. } if *digest == content && *at <= now => {
                0
            }
            Run::Running { digest, .. }
            | Run::Passed(digest)
            | Run::Rejected { digest, .. }
            | Run::Failed { digest, .. }
                if *digest == content =>
            {
                return Start::No;
            }
            _ => 0,
        };
        if !self.configured {
            return Start::No;
        }
        if let Some(reason) = Interrupted::rejection(&self.interrupted, content) {
            let fact = Fact::Rejected(content, reason.clone());
            self.last = Run::Rejected { digest: content, reason, recheck: None };
            return Start::Rejected(fact);
        }
        let times = self.interruptions(content);
        let ahead = if times > 0 { &others.any } else { &others.alone };
        if let Some(reason) = ahead.clone() {
            self.last = Run::Waiting { digest: content, failures, reason };
            return Start::No;
        }
        self.last = Run::Running { digest: content, failures };
        self.recorded = None;
        if times > 0 { Start::RunAgain(times) } else { Start::Run }
    }

    /// A person asks for another check: content that has interrupted podnudge is checked once more.
    pub(crate) fn permit_again(&mut self) {
        for known in &mut self.interrupted {
            known.times = known.times.min(Interrupted::MOST - 1);
        }
    }

    /// Discards the last verdict. A run in progress still counts.
    pub(crate) fn forget(&mut self) {
        if !matches!(self.last, Run::Running { .. }) {
            self.last = Run::None;
        }
    }

    /// Processes a verdict. Returns `None` if that run was abandoned.
    pub(crate) fn finished(
        &mut self,
        now: Now,
        content: Digest,
        checked: Checked,
        retry: Retry,
    ) -> Option<Answer> {
        let Run::Running { digest, failures } = self.last else { return None };
        if digest != content {
            return None;
        }
        if checked != Checked::Moved {
            self.interrupted.retain(|known| known.digest != content);
        }
        let failures = failures.saturating_add(1);
        let wait = backoff::wait_after(failures, retry);
        let later = |reason| Run::Failed { digest, at: now.mono.after(wait), failures, reason };
        let (last, fact, content_changed) = match checked {
            Checked::Passed => (Run::Passed(digest), Some(Fact::Passed(digest)), false),
            Checked::Rejected(reason) => {
                let fact = Fact::Rejected(digest, reason.clone());
                (Run::Rejected { digest, reason, recheck: None }, Some(fact), false)
            }
            Checked::NotBefore(time, reason) => {
                let wait = time.since(now.wall).max(retry.first).min(MAX_RECHECK_WAIT);
                let fact = Fact::Rejected(digest, reason.clone());
                let recheck = Some(now.mono.after(wait));
                (Run::Rejected { digest, reason, recheck }, Some(fact), false)
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
        let rejected = matches!(self.last, Run::Rejected { .. });
        Some(Answer { fact, content_changed, rejected })
    }

    /// When to run the checks for this digest again.
    pub(crate) fn next_run(&self, content: Digest) -> Option<Moment> {
        match &self.last {
            Run::Failed { digest, at, .. } if *digest == content => Some(*at),
            Run::Rejected { digest, recheck, .. } if *digest == content => *recheck,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::UnixTime;

    const RETRY: Retry =
        Retry { attempts: 3, first: Duration::from_secs(1), max: Duration::from_mins(1) };

    #[test]
    fn content_is_forgotten_once_podnudge_has_survived_its_check_and_no_other_content() {
        let [once, often] = [Digest([1; 32]), Digest([2; 32])];
        let known = |digest, times| Interrupted { digest, times };
        let interrupted = vec![known(once, 1), known(often, Interrupted::MOST)];
        let mut checks = Checks::new(true, interrupted);
        let now = Now { mono: Moment::default(), wall: UnixTime(Duration::from_secs(1)) };
        let others = OtherChecks::default();
        assert_eq!(checks.start(now.mono, once, &others), Start::RunAgain(1));
        checks.finished(now, once, Checked::Passed, RETRY).expect("it was running");
        assert_eq!(checks.interruptions(once), 0);
        assert!(matches!(checks.start(now.mono, often, &others), Start::Rejected(_)));
    }
}
