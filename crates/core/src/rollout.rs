//! Brings one digest to the application, from its publication to an outcome.
//!
//! A rollout is a state machine of its own: [`Rollout::handle`] (`rollout/inputs.rs`) processes an input in the current
//! step and returns the effects to perform, and the outcome if the rollout has ended. What it needs
//! to know about the rule is passed to each call. ARCHITECTURE.md says how to add a step or a wait.
//!
//! This file is what a rollout is. `table` says what others may know of it. Above them, each file is one subject of what
//! it does next, and `inputs` chooses among them.

mod delivery;
mod drain;
mod failures;
mod inputs;
mod permit;
mod pod_end;
mod progress;
mod publishing;
mod restarts;
mod saved;
mod table;
mod target_restart;
mod tripped;
mod verification;

use std::time::Duration;

use super::cause::Cause;
use super::command::Extent;
use super::ends::Ends;
use super::intake::OnDisk;
use super::status::State;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::snapshot::Digest;
pub(super) use progress::{Context, Effect, Input, Outcome, Progress};
use target_restart::TargetRestart;
use verification::Verification;

/// The direction of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    /// Roll back to the last good generation.
    Back {
        /// The digest that is rolled back.
        failed: Digest,
        /// Whether the target was restarted with the failed content.
        after_restart: bool,
    },
}

/// What a rollout does only with the permission of the other replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Nothing: the application has no content yet.
    Nothing,
    /// The action, if it interrupts an application that no action of the rule has interrupted: what is hurt must not
    /// wait to go back. The content was good before, and is published at once.
    Action,
    /// The publication and the action.
    All,
}

/// The interval between polls for an absent target: initial and maximum.
const TARGET_POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

impl Limit {
    /// `goes_back`: to known good content, whatever the cause.
    fn of(cause: Cause, goes_back: bool) -> Self {
        match cause {
            Cause::FirstFill => Self::Nothing,
            Cause::Changed | Cause::Triggered if !goes_back => Self::All,
            Cause::KnownGood | Cause::Changed | Cause::Triggered => Self::Action,
        }
    }
}

/// Since when the target has been absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Missing {
    since: Moment,
    /// The number of polls since then.
    polls: u32,
    /// How it was found absent last.
    found_by: FoundBy,
}

/// How the absence of the target was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundBy {
    /// By an action, which was not sent.
    Action,
    /// By the preparation of one, or by a verification.
    Poll,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Rollout {
    content: OnDisk,
    direction: Direction,
    step: Step,
    /// 1 for the first attempt; polling for an absent target does not count.
    attempt: u32,
    /// A person triggered it: act even if the target started after the content was in place.
    is_triggered: bool,
    /// Whether this attempt restarts the target instead of running the rule's actions.
    is_restart: bool,
    limit: Limit,
    /// Whether this attempt has begun in the replica's turn.
    is_in_turn: bool,
    /// Evidence against the content: the application had it, and then ended, rejected it, or gave no proof.
    is_suspect: bool,
    /// An attempt has failed: that a process has read the content at its start is no proof any more.
    has_failed: bool,
    absent: Option<Missing>,
    /// The number of consecutive refusals.
    refusals: u32,
    /// Set once the target ended just after an action: nothing more is sent. Counts the polls for a
    /// process that has read the content at its start.
    tripped: Option<u32>,
    /// The restart of the target by this attempt.
    target_restart: Option<TargetRestart>,
    /// When the target first ended with this content, and how often it has ended since.
    ends: Option<Ends>,
    /// The last reported absence or refusal, to report each only once.
    reported: Option<(State, String)>,
}

#[derive(Debug)]
enum Step {
    /// The content is being published. If that fails, the superseded rollout continues where it
    /// was.
    Publishing {
        superseded: Option<Box<Rollout>>,
    },
    /// An action is under way, as far as this.
    Acting(Extent),
    /// podnudge ends, so that the kubelet restarts the pod, as soon as no other rule is busy. `is_sent`: that
    /// was commanded.
    EndingPod {
        since: Moment,
        is_sent: bool,
    },
    Verifying(Verification),
    /// The rollout continues at `at`.
    Waiting {
        what: WaitFor,
        at: Moment,
        reason: Reason,
    },
    /// The target ended just after the action. The next process reads the content at its start;
    /// podnudge polls for it at `next_poll`, which is `None` during a poll.
    Tripped {
        next_poll: Option<Moment>,
        reason: Reason,
    },
}

