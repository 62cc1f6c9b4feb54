//! What a rule needs a slot for. Pure, and the only place that decides it. `rule/slots.rs` describes the situation
//! after each step of the rule, and `Permit::settle` asks for the slot, keeps it or gives it back. The first line that
//! applies decides:
//!
//! 1. A candidate for which nothing but a slot is missing (`Gate::Claim`): to act with it. Newer content has precedence
//!    over what was begun. But if the candidate failed on another replica, nobody has triggered it, and a line below
//!    needs the slot, then that line decides: to ask for the candidate would cost the slot that is needed here.
//! 2. The candidate's gate is open, needs a probe, or waits for a scan: what was asked for. It takes a moment.
//! 3. A rollout whose action can be sent (`WaitFor::Slot`), with its content in place: to act with it; only to keep the
//!    slot if the content was good here before, because no halt concerns that.
//! 4. The pod is out of its Services, or recovers from that or from an action (`used.rs`): to keep the slot for that
//!    digest, or what was got for the next action. Whatever failed, no other replica may act while this one recovers.
//! 5. A rollout whose action is near (it is being prepared, sent or verified; a drain, a restart, the end of an evicted
//!    pod): what was asked for. The action may begin, or take effect, at any moment.
//! 6. Published content on trial: to keep the slot for it, if there is one. It may still be rolled back.
//! 7. Anything else, such as a refusal, a retry, an absent target or a disruption budget: nothing. Others act
//!    meanwhile.
//!
//! `Command::Claim` carries the difference between acting and keeping ([`Intent`]): a slot to act is refused if the
//! digest failed on another replica, a slot that is only kept never is.

use crate::command::Intent;
use crate::snapshot::Digest;

/// What the rule needs a slot, or its turn, for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Ask {
    /// For nothing: it is given back.
    #[default]
    Nothing,
    /// To act with this digest.
    Act(Digest),
    /// To recover from an action or a drain for this digest, or to go back to it, while no other replica acts.
    Recover(Digest),
}

/// How near the next action is: of a candidate, or of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// Something else comes first, or there is none.
    Far,
    /// A slot that the rule has is not given back meanwhile.
    Near,
    /// Nothing but a slot is missing.
    Next,
}

/// What an ask follows from.
#[derive(Debug, Clone)]
pub(super) struct Situation {
    /// What the slot was asked for.
    pub(super) claimed: Ask,
    /// The candidate, and how near its rollout is.
    pub(super) candidate: Option<(Digest, Nearness)>,
    /// The candidate is known to have failed on another replica, and nobody has triggered it.
    pub(super) is_candidate_halted: bool,
    /// The rollout, and how near its next action is.
    pub(super) rollout: Option<(Digest, Nearness)>,
    /// The rollout's content was good here before. That it failed on another replica does not matter.
    pub(super) is_rollout_known_good: bool,
    /// The digest for which the pod is out of its Services, or recovers from that or from an action.
    pub(super) kept_for: Option<Digest>,
    /// The digest on trial: it may still be rolled back.
    pub(super) on_trial: Option<Digest>,
}

impl Ask {
    /// How to ask for it.
    pub(super) fn claim(self) -> Option<(Digest, Intent)> {
        match self {
            Self::Nothing => None,
            Self::Act(digest) => Some((digest, Intent::Act)),
            Self::Recover(digest) => Some((digest, Intent::Keep)),
        }
    }
}

/// What the rule needs a slot for: the head of this file says the same in words.
pub(super) fn ask(now: &Situation) -> Ask {
    let Situation { claimed, candidate, rollout, kept_for, on_trial, .. } = *now;
    let next = |one: Option<(Digest, Nearness)>| one.filter(|(_, near)| *near == Nearness::Next);
    let is_near = |one: Option<(Digest, Nearness)>| {
        claimed != Ask::Nothing && one.is_some_and(|(_, near)| near == Nearness::Near)
    };
    // Content that failed elsewhere is asked for only to find out when it works after all.
    let has_trial = on_trial.is_some() && claimed != Ask::Nothing;
    let is_needed_here =
        next(rollout).is_some() || is_near(rollout) || kept_for.is_some() || has_trial;
    let newer = next(candidate).filter(|_| !(now.is_candidate_halted && is_needed_here));
    if let Some((digest, _)) = newer {
        return Ask::Act(digest);
    }
    if is_near(candidate) {
        return claimed;
    }
    if let Some((digest, _)) = next(rollout) {
        return if now.is_rollout_known_good { Ask::Recover(digest) } else { Ask::Act(digest) };
    }
    if let Some(digest) = kept_for {
        // A slot that was got for the next action is as good.
        return if now.is_for_next_action(claimed) { claimed } else { Ask::Recover(digest) };
    }
    if is_near(rollout) {
        return claimed;
    }
    on_trial.filter(|_| claimed != Ask::Nothing).map_or(Ask::Nothing, Ask::Recover)
}

