//! What each input does in each step of a rollout. Of all files of a rollout, this one calls the others, and none calls it.

use std::time::Duration;

use super::failures::Failure;
use super::progress::{Context, Effect, Input, Outcome, Progress};
use super::verification::Finding;
use super::{Direction, Rollout, Step, WaitFor};
use crate::backoff;
use crate::clock::{CLOCK_MARGIN, Moment};
use crate::command::Extent;
use crate::event::{Absence, Acted, Inspection};
use crate::evidence::Evidence;
use crate::fact::{AfterFresh, Fact};
use crate::intake::OnDisk;
use crate::permit::Answer;
use crate::status::State;

/// The wait after the first refusal. It is short because nothing was sent and the refusal may end
/// soon.
const FIRST_RETRY: Duration = Duration::from_millis(250);

impl Rollout {
    /// Begins the rollout, superseding another one if there is one.
    pub(crate) fn begin(&mut self, superseded: Option<Self>, ctx: &Context<'_>) -> Progress {
        let mut progress = Progress::default();
        self.is_in_turn = !matches!(ctx.permit, Answer::Turn { .. });
        self.bring(superseded, ctx, &mut progress);
        progress
    }

    /// Processes an input.
    pub(crate) fn handle(&mut self, input: Input, ctx: &Context<'_>) -> Progress {
        let mut progress = Progress::default();
        let now = ctx.now.mono;
        match (&mut self.step, input) {
            (Step::Publishing { .. }, Input::Published { publication, is_swapped }) => {
                self.published(publication, is_swapped, ctx, &mut progress);
            }
            (Step::Acting(Extent::LookForFresh), Input::Acted(acted)) => {
                self.fresh_looked_for(acted, ctx, &mut progress);
            }
            (Step::Acting(_), Input::Acted(acted)) => self.acted(acted, ctx, &mut progress),
            (Step::EndingPod { .. }, Input::Acted(refused @ Acted::Refused(_))) => {
                self.take_back_end();
                self.acted(refused, ctx, &mut progress);
            }
            (Step::Verifying(verification), Input::Verified(verified)) => {
                let observation = verification.observe(now, verified, ctx.policy);
                let is_fresh = verification.is_fresh();
                self.observed(observation, is_fresh, ctx, &mut progress);
            }
            (Step::Verifying(verification), Input::Ended) => verification.ended(now),
            (Step::Verifying(verification), Input::Tick) if verification.is_due(now) => {
                verification.begin_poll();
                progress.effect(Effect::Verify);
            }
            (Step::Waiting { what, at, .. }, Input::Tick) if *at <= now => {
                let (what, at) = (*what, *at);
                self.wait_over(what, at, ctx, &mut progress);
            }
            (Step::Waiting { what: WaitFor::Services, .. }, Input::Left(left)) => {
                self.left(left, ctx, &mut progress);
            }
            (
                Step::Waiting {
                    what: WaitFor::Drain | WaitFor::Services | WaitFor::Target, ..
                }
                | Step::EndingPod { is_sent: false, .. },
                Input::ContentGone,
            ) => self.content_gone(),
            (
                Step::Waiting { what: WaitFor::Drain | WaitFor::Services, .. }
                | Step::EndingPod { is_sent: false, .. },
                Input::SlotLost,
            ) => {
                self.wait_for_others(ctx, &mut progress);
            }
            (Step::Waiting { .. }, Input::EndedElsewhere(reason)) => {
                self.target_ended(false, reason, ctx, &mut progress);
            }
            (Step::Tripped { next_poll, .. }, Input::Tick)
                if next_poll.is_some_and(|at| at <= now) =>
            {
                *next_poll = None;
                progress.effect(Effect::Inspect);
            }
            (Step::Tripped { .. }, Input::Inspected(target)) => {
                self.polled(target, ctx, &mut progress);
            }
            _ => {}
        }
        progress
    }

    /// Continues when the wait is over, which ended at `at`.
    fn wait_over(
        &mut self,
        waited_for: WaitFor,
        at: Moment,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        if waited_for == WaitFor::Deletion {
            return self.not_deleted(ctx, progress);
        }
        if waited_for == WaitFor::Retry {
            self.attempt = self.attempt.saturating_add(1);
            self.is_triggered = false;
        }
        self.is_in_turn = self.may_use_turn(waited_for, at, ctx);
        if !self.hold_back(waited_for, ctx, progress) {
            self.publish_or_act(ctx, progress);
        }
    }

