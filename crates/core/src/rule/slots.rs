//! The slot of a rule: asking for it, keeping it, and giving it back.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::candidate::Candidate;
use crate::checks::Verdict;
use crate::clock::{Moment, Now};
use crate::command::{Command, Intent};
use crate::event::SlotState;
use crate::fact::Fact;
use crate::gate::{Cause, Closed, Gate};
use crate::memory::{SavedSlot, SavedUse};
use crate::reason::Reason;
use crate::rollout::Input;
use crate::slot::{End, Nearness, Need, Situation, Standing, Use, need};
use crate::snapshot::Digest;
use crate::turns;

impl Rule {
    /// Takes what is known of the slot from now on.
    pub(crate) fn slot_told(&mut self, state: SlotState, out: &mut VecDeque<Command>) {
        // The time of a slot that is held changes whenever it is renewed.
        let is_same = match state.slot() {
            Some(slot) => self.slot.state().slot() == Some(slot),
            None => *self.slot.state() == state,
        };
        if !is_same {
            match &state {
                SlotState::Held { slot, .. } => self.report(Fact::SlotHeld(slot.clone()), out),
                SlotState::Lost(reason) => self.report(Fact::SlotLost(reason.clone()), out),
                SlotState::Unreachable(reason) if self.acts_without_slot() => {
                    self.report(Fact::WithoutSlot(reason.clone()), out);
                }
                _ => {}
            }
        }
        self.slot.told(state);
    }

    fn acts_without_slot(&self) -> bool {
        self.policy.slot.is_some_and(|policy| policy.acts_when_unreachable)
    }

