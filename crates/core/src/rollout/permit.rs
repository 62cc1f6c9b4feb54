//! What a rollout needs of the other replicas before it acts: a slot, or its turn by the clock.
//!
//! Without it, the action is only prepared: a target that has read the content, that is absent or that must not be
//! acted on needs neither. The rollout waits for it only with an action that can be sent; so do a rollout that an
//! earlier podnudge began, and one that has lost its slot. Content that failed on another replica meanwhile is rolled
//! back or given up, or goes back to the gate if nothing was done with it.
//!
//! The first content needs neither. The last good content, also of a rollback, is published at once, and its action
//! needs the permission only if it interrupts an application that no action of this replica has interrupted
//! ([`Limit`]): the way back must not depend on the API server, and must not interrupt replicas that nothing has hurt.

use std::time::Duration;

use super::progress::{Context, Outcome, Progress};
use super::{Limit, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::command::Extent;
use crate::fact::Fact;
use crate::permit::Answer;
use crate::reason::Reason;
use crate::status::State;

/// An action that is delayed for so long is no part of the turn in which its drain began.
const LATE: Duration = Duration::from_secs(1);

impl Rollout {
    /// Whether the replica's turn is used by what follows a wait that ended at `at`: it is the replica's turn now, or
    /// was when the drain began that is over now.
    pub(super) fn may_use_turn(&self, waited_for: WaitFor, at: Moment, ctx: &Context<'_>) -> bool {
        let was_draining = matches!(waited_for, WaitFor::Drain | WaitFor::Services);
        !matches!(ctx.permit, Answer::Turn { .. })
            || (was_draining && self.is_still_in_turn(at, ctx))
    }

    /// Whether it was the replica's turn when the attempt began, and nothing has delayed the action since `at`.
    fn is_still_in_turn(&self, at: Moment, ctx: &Context<'_>) -> bool {
        self.is_in_turn && ctx.now.mono < at.after(LATE)
    }

    /// Whether its action needs the permission of the other replicas. `may_go_back`: that to known good content
    /// needs none.
    pub(crate) fn needs_permit(&self, may_go_back: bool) -> bool {
        match self.limit {
            Limit::Nothing => false,
            Limit::Action => !may_go_back,
            Limit::All => true,
        }
    }

    /// Whether its content was good here before.
    pub(crate) fn is_known_good(&self) -> bool {
        self.limit == Limit::Action
    }

    /// Whether the next action must not be sent yet.
    pub(crate) fn is_limited(&self, ctx: &Context<'_>) -> bool {
        self.needs_permit(ctx.may_go_back)
            && match ctx.permit {
                Answer::Go => false,
                Answer::Turn { .. } => !self.is_in_turn,
                Answer::Wait(_) | Answer::Halted(_) => true,
            }
    }

    /// Whether podnudge must not end for it any more: it has no slot, or its turn is over.
    pub(crate) fn has_lost_permit_to_end(&self, ctx: &Context<'_>) -> bool {
        let Step::EndingPod { since, .. } = self.step else { return false };
        self.needs_permit(ctx.may_go_back)
            && match ctx.permit {
                Answer::Go => false,
                Answer::Turn { .. } => !self.is_still_in_turn(since, ctx),
                Answer::Wait(_) | Answer::Halted(_) => true,
            }
    }

    /// Holds back what follows this wait, if it must not be done: the content failed on another replica meanwhile, or the
    /// restart budget is exhausted. That may end the rollout. Returns whether it was held back.
    pub(super) fn hold_back(
        &mut self,
        waited_for: WaitFor,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) -> bool {
        match &ctx.permit {
            Answer::Halted(reason) if waited_for == WaitFor::Slot => {
                self.halted_elsewhere(reason, ctx, progress);
            }
            _ if self.is_out_of_budget(waited_for, ctx) => self.out_of_budget(ctx, progress),
            _ => return false,
        }
        true
    }

    /// Waits for a slot, or for the replica's turn.
    pub(super) fn wait_for_others(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        let (at, reason) = match &ctx.permit {
            Answer::Halted(reason) => return self.halted_elsewhere(reason, ctx, progress),
            // Content that cannot be proven now must not stay until it can, as when the budget is exhausted.
            Answer::Wait(Some(reason)) if self.is_suspect && ctx.can_undo_interruption() => {
                let message = format!("another attempt waits for a slot: {}", reason.message);
                let reason = Reason { message, hint: reason.hint.clone() };
                return progress.end(Outcome::RollBack(reason));
            }
            Answer::Turn { at, why } => (*at, why.clone()),
            Answer::Go | Answer::Wait(_) => (Moment::default(), Reason::new("waits for a slot")),
        };
        if at > Moment::default() && self.record_news(State::Held, &reason) {
            progress.report(Fact::Held(reason.clone(), Some(at.since(ctx.now.mono))));
        }
        self.wait(WaitFor::Slot, at, reason);
    }

    /// The content must not be acted with again: it failed on another replica. What it may have interrupted
    /// here does not get better by waiting, and published content would be read at the next start.
    fn halted_elsewhere(&mut self, reason: &Reason, ctx: &Context<'_>, progress: &mut Progress) {
        if ctx.rolls_back_later {
            return self.wait(WaitFor::Slot, Moment::default(), reason.clone());
        }
        progress.end(match ctx.roll_back_to {
            Some(_) => Outcome::RollBack(reason.clone()),
            None if ctx.has_interrupted => Outcome::GaveUp(reason.clone()),
            None => Outcome::Superseded,
        });
    }

    /// Reports why there is no slot, unless that was reported.
    pub(crate) fn held(&mut self, reason: &Reason) -> Option<Fact> {
        let is_news = self.is_waiting_for_slot() && self.record_news(State::Held, reason);
        is_news.then(|| Fact::Held(reason.clone(), None))
    }

    /// Whether it waits for a slot, or for the replica's turn.
    pub(crate) fn is_waiting_for_slot(&self) -> bool {
        matches!(self.step, Step::Waiting { what: WaitFor::Slot, .. })
    }

    /// Whether an action is being sent, or was sent by an earlier podnudge.
    pub(crate) fn is_sending(&self) -> bool {
        matches!(self.step, Step::Acting(Extent::Send | Extent::LookForRestart))
    }

    /// Whether the failure of this content is to be told to the other replicas: the application had it, and
    /// they wait for each other.
    pub(crate) fn is_evidence_for_others(&self) -> bool {
        self.is_suspect && self.limit == Limit::All
    }
}
