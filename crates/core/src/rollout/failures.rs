//! How a rollout handles failures: it waits, retries, restarts the target, and at last rolls back
//! or gives up.
//!
//! A failure is that the target ends, that the application rejects the content (an HTTP status about the content, an
//! exit code), that the proof does not come in time, or that nothing reaches the application. At once if the target has
//! ended, and otherwise after the steps of `on-failure` (another attempt; a restart within its budget, unless the
//! application has rejected the content), the digest is quarantined and rolled back where podnudge publishes,
//! `rollback` is on and another digest is good. Otherwise it is given up: podnudge acts again only if the content
//! changes or a person triggers it. A podnudge that is stopping rolls nothing back: the next one makes another attempt
//! first.
//!
//! A target that is absent is no evidence against the content. podnudge polls for it, and rolls back only if an earlier
//! attempt has failed, or if a process has read the published files since (`publish/access.rs`).
//!
//! Where there is nothing to roll back to and the target ends just after an action, the rule is tripped: it sends
//! nothing more, and polls for a process that started later. That process has read the content at its start; if it
//! survives, the rule is in sync. Newer content or a trigger ends `tripped`, too.

use std::time::Duration;

use super::progress::{Context, Effect, Outcome, Progress};
use super::{Direction, FoundBy, Missing, Rollout, TARGET_POLL, WaitFor};
use crate::backoff;
use crate::event::Absence;
use crate::fact::{Attempt, Fact};
use crate::reason::Reason;
use crate::status::State;

/// The kind of failure of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The action did not reach the application, as far as is known.
    Undelivered,
    /// The application did not prove that it runs the content.
    Unproven,
    /// The application answered that it rejects the content.
    Declined,
}

impl Rollout {
    /// Handles an absent target. Its absence is no evidence against the content; it is rolled back
    /// only if a process that could have read it was seen before.
    pub(super) fn target_absent(
        &mut self,
        Absence { reason, was_read }: Absence,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let now = ctx.now.mono;
        let (since, polls) = self.absent.map_or((now, 0), |before| (before.since, before.polls));
        let found_by = if self.is_sending() { FoundBy::Action } else { FoundBy::Poll };
        self.absent = Some(Missing { since, polls: polls.saturating_add(1), found_by });
        let can_roll_back = ctx.roll_back_to.is_some();
        let has_failed_attempt = self.has_failed_attempt();
        let timeout = if can_roll_back && has_failed_attempt {
            ctx.policy.rollout.target_wait.min(ctx.policy.rollout.verify_timeout)
        } else {
            ctx.policy.rollout.target_wait
        };
        if now >= since.after(timeout) {
            let waited = humantime::format_duration(timeout);
            let message = format!("no target for {waited}: {}", reason.message);
            let reason = Reason { message, ..reason };
            if (was_read || has_failed_attempt) && can_roll_back && ctx.may_be_at_fault {
                self.is_suspect |= was_read;
                progress.effect(Effect::Failed);
                return progress.end(Outcome::RollBack(reason));
            }
            if !self.has_reported(State::Refused, &reason) {
                progress.effect(Effect::Refused);
                progress.effect(Effect::Unknown);
            }
            return self.refused(reason, ctx.policy.rollout.retry.max, ctx, progress);
        }
        if self.record_news(State::WaitingForTarget, &reason) {
            progress.report(Fact::TargetAbsent(reason.clone()));
        }
        // Poll fast: a target that crashes because of its content exists only for moments.
        let polls = if can_roll_back { 0 } else { polls };
        let wait = backoff::doubled(TARGET_POLL.0, polls, TARGET_POLL.1);
        self.wait(WaitFor::Target, now.after(wait), reason);
    }