/// The reason for waiting between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitFor {
    /// To begin: the rollout was in progress when podnudge started.
    Start,
    /// For an absent target.
    Target,
    /// For the backoff after a failure.
    Retry,
    /// For a refusal to end; it may end without new content.
    Refusal,
    /// To restart the target instead of repeating the actions.
    Restart,
    /// For the restart budget.
    Budget,
    /// For the time of a drain, before the action.
    Drain,
    /// For the Services to let the pod go, or to tell whether they have it.
    Services,
    /// For a slot, or for the replica's turn: the action can be sent.
    Slot,
    /// For the permission to evict the pod.
    Disruption,
    /// To find out whether the pod was evicted: the request got no answer.
    Eviction,
    /// For the end of podnudge's own pod, which was evicted.
    Deletion,
}

impl Rollout {
    /// A rollout that begins with the first [`Input::Tick`]. `goes_back`: to known good content, whatever the cause.
    pub(super) fn new(
        content: OnDisk,
        direction: Direction,
        cause: Cause,
        goes_back: bool,
    ) -> Self {
        let reason = Reason::new("another rule acts on the same target");
        Self {
            content,
            direction,
            step: Step::Waiting { what: WaitFor::Start, at: Moment::default(), reason },
            attempt: 1,
            is_triggered: cause == Cause::Triggered,
            is_restart: false,
            limit: Limit::of(cause, goes_back),
            is_in_turn: false,
            is_suspect: false,
            has_failed: false,
            absent: None,
            refusals: 0,
            tripped: None,
            target_restart: None,
            ends: None,
            reported: None,
        }
    }

    /// A rollout that another podnudge, or an earlier state of the rule, has caused.
    pub(super) fn resumed(content: OnDisk, direction: Direction, is_known_good: bool) -> Self {
        let goes_back = is_known_good || direction != Direction::Forward;
        Self::new(content, direction, Cause::Changed, goes_back)
    }

    /// The digest to apply.
    pub(super) fn digest(&self) -> Digest {
        self.content.digest
    }

    pub(super) fn content(&self) -> OnDisk {
        self.content
    }

    pub(super) fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(super) fn is_triggered(&self) -> bool {
        self.is_triggered
    }

    /// Whether the target ended just after an action of this rollout.
    pub(super) fn has_tripped(&self) -> bool {
        self.tripped.is_some()
    }

    /// The digest that is rolled back, if this is a rollback.
    pub(super) fn failed_digest(&self) -> Option<Digest> {
        match self.direction {
            Direction::Forward => None,
            Direction::Back { failed, .. } => Some(failed),
        }
    }

    /// The content, unless the rollout goes back to it.
    pub(super) fn new_digest(&self) -> Option<Digest> {
        match self.direction {
            Direction::Forward => Some(self.digest()),
            Direction::Back { .. } => None,
        }
    }

    /// Whether it looks for evidence of the application.
    pub(super) fn is_verifying(&self) -> bool {
        matches!(self.step, Step::Verifying(_))
    }

    /// Whether the next attempt or poll is due.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.next_wakeup().is_some_and(|at| at <= now)
    }

    /// When it continues without an event.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match &self.step {
            Step::Waiting { at, .. } => Some(*at),
            Step::Verifying(verification) => verification.next_poll(),
            Step::Tripped { next_poll, .. } => *next_poll,
            Step::Publishing { .. } | Step::Acting(_) | Step::EndingPod { .. } => None,
        }
    }

    /// Whether the target has been absent for `target.wait`. From then on the rule acts even if its
    /// proofs cannot be prepared.
    pub(super) fn has_waited_for_target(&self, ctx: &Context<'_>) -> bool {
        let wait = ctx.policy.rollout.target_wait;
        self.absent.is_some_and(|absent| ctx.now.mono >= absent.since.after(wait))
    }

    /// Since when it has waited for the target, or for what that shows before an action.
    pub(super) fn waits_for_target_since(&self) -> Option<Moment> {
        let is_waiting = matches!(self.step, Step::Waiting { what: WaitFor::Target, .. });
        self.absent.filter(|_| is_waiting).map(|absent| absent.since)
    }

    /// Whether an attempt has failed since the rollout began or was escalated to a restart. If so,
    /// the target existed then.
    fn has_failed_attempt(&self) -> bool {
        self.attempt > 1
    }

    fn wait(&mut self, what: WaitFor, at: Moment, reason: Reason) {
        self.step = Step::Waiting { what, at, reason };
    }

    /// Whether this state and reason were reported last. Ignores the hint, which may vary.
    fn has_reported(&self, state: State, reason: &Reason) -> bool {
        self.reported
            .as_ref()
            .is_some_and(|(in_state, message)| *in_state == state && *message == reason.message)
    }

    /// Records that this state and reason are reported now. Returns whether that is news.
    fn record_news(&mut self, state: State, reason: &Reason) -> bool {
        let is_news = !self.has_reported(state, reason);
        if is_news {
            self.reported = Some((state, reason.message.clone()));
        }
        is_news
    }
}