    fn acted(&mut self, acted: Acted, ctx: &Context<'_>, progress: &mut Progress) {
        let digest = self.digest();
        if matches!(acted, Acted::Failed(_) | Acted::Declined(_)) {
            let is_sent = self.is_sending();
            progress.effect(if is_sent { Effect::Interrupted } else { Effect::NotSent });
        }
        match acted {
            Acted::Ready => {
                progress.effect(Effect::NotSent);
                self.prepared(ctx, progress);
            }
            Acted::EndsPod => self.await_end(ctx.now.mono),
            Acted::NotRestarted(processes) => self.pod_not_restarted(&processes, ctx, progress),
            Acted::Unseen => self.pod_restart_unseen(ctx, progress),
            Acted::Evicted => self.evicted(ctx, progress),
            Acted::Postponed(reason, pause) => {
                progress.effect(Effect::NotSent);
                self.await_eviction(WaitFor::Disruption, reason, pause, ctx, progress);
            }
            Acted::Unanswered(reason, pause) => {
                progress.effect(Effect::Interrupted);
                self.await_eviction(WaitFor::Eviction, reason, pause, ctx, progress);
            }
            Acted::Sent(to) => {
                progress.report(Fact::Sent(digest, to));
                self.delivered(Evidence::Delivered, ctx, progress);
            }
            Acted::Accepted(answer) => {
                progress.report(Fact::Accepted(digest, answer));
                self.delivered(Evidence::Accepted, ctx, progress);
            }
            Acted::Restarted(targets) => {
                self.restart_seen();
                progress.report(Fact::Restarted(digest, targets, ctx.start_delay));
                progress.effect(Effect::Restarted);
                self.delivered_by_restart(Evidence::ReadAtStart, ctx, progress);
            }
            Acted::Fresh(targets) => {
                let is_restarted = self.restarted_by_earlier().is_some();
                // Only verified content can become the last good generation, and what has failed before needs its
                // proof.
                let verifies = is_restarted || !ctx.reads_volumes || self.has_failed;
                let next = if verifies { AfterFresh::Verifies } else { AfterFresh::Ends };
                progress.report(Fact::Fresh(digest, targets, next));
                self.count_pod_restart(progress);
                if is_restarted {
                    // An earlier podnudge has restarted it and could not verify it.
                    self.restart_seen();
                    self.verify_restarted(ctx, progress);
                } else if verifies {
                    self.verify_fresh(ctx, progress);
                } else {
                    progress
                        .end(Outcome::Applied { is_fresh: true, evidence: Evidence::ReadAtStart });
                }
            }
            Acted::Absent(absence) => {
                progress.effect(Effect::NotSent);
                self.target_absent(absence, ctx, progress);
            }
            Acted::Failed(reason) => self.fail(Failure::Undelivered, reason, ctx, progress),
            Acted::Declined(reason) => self.fail(Failure::Declined, reason, ctx, progress),
            Acted::Refused(reason) => {
                progress.effect(Effect::NotSent);
                if !self.has_reported(State::Refused, &reason) {
                    progress.effect(Effect::Refused);
                }
                self.refusals = self.refusals.saturating_add(1);
                let times = self.refusals.saturating_sub(1);
                let wait = backoff::doubled(FIRST_RETRY, times, ctx.policy.rollout.retry.max);
                self.refused(reason, wait, ctx, progress);
            }
        }
    }

    fn observed(
        &mut self,
        observation: Finding,
        is_fresh: bool,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        match observation {
            Finding::Inconclusive => {}
            Finding::Succeeded(evidence) => progress.end(Outcome::Applied { is_fresh, evidence }),
            Finding::Gone(reason) => self.target_ended(is_fresh, reason, ctx, progress),
            Finding::Unproven(reason) => self.fail(Failure::Unproven, reason, ctx, progress),
            // A process has read the content and ended.
            Finding::NoProcess(Absence { was_read: true, reason }) if ctx.may_be_at_fault => {
                self.fail(Failure::Unproven, reason, ctx, progress);
            }
            Finding::NoProcess(Absence { reason, .. }) => {
                self.is_triggered = false;
                self.target_absent(Absence::unread(reason), ctx, progress);
            }
        }
    }

    /// Takes what a poll has found: verifies, without sending anything, a process that has read the content at its start.
    fn polled(&mut self, target: Inspection, ctx: &Context<'_>, progress: &mut Progress) {
        let since = ctx.readable_since.after(CLOCK_MARGIN);
        if matches!(target, Inspection::Running { first, .. } if first > since) {
            // Let the action find that the target is fresh; it then sends nothing.
            self.is_triggered = false;
            return self.act(ctx, progress);
        }
        self.poll_again(ctx);
    }

    /// Takes the newer commit time if the same content was committed again.
    pub(crate) fn update(&mut self, content: OnDisk) {
        let is_same = self.direction == Direction::Forward && self.content.digest == content.digest;
        if is_same && self.is_waiting() {
            self.content = content;
        }
    }
}
