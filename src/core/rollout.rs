//! One digest on its way to the application, from its publication to an outcome.
//!
//! A rollout is a machine of its own: [`Rollout::handle`] takes an input in a step and gives what is
//! to be done, and the outcome when there is one. What it needs to know of the rule comes with each
//! call. To add a state, add a [`Step`] and its line in [`Rollout::handle`].

mod answers;
mod progress;
mod setbacks;
mod verification;

use super::gate::GivesWay;
use super::source::OnDisk;
use super::status::State;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;
pub(super) use progress::{Context, Effect, Input, Outcome, Progress};
use verification::Verification;

/// In which direction a rollout goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Forward,
    /// Back to the last good generation.
    Back {
        /// What is rolled back.
        failed: Digest,
        /// Whether the target was restarted with it.
        after_restart: bool,
    },
}

#[derive(Debug)]
pub(super) struct Rollout {
    content: OnDisk,
    kind: Kind,
    step: Step,
    /// 1 for the first; looks for a target that is not there do not count.
    attempt: u32,
    /// A person asked for it: the target gets it even if it started after the content was in place.
    is_triggered: bool,
    /// This attempt restarts the target instead of doing the rule's actions.
    is_restart: bool,
    /// Since when the target is not there, and how often it was looked for.
    absent: Option<(Moment, u32)>,
    /// Refusals in a row.
    refusals: u32,
    /// The target ended just after an action: from then on nothing more is sent. How often a process
    /// was looked for that has read the content by itself.
    tripped: Option<u32>,
    /// The last absence or refusal that was told, as which: each is told once.
    told: Option<(State, String)>,
}

#[derive(Debug)]
enum Step {
    /// It is being put where the application reads. Should that fail, what it was to take the place
    /// of goes on where it was.
    Publishing {
        instead_of: Option<Box<Rollout>>,
    },
    Acting,
    Verifying(Verification),
    /// It goes on at `at`.
    Waiting {
        what: WaitFor,
        at: Moment,
        reason: Reason,
    },
    /// The target ended just after the action. One that is started anew reads the content by itself:
    /// it is looked for at `next_look`; `None` while a look is under way.
    Tripped {
        next_look: Option<Moment>,
        reason: Reason,
    },
}

/// What a rollout waits for between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitFor {
    /// Its turn to begin: it was under way when podnudge started.
    Turn,
    /// The target, which is not there.
    Target,
    /// The back-off after a failure.
    Retry,
    /// A refusal may pass without new content.
    Refusal,
    /// Its turn to restart the target instead.
    Restart,
    /// The budget of restarts.
    Budget,
}

impl Rollout {
    /// One that is still to be begun: the first [`Input::Tick`] does.
    pub(super) fn new(content: OnDisk, kind: Kind, is_triggered: bool) -> Self {
        let reason = Reason::new("another rule acts on the same target");
        Self {
            content,
            kind,
            step: Step::Waiting { what: WaitFor::Turn, at: Moment::default(), reason },
            attempt: 1,
            is_triggered,
            is_restart: false,
            absent: None,
            refusals: 0,
            tripped: None,
            told: None,
        }
    }

    /// Begins, in the place of another one if there is one.
    pub(super) fn begin(&mut self, instead_of: Option<Self>, it: &Context<'_>) -> Progress {
        let mut progress = Progress::default();
        // A person who triggers it may have seen that something is wrong with what is published.
        if it.lacks || (self.is_triggered && !it.follows_disk) {
            self.publish(instead_of.map(Box::new), &mut progress);
        } else {
            let told = instead_of.filter(|old| matches!(old.step, Step::Verifying(_)));
            self.supersedes(told.as_ref(), &mut progress);
            self.act(&mut progress);
        }
        progress
    }

    /// What it was to take the place of, before it is published.
    pub(super) fn replaced(&mut self) -> Option<Self> {
        match &mut self.step {
            Step::Publishing { instead_of } => instead_of.take().map(|replaced| *replaced),
            _ => None,
        }
    }

