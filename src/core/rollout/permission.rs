//! What a rollout needs of the other replicas before it acts: a slot, or its turn by the clock.
//!
//! Without it, the action is only prepared: a target that has read the content, that is absent or that must
//! not be acted on needs neither. The rollout waits for it only with an action that can be sent.

use super::limit::Limit;
use super::missing::FoundBy;
use super::progress::{Context, Outcome, Progress};
use super::{Direction, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::core::command::Extent;
use crate::core::fact::Fact;
use crate::core::slot::{Nearness, Standing};
use crate::core::status::State;
use crate::reason::Reason;

impl Rollout {
    /// A wait is over, and an attempt begins if the replica's turn has come.
    pub(super) fn begin_in_turn(&mut self, ctx: &Context<'_>) {
        if ctx.turn.is_none() {
            self.limit = self.limit.begun();
        }
    }

    /// Whether the next action must not be sent yet.
    pub(in crate::core) fn is_limited(&self, ctx: &Context<'_>) -> bool {
        match self.limit {
            Limit::None => false,
            Limit::Pending => ctx.slot != Standing::Granted || ctx.turn.is_some(),
            Limit::Begun => ctx.slot != Standing::Granted,
        }
    }

    /// Waits for a slot, or for the replica's turn.
    pub(super) fn wait_for_others(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        if let Standing::Halted(reason) = ctx.slot {
            return Self::halted_elsewhere(reason.clone(), ctx, progress);
        }
        let (at, reason) = match &ctx.turn {
            Some((at, reason)) => (*at, reason.clone()),
            None => (Moment::default(), Reason::new("waits for a slot")),
        };
        if ctx.turn.is_some() && !self.has_reported(State::Held, &reason) {
            self.reported = Some((State::Held, reason.message.clone()));
            progress.report(Fact::Held(reason.clone(), Some(at.since(ctx.now.mono))));
        }
        self.wait(WaitFor::Slot, at, reason);
    }

    /// The content must not be acted with again: it failed on another replica. What it may have interrupted
    /// here does not get better by waiting, and published content would be read at the next start.
    pub(super) fn halted_elsewhere(reason: Reason, ctx: &Context<'_>, progress: &mut Progress) {
        progress.end(match ctx.roll_back_to {
            Some(_) => Outcome::RollBack(reason),
            None if ctx.has_interrupted => Outcome::GaveUp(reason),
            None => Outcome::Superseded,
        });
    }

    /// Reports why there is no slot, unless that was reported.
    pub(in crate::core) fn held(&mut self, reason: &Reason) -> Option<Fact> {
        let is_new = self.is_waiting_for_slot() && !self.has_reported(State::Held, reason);
        is_new.then(|| {
            self.reported = Some((State::Held, reason.message.clone()));
            Fact::Held(reason.clone(), None)
        })
    }

    /// Whether it waits for a slot, or for the replica's turn.
    pub(in crate::core) fn is_waiting_for_slot(&self) -> bool {
        matches!(self.step, Step::Waiting { what: WaitFor::Slot, .. })
    }

    /// Whether an action is being sent, or was sent by an earlier podnudge.
    pub(in crate::core) fn is_sending(&self) -> bool {
        matches!(self.step, Step::Acting(Extent::Send | Extent::LookForRestart))
    }

    /// Whether the rollout of newer content has taken the place of the one before: it is published.
    pub(in crate::core) fn has_superseded(&self) -> bool {
        self.direction == Direction::Forward && !matches!(self.step, Step::Publishing { .. })
    }

    /// How near its next action is, as far as slots are concerned.
    pub(in crate::core) fn nearness(&self) -> Nearness {
        let is_limited = self.limit != Limit::None;
        let is_near = match self.step {
            Step::Waiting { what: WaitFor::Slot, .. } if is_limited => return Nearness::Next,
            Step::Waiting { what, .. } => match what {
                WaitFor::Slot
                | WaitFor::Drain
                | WaitFor::Services
                | WaitFor::Restart
                | WaitFor::Deletion => true,
                // It is prepared first. A rollback only waits for another rule.
                WaitFor::Start => !is_limited,
                // The next poll only prepares the action: whether the target is there.
                WaitFor::Target => self.is_absence_unprepared(),
                // The others may have to act until a disruption budget allows it. A pod that may have been evicted
                // keeps its slot in any case.
                WaitFor::Disruption | WaitFor::Refusal | WaitFor::Retry | WaitFor::Budget => false,
            },
            _ => self.is_busy(),
        };
        if is_near { Nearness::Near } else { Nearness::Far }
    }

    /// Whether the target was found absent by an action, and not by its preparation since.
    pub(super) fn is_absence_unprepared(&self) -> bool {
        let found_by = self.absent.map(|absent| absent.found_by);
        self.limit != Limit::None && found_by == Some(FoundBy::Action)
    }

    /// Whether the failure of this content is to be told to the other replicas: the application had it, and
    /// they wait for each other.
    pub(in crate::core) fn is_evidence_for_others(&self) -> bool {
        self.is_suspect && self.limit != Limit::None
    }
}
