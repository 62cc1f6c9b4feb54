//! The restart of the target by a rollout: whether an attempt is one, what the budget counts of it, and what an earlier
//! podnudge has left of it.

use std::time::Duration;

use super::progress::{Context, Effect, Outcome, Progress};
use super::{Direction, Rollout, TargetRestart, WaitFor};
use crate::clock::Moment;
use crate::command::Extent;
use crate::fact::Fact;
use crate::gate;
use crate::policy::RolloutPolicy;
use crate::status::State;

/// The start times of processes are up to a clock tick early.
const TICK: Duration = Duration::from_millis(10);

/// Whether an attempt is one, and whether it may be made.
impl Rollout {
    /// Whether this attempt restarts the target in place of the rule's actions.
    pub(crate) fn is_restart(&self) -> bool {
        self.is_restart
    }

    /// Whether this attempt ends the target.
    pub(crate) fn ends_target(&self, policy: &RolloutPolicy) -> bool {
        self.is_restart || policy.is_restart
    }

    /// Whether the budget already counts the restart that this rollback belongs to.
    pub(crate) fn is_after_restart(&self) -> bool {
        matches!(self.direction, Direction::Back { after_restart: true, .. })
    }

    /// Whether the next attempt is a restart that counts against the budget. Polling for an absent
    /// target restarts nothing.
    pub(super) fn needs_budget(&self, waited_for: WaitFor, ctx: &Context<'_>) -> bool {
        let is_triggered = self.is_triggered && waited_for != WaitFor::Retry;
        let restarts = matches!(waited_for, WaitFor::Retry | WaitFor::Budget);
        restarts
            && ctx.policy.rollout.is_restart
            && !is_triggered
            && self.direction == Direction::Forward
    }

    /// Whether the next attempt must wait for the budget.
    pub(super) fn is_out_of_budget(&self, waited_for: WaitFor, ctx: &Context<'_>) -> bool {
        self.needs_budget(waited_for, ctx) && ctx.restart_at > ctx.now.mono
    }

    /// When the next attempt can be made, which is due at `at`. Where it cannot, what can be rolled back is rolled back at
    /// once.
    pub(super) fn within_budget(&self, what: WaitFor, at: Moment, ctx: &Context<'_>) -> Moment {
        let is_held = self.needs_budget(what, ctx) && ctx.roll_back_to.is_none();
        if is_held { at.max(ctx.restart_at) } else { at }
    }

    /// Whether a restart may follow the actions: once per rollout, and within the budget. A stopping podnudge leaves it
    /// to the next one.
    pub(super) fn may_escalate(&self, ctx: &Context<'_>) -> bool {
        // The rollback of a restart is part of that restart.
        let in_budget = self.is_after_restart() || ctx.restart_at <= ctx.now.mono;
        !self.is_restart && in_budget
    }

    /// Handles an exhausted budget. Content that cannot be proven now must not stay published until
    /// it can.
    pub(super) fn out_of_budget(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let reason = gate::budget_exhausted(ctx.policy);
        if ctx.roll_back_to.is_some() && self.has_failed_attempt() {
            return progress.end(Outcome::RollBack(reason));
        }
        if self.record_news(State::Held, &reason) {
            let wait = ctx.restart_at.since(ctx.now.mono);
            progress.report(Fact::Held(reason.clone(), Some(wait)));
        }
        self.wait(WaitFor::Budget, ctx.restart_at, reason);
    }
}

/// What is known of it.
impl Rollout {
    /// Whether the pod was replaced by this one since the rollout began: its application has read the content.
    pub(crate) fn is_in_new_pod(&self) -> bool {
        self.target_restart == Some(TargetRestart::PodReplaced)
    }

    /// When the restart of the target began.
    pub(super) fn restart_began(&self) -> Option<Moment> {
        self.target_restart.and_then(TargetRestart::began)
    }

    /// What to look for in place of an action, if nothing is to be sent: after the target has ended, a process that has
    /// read the content at its start; and if an earlier podnudge has ended for it, or its pod, what became of that.
    pub(super) fn looks_only(&self) -> Option<Extent> {
        match self.target_restart {
            _ if self.has_tripped() => Some(Extent::LookForFresh),
            Some(TargetRestart::PodEnded { .. } | TargetRestart::PodReplaced) => {
                Some(Extent::LookForRestart)
            }
            _ => None,
        }
    }

    /// An earlier podnudge has ended for a restart of the pod, and nothing says that there was none.
    pub(super) fn count_pod_restart(&self, progress: &mut Progress) {
        if matches!(self.target_restart, Some(TargetRestart::PodEnded { .. })) {
            progress.effect(Effect::PodRestarted);
        }
    }

    /// The action that begins now ends the target.
    pub(crate) fn begin_target_restart(&mut self, now: Moment) {
        self.restarted_nothing();
        self.target_restart.get_or_insert(TargetRestart::Begun(now));
    }

    /// The action did not end the target; an earlier podnudge may have done so.
    pub(crate) fn restarted_nothing(&mut self) {
        self.target_restart =
            self.target_restart.filter(|restart| !matches!(restart, TargetRestart::Begun(_)));
    }

    /// A target that started after this was restarted by an earlier podnudge, for this rollout.
    pub(crate) fn restarted_by_earlier(&self) -> Option<Moment> {
        let since = self.target_restart.and_then(TargetRestart::unseen_since)?;
        Some(Moment(since.0.saturating_sub(TICK)))
    }

    /// The restart was seen: by the podnudge that did it, or by a later one.
    pub(super) fn restart_seen(&mut self) {
        self.target_restart = self.target_restart.map(TargetRestart::seen);
    }
}