    /// Handles the end of a process that could have read the content.
    pub(super) fn target_ended(
        &mut self,
        is_fresh: bool,
        reason: Reason,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        if !is_fresh {
            progress.effect(Effect::Tripped);
        }
        let counted = self.count_end(reason.clone(), ctx, progress);
        let is_back = self.direction != Direction::Forward;
        let restarted = self.ends_target(&ctx.policy.rollout);
        if ctx.roll_back_to.is_some() && ctx.may_be_at_fault {
            self.is_suspect = true;
            progress.end(Outcome::RollBack(reason));
        } else if ctx.rolls_back_later && ctx.may_be_at_fault {
            // It may have been stopped together with podnudge. The next podnudge waits for the next process, and rolls
            // back if that ends, too, or if there is none and this one had read the content.
            self.is_suspect = true;
            self.target_absent(Absence::unread(reason), ctx, progress);
        } else if self.has_tripped() {
            // The pod is not Ready again, whatever it was meanwhile.
            progress.effect(Effect::Interrupted);
            self.trip(counted, ctx);
        } else if is_fresh || (is_back && !restarted) || !ctx.may_be_at_fault {
            // The process ended for another reason, or because of the rolled-back content or
            // another rule's content. It may be started again.
            self.target_absent(Absence::unread(reason), ctx, progress);
        } else {
            self.is_suspect = true;
            let digest = self.failed_digest().unwrap_or(self.digest());
            progress.report(Fact::Tripped(digest, reason.clone()));
            if self.is_evidence_for_others() {
                progress.effect(Effect::Halt(digest, reason.clone()));
            }
            self.trip(reason, ctx);
        }
    }

    /// Handles a failed attempt or a missing proof: retries, then restarts the target, then rolls
    /// back, as `on-failure` configures.
    pub(super) fn fail(
        &mut self,
        failure: Failure,
        reason: Reason,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        self.has_failed = true;
        self.is_suspect |= failure != Failure::Undelivered;
        self.absent = None;
        self.target_restart = None;
        self.refusals = 0;
        let policy = ctx.policy;
        // A restart would not help: the application would reject the content at its start.
        let escalates = failure != Failure::Declined && policy.rollout.restarts_last;
        let repeats = failure == Failure::Undelivered
            || policy.rollout.retries_first
            || (!escalates && ctx.roll_back_to.is_none());
        let is_last = self.is_restart || self.attempt >= policy.rollout.retry.attempts;
        if repeats && !is_last {
            self.retry(failure, reason, ctx, progress);
        } else if escalates && self.may_escalate(ctx) {
            progress.effect(Effect::Retried);
            progress.report(Fact::Escalating(self.digest(), reason.clone()));
            (self.is_restart, self.attempt) = (true, 1);
            self.wait(WaitFor::Restart, ctx.now.mono, reason);
        } else if ctx.rolls_back_later {
            self.retry(failure, reason, ctx, progress);
        } else {
            progress.effect(Effect::Failed);
            progress.end(match ctx.roll_back_to {
                Some(_) => Outcome::RollBack(reason),
                None => Outcome::GaveUp(reason),
            });
        }
    }

    /// Waits for another attempt. If podnudge is stopping, the next one makes it.
    fn retry(
        &mut self,
        failure: Failure,
        reason: Reason,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        progress.effect(Effect::Retried);
        let at = ctx.now.mono.after(backoff::wait_after(self.attempt, ctx.policy.rollout.retry));
        let at = ctx.next_action.map_or(at, |earliest| at.max(earliest));
        let wait = at.since(ctx.now.mono);
        progress.report(self.retrying(failure, reason.clone(), wait, ctx));
        self.wait(WaitFor::Retry, at, reason);
    }

    /// Says that an attempt failed, and that another one follows after this wait.
    pub(super) fn retrying(
        &self,
        failure: Failure,
        reason: Reason,
        next: Duration,
        ctx: &Context<'_>,
    ) -> Fact {
        let attempt = Attempt {
            number: self.attempt,
            most: ctx.policy.rollout.retry.attempts,
            next,
            is_unproven: failure == Failure::Unproven,
        };
        Fact::Retrying(self.digest(), attempt, reason)
    }

    /// Nothing was sent, because that would be wrong or cannot work now. This may change without
    /// new content: the target may be starting, or run in another container.
    pub(super) fn refused(
        &mut self,
        reason: Reason,
        wait: Duration,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        if self.record_news(State::Refused, &reason) {
            progress.report(Fact::Refused(reason.clone()));
        }
        self.wait(WaitFor::Refusal, ctx.now.mono.after(wait), reason);
    }
}
