//! What the rule tells its permit of its situation, from which follows what it needs a slot for.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::cause::Cause;
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::event::SlotState;
use crate::gate::{Closed, Gate};
use crate::intake::Candidate;
use crate::permit::{End, Nearness, Wish};
use crate::snapshot::Digest;

impl Rule {
    /// Takes what is known of the slot from now on.
    pub(crate) fn slot_told(&mut self, state: SlotState, out: &mut VecDeque<Command>) {
        if let Some(fact) = self.permit.told(state, &self.policy.permit) {
            self.report(fact, out);
        }
    }

    /// Asks for the slot that the rule needs, or gives it back.
    pub(super) fn settle_slot(&mut self, now: Now, out: &mut VecDeque<Command>) {
        // What the wish follows from takes time to find out.
        if self.policy.permit.slot.is_none() {
            return;
        }
        let wish = self.wish(now);
        let Some(digest) = self.permit.settle(self.id, &wish, &self.policy.permit, out) else {
            return;
        };
        let reason = self.permit.reason().cloned();
        let rollout = self.rollout.as_mut().filter(|rollout| rollout.digest() == digest);
        if let Some(fact) = rollout.zip(reason).and_then(|(one, reason)| one.held(&reason)) {
            self.report(fact, out);
        }
    }

    /// Ends what the slot is kept for, if that is over.
    pub(super) fn update_use_of_slot(&mut self, now: Moment) {
        let interrupted = self.permit.interrupted_by().zip(self.rollout.as_ref());
        if let Some((_, rollout)) = interrupted.filter(|(by, rollout)| self.has_left(*by, rollout))
        {
            let longest = self.policy.rollout.target_wait;
            let is_down = rollout.has_tripped();
            self.end_use_of_slot(now, if is_down { End::Down { longest } } else { End::Unproven });
        }
        self.permit.end_keeping(now);
    }

    /// Whether the rollout that may have interrupted the application, with the content `by`, is not this one, or may
    /// never go on. Nobody waits for a turn to be given back.
    fn has_left(&self, by: Digest, rollout: &Rollout) -> bool {
        let is_blocked = !self.awaits_first_scan() && self.is_blocked(rollout);
        (by != rollout.digest() && rollout.has_superseded())
            || (self.policy.permit.slot.is_some() && rollout.may_wait_forever(is_blocked))
    }

    fn wish(&self, now: Now) -> Wish {
        let candidate = self.intake.candidate().map(Candidate::digest);
        Wish {
            candidate: candidate.map(|digest| {
                let is_triggered = self.cause() == Cause::Triggered;
                (digest, self.nearness_of_candidate(now), is_triggered)
            }),
            rollout: self.rollout.as_ref().map(|rollout| {
                let nearness = rollout.nearness(self.needs_permit(rollout));
                let is_blocked = match nearness {
                    Nearness::Next => !self.has_content(now.mono, rollout),
                    Nearness::Near => {
                        rollout.is_waiting()
                            && !rollout.is_draining()
                            && !self.awaits_first_scan()
                            && self.is_blocked(rollout)
                    }
                    Nearness::Far => false,
                };
                (rollout.digest(), if is_blocked { Nearness::Far } else { nearness })
            }),
            is_rollout_known_good: self.rollout.as_ref().is_some_and(Rollout::is_known_good),
            is_rollout_triggered: self.rollout.as_ref().is_some_and(Rollout::is_triggered),
            on_trial: self.application.trial().map(|trial| trial.content().digest),
        }
    }

    fn nearness_of_candidate(&self, now: Now) -> Nearness {
        match self.gate(now) {
            Some(Gate::Claim(_)) => Nearness::Next,
            Some(Gate::Open | Gate::Probe(_)) => Nearness::Near,
            // A scan takes a moment.
            Some(Gate::Closed(Closed::Waiting))
                if self.rollout.is_none() && self.intake.source().is_update_pending(now.mono) =>
            {
                Nearness::Near
            }
            Some(Gate::Closed(_)) | None => Nearness::Far,
        }
    }
}
