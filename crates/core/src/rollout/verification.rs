//! Waiting for proof that the application runs the delivered content.

use std::time::Duration;

use crate::backoff;
use crate::clock::Moment;
use crate::event::{Absence, Alive, Proof, Reads, Verified};
use crate::evidence::{Evidence, MAX_STARTUP};
use crate::policy::Policy;
use crate::reason::Reason;

/// The first interval between polls, if the rule does not need a shorter one.
const POLL: Duration = Duration::from_millis(100);

/// How long after an action the application may take until it opens the content. Measured with applications that
/// reload on a signal: they open it within a second.
const READ_WAIT: Duration = Duration::from_secs(4);

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Verification {
    acted_at: Moment,
    /// The target read the content at its start; nothing was sent.
    is_fresh: bool,
    /// The evidence if the target survives and no proof is configured.
    unproven: Evidence,
    /// When to stop waiting for the proof.
    deadline: Moment,
    /// The number of polls without proof.
    polls: u32,
    /// The last poll found no process.
    is_absent: bool,
    /// A late poll found no process, and that one had read the content.
    is_reader_missing: bool,
    /// The target ended during the current poll.
    has_ended: bool,
    /// When to poll next; `None` during a poll.
    next_poll: Option<Moment>,
    /// Why the last poll found no proof.
    pending: Option<Reason>,
    /// Until when the application may open the content: from the first success on, while nothing has.
    read_until: Option<Moment>,
}

/// The result of a poll.
#[derive(Debug)]
pub(super) enum Finding {
    /// Neither proven nor failed yet.
    Inconclusive,
    /// The target survived, and every configured proof was found.
    Succeeded(Evidence),
    /// The process that was acted on, or that had read the content, has ended.
    Gone(Reason),
    /// The deadline has passed, and no process runs.
    NoProcess(Absence),
    /// The deadline has passed.
    Unproven(Reason),
}

impl Verification {
    pub(super) fn new(
        acted_at: Moment,
        is_fresh: bool,
        unproven: Evidence,
        policy: &Policy,
    ) -> Self {
        let survived = acted_at.after(policy.rollout.alive_for);
        Self {
            acted_at,
            is_fresh,
            unproven,
            deadline: acted_at.after(policy.rollout.verify_timeout.max(policy.rollout.alive_for)),
            polls: 0,
            is_absent: false,
            is_reader_missing: false,
            has_ended: false,
            next_poll: Some(if policy.rollout.proof { acted_at } else { survived }),
            pending: None,
            read_until: None,
        }
    }

    /// Allows time for a process that was ended to be started again.
    pub(super) fn extend_deadline(&mut self, now: Moment, policy: &Policy) {
        self.deadline = self.deadline.max(now.after(policy.rollout.target_wait));
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(super) fn next_poll(&self) -> Option<Moment> {
        self.next_poll
    }

    pub(super) fn reason(&self) -> Option<&Reason> {
        self.pending.as_ref()
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.next_poll.is_some_and(|at| at <= now)
    }

    pub(super) fn begin_poll(&mut self) {
        self.next_poll = None;
    }

    /// Polls at once because a target process has ended.
    pub(super) fn ended(&mut self, now: Moment) {
        // The poll in progress may have begun before the process ended.
        self.has_ended = self.next_poll.is_none();
        self.next_poll = self.next_poll.map(|at| at.min(now));
    }

    /// When the target has survived for long enough to be superseded. `None` during a poll.
    pub(super) fn supersedable_at(&self, policy: &Policy) -> Option<Moment> {
        self.next_poll.map(|_| self.acted_at.after(policy.rollout.alive_for))
    }

    /// Whether a poll found no proof, or that nothing has opened the content yet: newer content may be what is
    /// opened. After a given proof, wait for the next poll.
    pub(super) fn has_failed_poll(&self) -> bool {
        self.pending.is_some() || self.read_until.is_some()
    }

    /// Processes the result of a poll.
    pub(super) fn observe(&mut self, now: Moment, verified: Verified, policy: &Policy) -> Finding {
        let is_gone = matches!(verified.alive, Alive::Gone(_));
        if std::mem::take(&mut self.has_ended) && !is_gone {
            // The process was still running when this poll began.
            self.next_poll = Some(now);
            return Finding::Inconclusive;
        }
        let is_absent = matches!(verified.alive, Alive::Absent(_));
        if std::mem::replace(&mut self.is_absent, is_absent) && !is_absent {
            // A process has just started: the time for its proof begins now.
            let proven = now.after(policy.rollout.verify_timeout.max(policy.rollout.alive_for));
            self.deadline = self.deadline.max(proven);
        }
        let survived = self.acted_at.after(policy.rollout.alive_for);
        let is_late = now >= self.deadline;
        match (verified.alive, verified.proof) {
            (Alive::Gone(reason), _) => Finding::Gone(reason),
            (Alive::Replaced, _) => {
                self.next_poll = Some(now.after(POLL));
                self.extend_deadline(now, policy);
                Finding::Inconclusive
            }
            // The process may have started, and read, just after podnudge looked for it.
            (Alive::Absent(absence), _)
                if is_late
                    && absence.was_read
                    && !std::mem::replace(&mut self.is_reader_missing, true) =>
            {
                self.next_poll = Some(now.after(POLL));
                self.pending = Some(absence.reason);
                Finding::Inconclusive
            }
            (Alive::Absent(absence), _) if is_late => Finding::NoProcess(absence),
            (_, Proof::Pending(reason)) if is_late => Finding::Unproven(reason),
            (Alive::Absent(Absence { reason, .. }), _) | (_, Proof::Pending(reason)) => {
                let wait = backoff::doubled(POLL, self.polls, policy.rollout.verify_interval);
                self.polls = self.polls.saturating_add(1);
                self.next_poll = Some(now.after(wait).min(self.deadline));
                self.pending = Some(reason);
                Finding::Inconclusive
            }
            (_, Proof::Given) if now >= survived => {
                self.succeeded(now, Evidence::Verified, verified.reads, policy)
            }
            (_, Proof::NotConfigured) if now >= survived => {
                self.succeeded(now, self.unproven, verified.reads, policy)
            }
            (_, Proof::Given | Proof::NotConfigured) => {
                self.next_poll = Some(survived);
                self.pending = None;
                Finding::Inconclusive
            }
        }
    }

    /// Waits until the content is opened, if that can be seen. An application that opens nothing of it cannot run
    /// it, whatever else was found.
    fn succeeded(
        &mut self,
        now: Moment,
        evidence: Evidence,
        reads: Reads,
        policy: &Policy,
    ) -> Finding {
        let until = *self.read_until.get_or_insert_with(|| match self.unproven {
            // The new process was found just now.
            Evidence::ReadAtStart => {
                now.after(MAX_STARTUP.saturating_sub(policy.rollout.alive_for))
            }
            _ => self.acted_at.after(READ_WAIT),
        });
        match (reads, evidence) {
            (Reads::Nothing, _) if now >= until => Finding::Succeeded(Evidence::Unread),
            (Reads::Nothing, _) => {
                let wait = backoff::doubled(POLL, self.polls, policy.rollout.verify_interval);
                self.polls = self.polls.saturating_add(1);
                self.next_poll = Some(now.after(wait).min(until));
                self.pending = None;
                Finding::Inconclusive
            }
            (Reads::Key, Evidence::Delivered) => Finding::Succeeded(Evidence::Read),
            (Reads::Key | Reads::Unknown, evidence) => Finding::Succeeded(evidence),
        }
    }
}
