//! What follows where a rollout does not come through: waits, repetitions, a restart instead, and in
//! the end a roll-back or giving up.

use std::time::Duration;

use super::progress::{Context, Effect, Outcome, Progress};
use super::{Kind, Rollout, Step, WaitFor};
use crate::core::backoff;
use crate::core::event::Absence;
use crate::core::fact::Fact;
use crate::core::gate;
use crate::core::status::State;
use crate::reason::Reason;

/// Between two looks for a target that is not there: at first, and at most.
const TARGET_POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// How an attempt went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// It did not reach the application, as far as one can tell.
    Undelivered,
    /// There is no proof that the application runs it.
    Unproven,
    /// The application said that it does not accept.
    Declined,
}

impl Rollout {
    /// The target is not there. That no process came says nothing about the content; only where one
    /// was there, it is rolled back.
    pub(super) fn target_absent(
        &mut self,
        Absence { reason, was_read }: Absence,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        let now = it.now.mono;
        let (since, looks) = self.absent.unwrap_or((now, 0));
        self.absent = Some((since, looks.saturating_add(1)));
        let can_roll_back = it.roll_back_to.is_some();
        let was_reached = self.was_reached();
        let patience = if can_roll_back && was_reached {
            it.policy.target_wait.min(it.policy.verify_timeout)
        } else {
            it.policy.target_wait
        };
        if now >= since.after(patience) {
            let waited = humantime::format_duration(patience);
            let message = format!("no target for {waited}: {}", reason.message);
            let reason = Reason { message, ..reason };
            if (was_read || was_reached) && can_roll_back && it.is_suspect {
                progress.effect(Effect::Failed);
                return progress.end(Outcome::RollBack(reason));
            }
            if !self.has_told(State::Failed, &reason) {
                progress.effect(Effect::Failed);
            }
            return self.refused(reason, it.policy.retry.max, it, progress);
        }
        if !self.has_told(State::WaitingForTarget, &reason) {
            progress.report(Fact::TargetAbsent(reason.clone()));
            self.told = Some((State::WaitingForTarget, reason.message.clone()));
        }
        // A target that crashes because of what it reads is there for moments only.
        let looks = if can_roll_back { 0 } else { looks };
        let wait = backoff::doubled(TARGET_POLL.0, looks, TARGET_POLL.1);
        self.wait(WaitFor::Target, now.after(wait), reason);
    }

    /// Whether an attempt has failed. What it reached was there.
    fn was_reached(&self) -> bool {
        self.attempt > 1
    }

    /// A process that could have read the content has ended.
    pub(super) fn target_ended(
        &mut self,
        is_fresh: bool,
        reason: Reason,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        if !is_fresh {
            progress.effect(Effect::Tripped);
        }
        let is_back = self.kind != Kind::Forward;
        let restarted = self.is_restart || it.policy.is_restart;
        if it.roll_back_to.is_some() && it.is_suspect {
            progress.end(Outcome::RollBack(reason));
        } else if self.tripped.is_some() {
            self.trip(reason, it);
        } else if is_fresh || (is_back && !restarted) || !it.is_suspect {
            // It was not podnudge's doing, or it had read what is rolled back, or what another rule
            // rolls out; and it may come back.
            self.target_absent(Absence::unread(reason), it, progress);
        } else {
            let digest = self.failed().unwrap_or(self.digest());
            progress.report(Fact::Tripped(digest, reason.clone()));
            self.trip(reason, it);
        }
    }

    /// Nothing more is sent. A process that is started anew reads the content by itself, and is
    /// looked for.
    pub(super) fn trip(&mut self, reason: Reason, it: &Context<'_>) {
        let looks = self.tripped.unwrap_or(0);
        self.tripped = Some(looks.saturating_add(1));
        let wait = backoff::doubled(TARGET_POLL.0, looks, TARGET_POLL.1);
        self.step = Step::Tripped { next_look: Some(it.now.mono.after(wait)), reason };
    }

    /// An attempt failed, or its proof did not come: it is repeated, then the target is restarted,
    /// then it is rolled back, as far as the rule wants each.
    pub(super) fn failed_by(
        &mut self,
        failure: Failure,
        reason: Reason,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        progress.effect(Effect::Failed);
        self.absent = None;
        self.refusals = 0;
        let policy = it.policy;
        // What the application declines would not let it start.
        let may_restart = failure != Failure::Declined && policy.restarts_last;
        let repeats = failure == Failure::Undelivered
            || policy.retries_first
            || (!may_restart && it.roll_back_to.is_none());
        let is_last = self.is_restart || self.attempt >= policy.retry.attempts;
        if repeats && !is_last {
            let at = it.now.mono.after(backoff::wait_after(self.attempt, policy.retry));
            let at = it.last_action.map_or(at, |last| at.max(last.after(policy.min_interval)));
            progress.report(Fact::Retrying(reason.clone(), self.attempt, at.since(it.now.mono)));
            self.wait(WaitFor::Retry, at, reason);
        } else if may_restart && self.may_restart_instead(it) {
            progress.report(Fact::Escalating(self.digest(), reason.clone()));
            (self.is_restart, self.attempt) = (true, 1);
            self.wait(WaitFor::Restart, it.now.mono, reason);
        } else {
            progress.end(match it.roll_back_to {
                Some(_) => Outcome::RollBack(reason),
                None => Outcome::GaveUp(reason),
            });
        }
    }

    /// Once in a rollout, and within the budget.
    fn may_restart_instead(&self, it: &Context<'_>) -> bool {
        // Rolling back what a restart has brought is part of that restart.
        let in_budget = self.is_after_restart() || it.restart_at <= it.now.mono;
        !self.is_restart && !it.is_stopping && in_budget
    }

    /// Nothing was sent, because it would be wrong or cannot work as things are. That may change
    /// without new content: a target that is only starting, another container.
    pub(super) fn refused(
        &mut self,
        reason: Reason,
        wait: Duration,
        it: &Context<'_>,
        progress: &mut Progress,
    ) {
        if !self.has_told(State::Failed, &reason) {
            progress.report(Fact::Refused(reason.clone()));
            self.told = Some((State::Failed, reason.message.clone()));
        }
        self.wait(WaitFor::Refusal, it.now.mono.after(wait), reason);
    }

    /// The budget allows no restart now: what cannot be brought to its end must not lie there until
    /// it can.
    pub(super) fn out_of_budget(&mut self, it: &Context<'_>, progress: &mut Progress) {
        let reason = gate::exhausted(it.policy);
        if it.roll_back_to.is_some() && self.was_reached() {
            return progress.end(Outcome::RollBack(reason));
        }
        if !self.has_told(State::Held, &reason) {
            let wait = it.restart_at.since(it.now.mono);
            progress.report(Fact::Held(reason.clone(), Some(wait)));
            self.told = Some((State::Held, reason.message.clone()));
        }
        self.wait(WaitFor::Budget, it.restart_at, reason);
    }

    /// Whether this was told already. A hint may tell of what comes and goes by itself.
    pub(super) fn has_told(&self, state: State, reason: &Reason) -> bool {
        self.told.as_ref().is_some_and(|(of, told)| *of == state && *told == reason.message)
    }
}
