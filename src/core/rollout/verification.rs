//! Waiting for proof that the application runs what was given to it.

use std::time::Duration;

use crate::clock::Moment;
use crate::core::backoff;
use crate::core::event::{Absence, Alive, Proof, Verified};
use crate::core::policy::Policy;
use crate::reason::Reason;

/// Between two looks: at first, and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

#[derive(Debug)]
pub(super) struct Verification {
    acted_at: Moment,
    /// The target read it when it started: nothing was sent to it.
    is_fresh: bool,
    /// When the proof is no longer waited for.
    deadline: Moment,
    /// How often the proof was looked for in vain.
    looks: u32,
    /// The target has ended during the look that is under way.
    has_ended: bool,
    /// When to look next; `None` while a look is under way.
    next_look: Option<Moment>,
    /// Why the last look was in vain.
    pending: Option<Reason>,
}

/// What a look has shown.
#[derive(Debug)]
pub(super) enum Seen {
    /// Nothing for certain.
    Open,
    Proven,
    /// The process that was acted on, or had read the content, has ended.
    Gone(Reason),
    /// The time is over, and no process came that could have read the content.
    NoProcess(Absence),
    /// The time is over.
    Unproven(Reason),
}

impl Verification {
    pub(super) fn new(acted_at: Moment, is_fresh: bool, policy: &Policy) -> Self {
        let survived = acted_at.after(policy.alive_for);
        Self {
            acted_at,
            is_fresh,
            deadline: acted_at.after(policy.verify_timeout.max(policy.alive_for)),
            looks: 0,
            has_ended: false,
            next_look: Some(if policy.proof { acted_at } else { survived }),
            pending: None,
        }
    }

    /// It takes its time until a process that was ended is started anew.
    pub(super) fn allow_for_a_start(&mut self, now: Moment, policy: &Policy) {
        self.deadline = self.deadline.max(now.after(policy.target_wait));
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(super) fn next_look(&self) -> Option<Moment> {
        self.next_look
    }

    pub(super) fn reason(&self) -> Option<&Reason> {
        self.pending.as_ref()
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.next_look.is_some_and(|at| at <= now)
    }

    pub(super) fn begin_look(&mut self) {
        self.next_look = None;
    }

    /// A process that was acted on has ended: no time is to be lost.
    pub(super) fn ended(&mut self, now: Moment) {
        // A look that is under way may have been too early to see it.
        self.has_ended = self.next_look.is_none();
        self.next_look = self.next_look.map(|at| at.min(now));
    }

    /// When the target has survived for long enough to make room for newer content. `None` while a
    /// look is under way.
    pub(super) fn gives_way_at(&self, policy: &Policy) -> Option<Moment> {
        self.next_look.map(|_| self.acted_at.after(policy.alive_for))
    }

    /// Whether the proof was looked for in vain: one that was given is worth the next look.
    pub(super) fn is_in_vain(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes what a look has shown.
    pub(super) fn seen(&mut self, now: Moment, verified: Verified, policy: &Policy) -> Seen {
        let is_gone = matches!(verified.alive, Alive::Gone(_));
        if std::mem::take(&mut self.has_ended) && !is_gone {
            // It was still there when this look began.
            self.next_look = Some(now);
            return Seen::Open;
        }
        let survived = self.acted_at.after(policy.alive_for);
        let is_late = now >= self.deadline;
        match (verified.alive, verified.proof) {
            (Alive::Gone(reason), _) => Seen::Gone(reason),
            (Alive::Replaced, _) => {
                self.next_look = Some(now.after(POLL.0));
                self.allow_for_a_start(now, policy);
                Seen::Open
            }
            (Alive::Absent(absence), _) if is_late && !absence.was_read => Seen::NoProcess(absence),
            (Alive::Absent(Absence { reason, .. }), _) | (_, Proof::Pending(reason)) if is_late => {
                Seen::Unproven(reason)
            }
            (Alive::Absent(Absence { reason, .. }), _) | (_, Proof::Pending(reason)) => {
                let wait = backoff::doubled(POLL.0, self.looks, POLL.1);
                self.looks = self.looks.saturating_add(1);
                self.next_look = Some(now.after(wait).min(self.deadline));
                self.pending = Some(reason);
                Seen::Open
            }
            (_, Proof::Given | Proof::NotAsked) if now >= survived => Seen::Proven,
            (_, Proof::Given | Proof::NotAsked) => {
                self.next_look = Some(survived);
                self.pending = None;
                Seen::Open
            }
        }
    }
}