    /// Whether the rule may roll out this content, as far as slots are concerned.
    pub(super) fn slot_standing(&self, now: Moment, cause: Cause, digest: Digest) -> Standing<'_> {
        match self.policy.slot.filter(|_| self.needs_slot(cause, digest)) {
            Some(policy) => self.slot.standing(now, digest, policy),
            None => Standing::Granted,
        }
    }

    /// Whether this rollout may act, as far as slots are concerned.
    pub(super) fn rollouts_standing(&self, now: Moment, rollout: &Rollout) -> Standing<'_> {
        match self.policy.slot {
            Some(policy) if rollout.is_known_good() => {
                self.slot.standing_of_known_good(now, policy)
            }
            Some(policy) => self.slot.standing(now, rollout.digest(), policy),
            None => Standing::Granted,
        }
    }

    /// When the action of this rollout must have begun, if it needs a slot.
    pub(super) fn act_before(&self, rollout: &Rollout) -> Option<Moment> {
        self.slot.act_before().filter(|_| self.needs_permission(rollout))
    }

    /// When the replica's next turn by the clock begins, and why to wait for it; `None` if it is now.
    pub(super) fn turn(&self, now: Now) -> Option<(Moment, Reason)> {
        let (at, reason) = turns::next(self.policy.turns?, &self.replica, now.wall)?;
        Some((now.mono.after(at.since(now.wall)), reason))
    }

    /// Whether this rollout waits for a slot, and nothing is known that would end that.
    pub(super) fn is_delayed_by_slot(&self, now: Moment, rollout: &Rollout) -> bool {
        rollout.is_waiting_for_slot()
            && matches!(self.rollouts_standing(now, rollout), Standing::Wait(_))
    }

    /// What to save of the slot. An action that is being sent may have interrupted the application.
    pub(super) fn saved_slot(&self) -> Option<SavedSlot> {
        let is_sent = |rollout: &&Rollout| {
            rollout.is_sending() && self.keeps_a_slot(self.needs_permission(rollout))
        };
        match self.rollout.as_ref().filter(is_sent) {
            Some(rollout) => {
                Some(SavedSlot { digest: rollout.digest(), used: SavedUse::Interrupted })
            }
            None => self.slot.used.saved(),
        }
    }

    /// Takes over the slot of an earlier podnudge.
    pub(super) fn restore_slot(&mut self, now: Moment, saved: Option<SavedSlot>) {
        if let Some(saved) = saved.filter(|_| self.policy.shares_actions()) {
            self.slot.used = Use::restored(saved, now, self.policy.slot);
        }
    }

    /// Whether the action of this rollout needs the permission of the other replicas.
    pub(super) fn needs_permission(&self, rollout: &Rollout) -> bool {
        rollout.needs_permission(self.may_go_back())
    }

    /// Whether an action with known good content needs no permission of the other replicas.
    pub(super) fn may_go_back(&self) -> bool {
        !self.policy.may_interrupt() || self.slot.used.acted_with().is_some()
    }

    /// Whether content needs the permission of the other replicas to be rolled out. A person may trigger the way back.
    pub(super) fn needs_slot(&self, cause: Cause, digest: Digest) -> bool {
        let goes_back = self.tracker.last_good() == Some(digest)
            && self.tracker.running() != Some(digest)
            && self.slot.used.acted_with().is_some();
        cause.needs_slot() && !goes_back
    }

    /// An action for this content may have interrupted the application. `is_limited`: it needed the permission of the
    /// other replicas.
    pub(super) fn interrupted(&mut self, content: Digest, is_limited: bool) {
        if self.keeps_a_slot(is_limited) {
            self.slot.used.acted(content);
        }
    }

    /// Whether what an action interrupts concerns the other replicas: that of the first content, which needs nothing of
    /// them, does not.
    fn keeps_a_slot(&self, is_limited: bool) -> bool {
        self.policy.shares_actions() && (is_limited || self.slot.used.acted_with().is_some())
    }

    /// The rollout that may have interrupted the application has ended, or does not go on.
    pub(super) fn end_use_of_slot(&mut self, now: Moment, end: End) {
        self.slot.used.end(now, end, self.policy.slot);
    }

    /// What the slot is kept for: the pod is out of its Services, or recovers.
    fn slot_is_kept_for(&self) -> Option<Digest> {
        let out_for = self.rollout.as_ref().filter(|_| self.drain.began().is_some());
        self.slot.used.kept_for().or(out_for.map(Rollout::digest))
    }

    /// podnudge stops. If the pod may be out of its Services, another one must not follow at once: the slot
    /// is not given back, and expires.
    pub(super) fn stop_with_slot(&mut self, out: &mut VecDeque<Command>) {
        if self.slot_is_kept_for().is_none() && self.slot.release() {
            out.push_back(Command::Release(self.id));
        }
    }

    /// Ends the drain of a rollout that has lost its slot. Returns whether it did.
    pub(super) fn end_drain_without_slot(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let has_lost = |rollout: &Rollout| {
            rollout.is_draining()
                && self.needs_permission(rollout)
                && self.rollouts_standing(now.mono, rollout) != Standing::Granted
        };
        let has_lost = self.rollout.as_ref().is_some_and(has_lost);
        if has_lost {
            self.progress(now, Input::SlotLost, out);
        }
        has_lost
    }

    /// Asks for the slot that the rule needs, or gives it back.
    pub(super) fn settle_slot(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.policy.slot.is_none() {
            return;
        }
        match need(&self.slot_situation(now)) {
            Need::None => self.give_slot_back(out),
            need => self.claim_slot(need, out),
        }
    }

    /// Ends what the slot is kept for, if that is over.
    pub(super) fn update_use_of_slot(&mut self, now: Moment) {
        let interrupted = self.slot.used.interrupted_by().zip(self.rollout.as_ref());
        if let Some((_, rollout)) = interrupted.filter(|(by, rollout)| self.has_left(*by, rollout))
        {
            let longest = self.policy.target_wait;
            let is_down = rollout.has_tripped();
            self.end_use_of_slot(now, if is_down { End::Down { longest } } else { End::Unproven });
        }
        self.slot.used.end_keeping(now);
    }

    /// Whether the rollout that may have interrupted the application, with the content `by`, is not this one, or may
    /// never go on. Nobody waits for a turn to be given back.
    fn has_left(&self, by: Digest, rollout: &Rollout) -> bool {
        let is_blocked = !self.awaits_first_scan() && self.is_blocked(rollout);
        (by != rollout.digest() && rollout.has_superseded())
            || (self.policy.slot.is_some() && rollout.may_wait_forever(is_blocked))
    }

    /// Whether the rollout may not go on for long, for want of its content, or of checks that cannot be made.
    fn is_blocked(&self, rollout: &Rollout) -> bool {
        let verdict = self.checks.verdict(rollout.digest());
        let cannot_check =
            self.tracker.reads_volumes() && matches!(verdict, Verdict::Pending(Some(_)));
        self.is_content_gone(rollout) || cannot_check
    }

    fn slot_situation(&self, now: Now) -> Situation {
        let candidate = self.candidate.as_ref().map(Candidate::digest);
        let is_halted = |digest| self.slot.is_halted(digest) && !self.is_triggered(digest);
        Situation {
            claimed: self.slot.claimed(),
            candidate: candidate.map(|digest| (digest, self.nearness_of_candidate(now))),
            is_candidate_halted: candidate.is_some_and(is_halted),
            rollout: self.rollout.as_ref().map(|rollout| {
                let nearness = rollout.nearness(self.needs_permission(rollout));
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
            kept_for: self.slot_is_kept_for(),
            on_trial: self.trial.as_ref().map(|trial| trial.content().digest),
        }
    }

    fn nearness_of_candidate(&self, now: Now) -> Nearness {
        match self.gate(now) {
            Some(Gate::Claim(_)) => Nearness::Next,
            Some(Gate::Open | Gate::Probe(_)) => Nearness::Near,
            // A scan takes a moment.
            Some(Gate::Closed(Closed::Waiting))
                if self.rollout.is_none() && self.source.is_update_pending(now.mono) =>
            {
                Nearness::Near
            }
            Some(Gate::Closed(_)) | None => Nearness::Far,
        }
    }

    /// Whether a person has triggered the action for this content.
    fn is_triggered(&self, digest: Digest) -> bool {
        let candidate = self.candidate.as_ref().filter(|one| one.digest() == digest);
        let rollout = self.rollout.as_ref().filter(|rollout| rollout.digest() == digest);
        candidate.is_some_and(|_| self.cause() == Cause::Triggered)
            || rollout.is_some_and(Rollout::is_triggered)
    }

    /// Asks for a slot, unless that was done. A person who triggers content has it tried here although it failed
    /// elsewhere; for the others that holds when it works.
    fn claim_slot(&mut self, need: Need, out: &mut VecDeque<Command>) {
        let Some((digest, intent)) = need.claim() else { return };
        let is_tried = intent == Intent::Act && self.is_triggered(digest);
        if is_tried && self.slot.is_halted(digest) {
            self.slot.try_halted(digest);
            out.push_back(Command::TryHalted(self.id, digest));
        }
        if self.slot.claim(need) {
            out.push_back(Command::Claim(self.id, digest, intent));
        }
        let reason = self.slot.reason().cloned();
        let rollout = self.rollout.as_mut().filter(|rollout| rollout.digest() == digest);
        if let Some(fact) = rollout.zip(reason).and_then(|(one, reason)| one.held(&reason)) {
            self.report(fact, out);
        }
    }

    fn give_slot_back(&mut self, out: &mut VecDeque<Command>) {
        if let Some(digest) = self.slot.works_after_all() {
            self.halts.remove(digest);
            out.push_back(Command::ClearHalt(self.id, digest));
        }
        if self.slot.release() {
            out.push_back(Command::Release(self.id));
        }
    }
}