    /// What the application is to run.
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

    pub(super) fn is_restart(&self) -> bool {
        self.is_restart
    }

    /// Whether the target ended just after an action of it.
    pub(super) fn has_tripped(&self) -> bool {
        self.tripped.is_some()
    }

    /// What is rolled back, in a roll-back.
    pub(super) fn failed(&self) -> Option<Digest> {
        match self.kind {
            Kind::Forward => None,
            Kind::Back { failed, .. } => Some(failed),
        }
    }

    /// The same content was committed anew.
    pub(super) fn update(&mut self, content: OnDisk) {
        let is_same = self.kind == Kind::Forward && self.content.digest == content.digest;
        if is_same && self.is_waiting() {
            self.content = content;
        }
    }

    /// Whether something is under way that is not broken off.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.step, Step::Publishing { .. } | Step::Acting | Step::Verifying(_))
    }

    /// Whether it waits for an attempt, or for a process that has read the content.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.step, Step::Waiting { .. } | Step::Tripped { .. })
    }

    /// Whether it goes on soon, with a target that is not there yet or another attempt.
    pub(super) fn goes_on_soon(&self) -> bool {
        matches!(
            self.step,
            Step::Waiting { what: WaitFor::Target | WaitFor::Retry | WaitFor::Restart, .. }
        )
    }

    /// Whether its next attempt, or its next look, is due.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    /// When it goes on by itself.
    pub(super) fn next(&self) -> Option<Moment> {
        match &self.step {
            Step::Waiting { at, .. } => Some(*at),
            Step::Verifying(verification) => verification.next_look(),
            Step::Tripped { next_look, .. } => *next_look,
            Step::Publishing { .. } | Step::Acting => None,
        }
    }

    /// When it will act next.
    pub(super) fn next_attempt(&self, it: &Context<'_>) -> Option<Moment> {
        let Step::Waiting { what, at, .. } = &self.step else { return None };
        let is_held = self.needs_budget(*what, it) && it.roll_back_to.is_none();
        Some(if is_held { *at.max(&it.restart_at) } else { *at })
    }

    /// Whether its next attempt is a restart that the budget has to allow.
    /// To look for a target that is not there restarts nothing.
    fn needs_budget(&self, waited_for: WaitFor, it: &Context<'_>) -> bool {
        let is_triggered = self.is_triggered && waited_for != WaitFor::Retry;
        let restarts = matches!(waited_for, WaitFor::Retry | WaitFor::Budget);
        restarts && it.policy.is_restart && !is_triggered && self.kind == Kind::Forward
    }

    /// Whether the target has been missing for as long as is waited for it: then proofs that cannot
    /// be prepared do not keep it from being acted on.
    pub(super) fn has_waited(&self, it: &Context<'_>) -> bool {
        let wait = it.policy.target_wait;
        self.absent.is_some_and(|(since, _)| it.now.mono >= since.after(wait))
    }

    /// When it makes room for another digest.
    pub(super) fn gives_way(&self, to: Digest, it: &Context<'_>) -> GivesWay {
        match &self.step {
            Step::Publishing { .. } | Step::Acting => GivesWay::Later(None),
            Step::Verifying(verification) => match verification.gives_way_at(it.policy) {
                Some(at) if at <= it.now.mono && verification.is_in_vain() => GivesWay::Now,
                at => GivesWay::Later(at.filter(|at| *at > it.now.mono)),
            },
            // What is rolled back is not tried again before that is done, unless it cannot be done.
            Step::Waiting { what, .. } => {
                if self.failed() == Some(to) && *what != WaitFor::Refusal {
                    GivesWay::Later(None)
                } else {
                    GivesWay::Now
                }
            }
            Step::Tripped { .. } => GivesWay::Now,
        }
    }

    /// Takes an input.
    pub(super) fn handle(&mut self, input: Input, it: &Context<'_>) -> Progress {
        let mut progress = Progress::default();
        let now = it.now.mono;
        match (&mut self.step, input) {
            (Step::Publishing { .. }, Input::Published { publication, is_turned }) => {
                self.published(publication, is_turned, it, &mut progress);
            }
            (Step::Acting, Input::Acted(acted)) => self.acted(acted, it, &mut progress),
            (Step::Verifying(verification), Input::Verified(verified)) => {
                let seen = verification.seen(now, verified, it.policy);
                let is_fresh = verification.is_fresh();
                self.seen(seen, is_fresh, it, &mut progress);
            }
            (Step::Verifying(verification), Input::Ended) => verification.ended(now),
            (Step::Verifying(verification), Input::Tick) if verification.is_due(now) => {
                verification.begin_look();
                progress.effect(Effect::Verify);
            }
            (Step::Waiting { what, at, .. }, Input::Tick) if *at <= now => {
                let what = *what;
                self.go_on(what, it, &mut progress);
            }
            (Step::Waiting { .. }, Input::EndedElsewhere(reason)) => {
                self.target_ended(false, reason, it, &mut progress);
            }
            (Step::Tripped { next_look, .. }, Input::Tick)
                if next_look.is_some_and(|at| at <= now) =>
            {
                *next_look = None;
                progress.effect(Effect::Inspect);
            }
            (Step::Tripped { .. }, Input::Inspected(target)) => {
                self.looked_for_new_process(target, it, &mut progress);
            }
            _ => {}
        }
        progress
    }

    fn publish(&mut self, instead_of: Option<Box<Self>>, progress: &mut Progress) {
        self.step = Step::Publishing { instead_of };
        progress.effect(Effect::Publish);
    }

    fn wait(&mut self, what: WaitFor, at: Moment, reason: Reason) {
        self.step = Step::Waiting { what, at, reason };
    }

    fn act(&mut self, progress: &mut Progress) {
        self.step = Step::Acting;
        progress.effect(Effect::Act);
    }

    /// Whether its restarts are part of one that the budget counts already.
    pub(super) fn is_after_restart(&self) -> bool {
        matches!(self.kind, Kind::Back { after_restart: true, .. })
    }

    /// The wait is over.
    fn go_on(&mut self, waited_for: WaitFor, it: &Context<'_>, progress: &mut Progress) {
        if waited_for == WaitFor::Retry {
            self.attempt = self.attempt.saturating_add(1);
            self.is_triggered = false;
        }
        if self.needs_budget(waited_for, it) && it.restart_at > it.now.mono {
            self.out_of_budget(it, progress);
        } else if it.lacks {
            self.publish(None, progress);
        } else {
            self.act(progress);
        }
    }

    pub(super) fn state(&self) -> State {
        match (&self.step, self.kind) {
            (Step::Tripped { .. }, _) => State::Tripped,
            (Step::Waiting { what: WaitFor::Refusal, .. }, _) => State::Failed,
            (Step::Waiting { what: WaitFor::Budget, .. }, _) => State::Held,
            (_, Kind::Back { .. }) => State::RollingBack,
            (Step::Waiting { what: WaitFor::Turn, .. }, _) => State::Waiting,
            (Step::Publishing { .. }, _) => State::Publishing,
            (Step::Acting, _) => State::Acting,
            (Step::Verifying(_), _) => State::Verifying,
            (Step::Waiting { what: WaitFor::Target, .. }, _) => State::WaitingForTarget,
            (Step::Waiting { what: WaitFor::Retry | WaitFor::Restart, .. }, _) => State::Backoff,
        }
    }

    pub(super) fn reason(&self) -> Option<&Reason> {
        match &self.step {
            Step::Waiting { reason, .. } | Step::Tripped { reason, .. } => Some(reason),
            Step::Verifying(verification) => verification.reason(),
            Step::Publishing { .. } | Step::Acting => None,
        }
    }
}
