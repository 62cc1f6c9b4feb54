//! Properties of rules whose replicas share slots, for every sequence of events and times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::policies;
use crate::support::world::{self, World};
use podnudge_core::Policy;
use podnudge_core::SlotPolicy;
use podnudge_core::event::{
    Absence, Acted, Alive, Event, PodLook, Proof, RuleId, SlotState, VolumeId,
};
use podnudge_core::evidence::InSync;
use podnudge_core::jitter::Replica;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;
use podnudge_core::status::State;
use podnudge_core::{DrainBefore, DrainPolicy};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Commit {
        content: u8,
    },
    Acts(Acts),
    Verifies(Verifies),
    Slots(Told),
    Ready {
        is_ready: bool,
    },
    /// What is found of the Services.
    Services(Follow),
    ApplicationRestarts,
    /// podnudge is killed, and goes on with what it has saved.
    Kill,
    Trigger,
    Wait {
        millis: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum Acts {
    Sent,
    Fails,
    Declines,
    Refuses,
    IsAbsent,
    /// The target is there when the action is prepared, and not when it is sent.
    Vanishes,
}

#[derive(Debug, Clone, Copy)]
enum Verifies {
    Proof,
    NoProof,
    Ends,
}

#[derive(Debug, Clone, Copy)]
enum Told {
    Free,
    Taken,
    Unreachable,
    Lost,
    /// The content on disk failed on another replica.
    Halted,
}

/// Whether the Services follow `/serving`.
#[derive(Debug, Clone, Copy)]
enum Follow {
    Yes,
    No,
    Unlisted,
    Unreachable,
    Unreadable,
}

fn step() -> impl Strategy<Value = Step> {
    use Acts::{Declines, Fails, IsAbsent, Refuses, Sent, Vanishes};
    let acts = prop::sample::select(vec![Sent, Sent, Fails, Declines, Refuses, IsAbsent, Vanishes]);
    let verifies = prop::sample::select(vec![Verifies::Proof, Verifies::NoProof, Verifies::Ends]);
    let told = prop::sample::select(vec![
        Told::Free,
        Told::Free,
        Told::Taken,
        Told::Unreachable,
        Told::Lost,
        Told::Halted,
    ]);
    let follow = prop::sample::select(vec![
        Follow::Yes,
        Follow::Yes,
        Follow::No,
        Follow::Unlisted,
        Follow::Unreachable,
        Follow::Unreadable,
    ]);
    prop_oneof![
        5 => (0..4u8).prop_map(|content| Step::Commit { content }),
        3 => acts.prop_map(Step::Acts),
        2 => verifies.prop_map(Step::Verifies),
        4 => told.prop_map(Step::Slots),
        1 => any::<bool>().prop_map(|is_ready| Step::Ready { is_ready }),
        2 => follow.prop_map(Step::Services),
        1 => Just(Step::ApplicationRestarts),
        1 => Just(Step::Kill),
        1 => Just(Step::Trigger),
        8 => (0..30_000u64).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// No drain, one for a time, and one that follows the Services.
fn drain() -> impl Strategy<Value = Option<DrainPolicy>> {
    let timed = policies::drain(Duration::from_secs(5), DrainBefore::Action);
    let (services, timeout) = (vec!["web".to_owned()], Duration::from_secs(20));
    let watched = DrainPolicy { services, timeout, ..timed.clone() };
    prop::sample::select(vec![None, Some(timed), Some(watched)])
}

fn policy_strategy() -> impl Strategy<Value = Policy> {
    let choices = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (choices, 1..4u32, 0..20u64, drain()).prop_map(
        |((is_restart, restarts_last, proof, publishes), attempts, bake, drain)| {
            let mut policy = policies::policy_settling();
            (policy.application.publishes, policy.application.rolls_back) = (publishes, publishes);
            (policy.rollout.is_restart, policy.rollout.restarts_last, policy.rollout.proof) =
                (is_restart, restarts_last, proof);
            policy.rollout.retry.attempts = attempts;
            let patience = drain.as_ref().map_or(Duration::ZERO, |drain| drain.timeout);
            policy.application.restarts.most = 1000;
            policy.permit.slot = Some(SlotPolicy {
                acts_when_unreachable: false,
                awaits_readiness: is_restart || drain.is_some(),
                patience,
                bake: Duration::from_secs(bake),
            });
            policy.permit.drain = drain;
            policy
        },
    )
}

fn play(world: &mut World, steps: &[Step]) {
    for step in steps {
        apply(world, step);
    }
}

fn apply(world: &mut World, step: &Step) {
    let reason = || Reason::new("simulated");
    match step {
        Step::Commit { content } => commit(world, &content.to_string()),
        Step::Acts(acts) => {
            world.application.vanishes = matches!(acts, Acts::Vanishes);
            world.application.acts = match acts {
                Acts::Sent => Acted::Sent(world::app(41)),
                Acts::Fails => Acted::Failed(reason()),
                Acts::Declines => Acted::Declined(reason()),
                Acts::Refuses => Acted::Refused(reason()),
                Acts::IsAbsent | Acts::Vanishes => Acted::Absent(Absence::unread(reason())),
            };
        }
        Step::Verifies(verifies) => {
            let (alive, proof) = match verifies {
                Verifies::Proof => (Alive::Yes, Proof::Given),
                Verifies::NoProof => (Alive::Yes, Proof::Pending(reason())),
                Verifies::Ends => (Alive::Gone(reason()), Proof::Given),
            };
            world.application.verifies.alive = alive;
            world.application.verifies.proof = proof;
        }
        Step::Slots(told) => {
            let state = match told {
                Told::Free => world::slot("web-0"),
                Told::Taken => SlotState::Waiting(reason()),
                Told::Unreachable => SlotState::Unreachable(reason()),
                Told::Lost => SlotState::Lost(reason()),
                Told::Halted => return world.slots.halted.extend(world.digest_on_disk()),
            };
            world.slots.answer = Some(state.clone());
            if world.slots.claimed.is_some_and(|digest| !world.slots.is_halted(digest)) {
                world.tell(Event::Slot(RuleId(0), state));
            }
        }
        Step::Ready { is_ready } => {
            world.slots.readiness = (!is_ready).then(|| PodLook::No(reason()));
        }
        Step::Services(follow) => {
            let both = |look: PodLook| (Some(look.clone()), Some(look));
            world.services = match follow {
                Follow::Yes => (None, None),
                Follow::No => (None, Some(PodLook::No(reason()))),
                Follow::Unlisted => both(PodLook::Unlisted(reason())),
                Follow::Unreachable => both(PodLook::Unknown(reason(), None)),
                Follow::Unreadable => both(PodLook::Refused(reason())),
            };
        }
        Step::ApplicationRestarts => world.application_restarts(),
        Step::Kill => {
            let saved = world.persisted.clone();
            world.restart(saved);
        }
        Step::Trigger => world.tell(Event::Trigger(None)),
        Step::Wait { millis } => world.run_for(Duration::from_millis(*millis)),
    }
}

fn commit(world: &mut World, content: &str) {
    world.put(0, Some(BTreeMap::from([("a".to_owned(), content.to_owned())])));
    world.tell(Event::Hint(VolumeId(0), 1));
}

fn begun(policy: Policy) -> World {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let mut world = World::new(policy, &replica, None);
    world::watched_by_inotify(&mut world);
    world.act_takes = Duration::from_millis(20);
    world.application.is_honest = true;
    world.application.verifies.proof = Proof::Given;
    world.run_for(Duration::from_secs(5));
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_sent_and_no_pod_leaves_its_services_without_a_slot(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        // A rollback needs none.
        let mut world = begun(policies::changed(policy, |policy| { policy.application.rolls_back = false; policy.application.publishes = false; }));
        play(&mut world, &steps);
        world.run_for(Duration::from_mins(10));
        prop_assert_eq!(&world.acted_without_slot, &Vec::<Duration>::new());
        prop_assert_eq!(&world.drained_without_slot, &Vec::<Duration>::new());
    }

    /// What was interrupted with a slot may go back without one: when the slot was lost, or is unreachable. Others must
    /// not be interrupted for it.
    #[test]
    fn nothing_goes_back_without_having_asked_for_a_slot(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let slot = policy.permit.slot.map(|slot| SlotPolicy { awaits_readiness: true, ..slot });
        // A reload interrupts nothing.
        let policy = policies::changed(policy, |policy| { policy.rollout.is_restart = true; policy.permit.slot = slot; });
        let mut world = begun(policies::changed(policy, |policy| { policy.application.rolls_back = true; policy.application.publishes = true; policy.rollout.proof = true; }));
        play(&mut world, &steps);
        world.run_for(Duration::from_mins(10));
        prop_assert_eq!(&world.acted_unclaimed, &Vec::<Duration>::new());
        prop_assert_eq!(&world.drained_without_slot, &Vec::<Duration>::new());
    }

    #[test]
    fn what_was_left_is_ended_by_new_content_and_the_slot_is_given_back(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = begun(policy);
        play(&mut world, &steps);
        let last = [
            Step::Acts(Acts::Sent),
            Step::Verifies(Verifies::Proof),
            Step::Ready { is_ready: true },
            Step::Slots(Told::Free),
            Step::Services(Follow::Yes),
        ];
        play(&mut world, &last);
        commit(&mut world, "the last");
        world.run_for(Duration::from_mins(10));
        let rule = &world.status().rules[0];
        prop_assert_eq!((rule.state, rule.in_sync), (State::Idle, InSync::Yes), "{:?}", rule);
        prop_assert_eq!(world.slots.claimed, None);
        prop_assert!(world.status().serving);
    }

    /// Whatever it waits for: also for content that is not rolled out, or Services that do not follow.
    #[test]
    fn a_pod_is_out_of_its_services_only_for_so_long(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        // Without a proof, `NoProof` is an answer that does not exist.
        let mut world = begun(policies::changed(policy, |policy| policy.rollout.proof = true));
        play(&mut world, &steps);
        // Three attempts, and three of the rollback. After each restart, the target has 5 min to appear and 30 s
        // for its proof.
        let longest = Duration::from_hours(1);
        let end = world.now.mono.after(longest);
        while !world.status().serving && world.now.mono < end {
            world.run_for(Duration::from_secs(1));
        }
        prop_assert!(world.status().serving, "{:?}", world.status().rules[0]);
    }

    #[test]
    fn the_others_know_in_the_end_of_all_content_that_failed_whenever_podnudge_is_killed(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 1..40),
        halt_takes in 0..30u64,
    ) {
        let mut world = begun(policy);
        world.halt_takes = Duration::from_secs(halt_takes);
        play(&mut world, &steps);
        world.run_for(Duration::from_mins(10));
        let failed = world.failed.clone();
        // Until the last one is written.
        world.run_for(Duration::from_secs(halt_takes + 1));
        let known: BTreeSet<Digest> = world.slots.halted.iter().copied().collect();
        let unknown: Vec<_> = failed.difference(&known).collect();
        prop_assert_eq!(unknown, Vec::<&Digest>::new());
    }

    /// Whatever the rollout waits for: the pod is Ready, and the others must not wait for a person.
    #[test]
    fn no_slot_is_kept_for_ever_by_a_pod_that_serves(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = begun(policies::changed(policy, |policy| policy.rollout.proof = true));
        play(&mut world, &steps);
        let serves = [Step::Ready { is_ready: true }, Step::Slots(Told::Free), Step::Services(Follow::Yes)];
        play(&mut world, &serves);
        // All attempts, and those of the rollback; each waits for the target, for its proof and for the next.
        world.run_for(Duration::from_hours(2));
        let end = world.now.mono.after(Duration::from_mins(2));
        // Whoever asks for one with content that failed elsewhere gets none.
        let has_slot = |world: &World| {
            world.slots.claimed.is_some_and(|digest| !world.slots.is_halted(digest))
        };
        // It may be trying just now.
        while has_slot(&world) && world.now.mono < end {
            world.run_for(Duration::from_millis(100));
        }
        // What ends as soon as it has read the content interrupts the application again and again.
        let ends_again = matches!(world.application.verifies.alive, Alive::Gone(_));
        prop_assert!(!has_slot(&world) || ends_again, "{:?}", world.status().rules[0]);
    }

    #[test]
    fn a_rule_that_cannot_act_keeps_no_slot(
        policy in policy_strategy(),
        acts in prop::sample::select(vec![Acts::Refuses, Acts::IsAbsent]),
        kills in prop::collection::vec(0..60u64, 0..3),
    ) {
        let mut world = begun(policy);
        apply(&mut world, &Step::Acts(acts));
        commit(&mut world, "2");
        for after in kills {
            world.run_for(Duration::from_secs(after));
            apply(&mut world, &Step::Kill);
        }
        world.run_for(Duration::from_mins(1));
        // It may be trying just now.
        if world.slots.claimed.is_some() {
            world.run_for(Duration::from_secs(1));
        }
        prop_assert_eq!(world.slots.claimed, None);
    }
}