impl Situation {
    fn is_for_next_action(&self, claimed: Ask) -> bool {
        let Ask::Act(digest) = claimed else { return false };
        let is_of = |one: Option<(Digest, Nearness)>| one.is_some_and(|(other, _)| other == digest);
        is_of(self.rollout) || (is_of(self.candidate) && !self.is_candidate_halted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Digest = Digest([1; 32]);
    const NEW: Digest = Digest([2; 32]);

    fn idle() -> Situation {
        Situation {
            claimed: Ask::Nothing,
            candidate: None,
            is_candidate_halted: false,
            rollout: None,
            is_rollout_known_good: false,
            kept_for: None,
            on_trial: None,
        }
    }

    #[test]
    fn a_slot_is_asked_for_only_if_nothing_else_is_missing() {
        for (near, wanted) in [
            (Nearness::Far, Ask::Nothing),
            (Nearness::Near, Ask::Nothing),
            (Nearness::Next, Ask::Act(NEW)),
        ] {
            assert_eq!(ask(&Situation { candidate: Some((NEW, near)), ..idle() }), wanted);
            assert_eq!(ask(&Situation { rollout: Some((NEW, near)), ..idle() }), wanted);
        }
    }

    #[test]
    fn content_that_was_good_here_is_acted_with_although_it_failed_elsewhere() {
        let next = Situation { rollout: Some((OLD, Nearness::Next)), ..idle() };
        let known_good = Situation { is_rollout_known_good: true, ..next };
        assert_eq!(ask(&known_good), Ask::Recover(OLD));
    }

    #[test]
    fn a_slot_is_not_given_back_while_an_action_is_near() {
        let claimed = Ask::Act(NEW);
        for (near, wanted) in
            [(Nearness::Far, Ask::Nothing), (Nearness::Near, claimed), (Nearness::Next, claimed)]
        {
            let (candidate, rollout) = (Some((NEW, near)), Some((NEW, near)));
            assert_eq!(ask(&Situation { claimed, candidate, ..idle() }), wanted);
            assert_eq!(ask(&Situation { claimed, rollout, ..idle() }), wanted);
        }
    }

    #[test]
    fn newer_content_comes_before_the_rollout_unless_it_failed_elsewhere() {
        let (candidate, rollout) = (Some((NEW, Nearness::Next)), Some((OLD, Nearness::Next)));
        let both = Situation { candidate, rollout, ..idle() };
        assert_eq!(ask(&both), Ask::Act(NEW));
        assert_eq!(ask(&Situation { is_candidate_halted: true, ..both.clone() }), Ask::Act(OLD));
        // A drain is not interrupted for it.
        let (claimed, rollout) = (Ask::Act(OLD), Some((OLD, Nearness::Near)));
        let draining = Situation { claimed, rollout, ..both.clone() };
        assert_eq!(ask(&Situation { is_candidate_halted: true, ..draining.clone() }), claimed);
        assert_eq!(ask(&draining), Ask::Act(NEW));
        let halted = Situation { candidate, is_candidate_halted: true, ..idle() };
        assert_eq!(ask(&halted), Ask::Act(NEW), "to find out when it works after all");
    }

    #[test]
    fn a_slot_is_kept_for_the_recovery_whatever_the_next_action_waits_for() {
        let recovering = Situation { kept_for: Some(OLD), ..idle() };
        assert_eq!(ask(&recovering), Ask::Recover(OLD));
        for claimed in [Ask::Act(OLD), Ask::Act(NEW), Ask::Recover(OLD)] {
            assert_eq!(ask(&Situation { claimed, ..recovering.clone() }), Ask::Recover(OLD));
        }
        // What was got for the next action is as good, unless that failed elsewhere.
        let (claimed, far) = (Ask::Act(NEW), Some((NEW, Nearness::Far)));
        let waiting = Situation { claimed, candidate: far, ..recovering.clone() };
        assert_eq!(ask(&waiting), claimed);
        let halted = Situation { is_candidate_halted: true, ..waiting };
        assert_eq!(ask(&halted), Ask::Recover(OLD));
        assert_eq!(ask(&Situation { claimed, rollout: far, ..recovering }), claimed);
    }

    #[test]
    fn content_on_trial_does_not_lose_its_slot_to_content_that_failed_elsewhere() {
        let claimed = Ask::Recover(OLD);
        let candidate = Some((NEW, Nearness::Next));
        let trial = Situation { claimed, candidate, on_trial: Some(OLD), ..idle() };
        assert_eq!(ask(&trial), Ask::Act(NEW));
        assert_eq!(ask(&Situation { is_candidate_halted: true, ..trial }), claimed);
    }

    #[test]
    fn content_on_trial_keeps_a_slot_but_asks_for_none() {
        let trial = Situation { on_trial: Some(OLD), ..idle() };
        assert_eq!(ask(&trial), Ask::Nothing);
        assert_eq!(ask(&Situation { claimed: Ask::Act(OLD), ..trial }), Ask::Recover(OLD));
    }
}
