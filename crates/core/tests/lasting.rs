//! Rollouts that last: podnudge is killed after each of its commands, and the next podnudge goes on from what
//! was saved until then. The end must be that of a podnudge that was never killed, without a further restart of
//! the application.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::policies::{self, policy};
use crate::support::world::{self, Pod, World};
use podnudge_core::DrainBefore;
use podnudge_core::backoff::Retry;
use podnudge_core::budget::RestartBudget;
use podnudge_core::event::{Acted, Event, PodLook, Proof, Standing};
use podnudge_core::evidence::InSync;
use podnudge_core::jitter::Replica;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;
use podnudge_core::status::State;
use podnudge_core::{Policy, SlotPolicy};

/// What happens to a rule in a scene, by its name. All scenes end with quiet.
struct Scene {
    name: &'static str,
    policy: fn(Policy) -> Policy,
    play: fn(&mut World),
}

const SCENES: &[Scene] = &[
    Scene {
        name: "a restart",
        policy: |policy| world::restarting(policy),
        play: |world| commit(world, "2"),
    },
    Scene {
        name: "a restart with a proof, after two edits",
        policy: |policy| {
            policies::changed(policy, |policy| {
                policy.rollout.is_restart = true;
                policy.rollout.proof = true;
            })
        },
        play: |world| {
            world.application.verifies.proof = Proof::Given;
            commit(world, "2");
            world.run_for(Duration::from_secs(30));
            commit(world, "3");
        },
    },
    Scene {
        name: "a restart with published content",
        policy: |policy| world::restarting(world::publishing(policy)),
        play: |world| commit(world, "2"),
    },
    Scene {
        name: "published content that ends the target, which is rolled back",
        policy: |policy| world::restarting(world::publishing(policy)),
        play: |world| {
            commit(world, "2");
            world.deadly = world.digest_on_disk();
        },
    },
    Scene {
        name: "content that ends the target, so that the rule trips",
        policy: |policy| world::restarting(policy),
        play: |world| {
            commit(world, "2");
            world.deadly = world.digest_on_disk();
        },
    },
    Scene {
        name: "a tripped rule whose target recovers",
        policy: |policy| world::restarting(policy),
        play: |world| {
            commit(world, "2");
            world.deadly = world.digest_on_disk();
            world.run_for(Duration::from_mins(2));
            world.deadly = None;
        },
    },
    Scene {
        name: "a signal without a proof that is escalated to a restart, and given up",
        policy: |policy| {
            let (restarts_last, proof) = (true, true);
            let retry = Retry { attempts: 2, ..policy.rollout.retry };
            policies::changed(policy, |policy| {
                policy.rollout.restarts_last = restarts_last;
                policy.rollout.proof = proof;
                policy.rollout.retry = retry;
            })
        },
        play: |world| {
            world.application.verifies.proof = Proof::Pending(Reason::new("503"));
            commit(world, "2");
        },
    },
    Scene {
        name: "an escalation with published content, which is rolled back",
        policy: |policy| {
            let (restarts_last, proof) = (true, true);
            let (publishes, rolls_back, retries_first) = (true, true, false);
            policies::changed(policy, |policy| {
                policy.rollout.restarts_last = restarts_last;
                policy.rollout.proof = proof;
                policy.application.publishes = publishes;
                policy.application.rolls_back = rolls_back;
                policy.rollout.retries_first = retries_first;
            })
        },
        play: |world| {
            commit(world, "2");
            world.unproven = world.digest_on_disk();
        },
    },
    Scene {
        name: "content that the application rejects",
        policy: |policy| policy,
        play: |world| {
            world.application.acts = Acted::Declined(Reason::new("400 Bad Request"));
            commit(world, "2");
        },
    },
    Scene {
        name: "a restart after a drain, with published content",
        policy: |policy| world::restarting(world::publishing(drained(policy))),
        play: |world| commit(world, "2"),
    },
    Scene {
        name: "a restart after a drain, with a slot and a bake",
        policy: |policy| world::restarting(drained(slotted(policy))),
        play: |world| commit(world, "2"),
    },
    Scene {
        name: "a restart of published content with a slot, after a drain that the Services follow late",
        policy: |policy| world::restarting(world::publishing(watched(slotted(policy)))),
        play: |world| {
            world.services.1 = Some(PodLook::No(Reason::new("web still has the pod")));
            commit(world, "2");
            world.run_for(Duration::from_secs(10));
            world.services.1 = None;
        },
    },
    Scene {
        name: "a restart of published content with a slot and a bake, while newer content waits",
        policy: |policy| world::restarting(world::publishing(slotted(policy))),
        play: |world| {
            commit(world, "2");
            world.run_for(Duration::from_secs(30));
            commit(world, "3");
        },
    },
    Scene {
        name: "published content that ends the target, with a slot",
        policy: |policy| world::restarting(world::publishing(slotted(policy))),
        play: |world| {
            commit(world, "2");
            world.deadly = world.digest_on_disk();
        },
    },
    Scene {
        name: "a restart of the pod",
        policy: restarting_pod,
        play: |world| commit(world, "2"),
    },
    Scene {
        name: "a restart of the pod that podnudge does not see, with a proof",
        policy: |policy| {
            policies::changed(restarting_pod(policy), |policy| policy.rollout.proof = true)
        },
        play: |world| {
            world.pod = Pod::RestartsUnseen;
            // The old content is no proof.
            world.unproven = world.digest_on_disk();
            commit(world, "2");
        },
    },
    Scene {
        name: "a restart of the pod after a drain, twice",
        policy: |policy| drained(restarting_pod(policy)),
        play: |world| {
            commit(world, "2");
            world.run_for(Duration::from_secs(30));
            commit(world, "3");
        },
    },
    Scene {
        name: "a restart of the pod after a drain, with a slot and a bake",
        policy: |policy| drained(restarting_pod(slotted(policy))),
        play: |world| commit(world, "2"),
    },
    Scene {
        name: "published content that ends the application after a restart of the pod",
        policy: |policy| world::publishing(restarting_pod(policy)),
        play: |world| {
            commit(world, "2");
            world.deadly = world.digest_on_disk();
        },
    },
    Scene {
        name: "a pod whose kubelet has no rule for the exit code",
        policy: restarting_pod,
        play: |world| {
            world.pod = Pod::HasNoRule;
            commit(world, "2");
        },
    },
    Scene {
        name: "an eviction of the pod, which a pod with the same state directory replaces",
        policy: |policy| {
            policies::changed(slotted(policy), |policy| {
                policy.rollout.evict_wait = Some(Duration::from_hours(1));
            })
        },
        play: |world| {
            (world.application.started, world.application.acts) = (None, Acted::Evicted);
            commit(world, "2");
            world.run_for(Duration::from_mins(1));
            world.replace_pod();
        },
    },
    Scene {
        name: "a triggered restart",
        policy: |policy| world::restarting(policy),
        play: |world| world.tell(Event::Trigger(None)),
    },
    Scene {
        name: "restarts beyond the budget",
        policy: |policy| {
            let within = Duration::from_mins(10);
            let restarts = RestartBudget { most: 2, within };
            policies::changed(policy, |policy| {
                policy.rollout.is_restart = true;
                policy.application.restarts = restarts;
            })
        },
        play: |world| {
            for content in ["2", "3", "4", "5"] {
                commit(world, content);
                world.run_for(Duration::from_mins(1));
            }
        },
    },
];

/// With a slot, which is kept for a minute after the pod is Ready.
fn slotted(policy: Policy) -> Policy {
    let bake = Duration::from_mins(1);
    let patience = Duration::ZERO;
    let slot = SlotPolicy { acts_when_unreachable: false, awaits_readiness: true, patience, bake };
    policies::changed(policy, |policy| policy.permit.slot = Some(slot))
}

/// With a drain before restarts.
fn drained(policy: Policy) -> Policy {
    let drain = policies::drain(Duration::from_secs(5), DrainBefore::Restart);
    policies::changed(policy, |policy| policy.permit.drain = Some(drain))
}

/// With a drain that follows the Services.
fn watched(policy: Policy) -> Policy {
    let mut policy = drained(policy);
    if let Some(drain) = &mut policy.permit.drain {
        (drain.services, drain.timeout) = (vec!["web".to_owned()], Duration::from_mins(2));
    }
    policy
}

fn restarting_pod(policy: Policy) -> Policy {
    policies::changed(policy, |policy| {
        policy.rollout.is_restart = true;
        policy.rollout.pod_exit_code = Some(88);
    })
}

fn commit(world: &mut World, content: &str) {
    world.put(0, Some(BTreeMap::from([("a".to_owned(), content.to_owned())])));
    world.tell(Event::Hint(podnudge_core::event::VolumeId(0), 1));
}

/// Plays a scene with kills after so many commands, each counted from the one before.
fn play(scene: &Scene, kills: &[usize]) -> World {
    let settings =
        policies::changed(policy(), |policy| policy.intake.settle = Duration::from_millis(200));
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let policy = (scene.policy)(settings);
    let mut world = World::publishing(policy, &replica, None, Some(Standing::Good));
    world.publish_takes = Duration::from_millis(100);
    world.act_takes = Duration::from_millis(500);
    world.halt_takes = Duration::from_secs(2);
    world.application.is_honest = true;
    world.kills = kills.iter().copied().collect();
    world.run_for(Duration::from_secs(10));
    (scene.play)(&mut world);
    world.run_for(Duration::from_mins(15));
    world
}

/// What must be the same in the end, whether podnudge was killed or not.
#[derive(Debug, PartialEq, Eq)]
struct End {
    state: State,
    in_sync: InSync,
    runs: Option<Digest>,
    has_reason: bool,
    /// What the other replicas know to have failed.
    halted: BTreeSet<Digest>,
}

fn end(world: &World) -> End {
    let rule = &world.status().rules[0];
    // A process of a tripped rule that is being verified, before it ends again.
    let is_tripped =
        world.deadly.is_some() && matches!(rule.state, State::Verifying | State::Acting);
    End {
        state: if is_tripped { State::Tripped } else { rule.state },
        in_sync: rule.in_sync,
        runs: world.application.runs,
        has_reason: is_tripped || rule.reason.is_some(),
        halted: world.slots.halted.iter().copied().collect(),
    }
}

fn assert_kept(scene: &Scene, whole: &World, kills: &[usize]) {
    let killed = play(scene, kills);
    let trace = || {
        let trace = crate::support::trace::render(&killed.log, &killed.restarts);
        format!("{}, killed after {kills:?}:\n{trace}", scene.name)
    };
    assert_eq!(end(&killed), end(whole), "{}", trace());
    assert!(killed.shelf.violations.is_empty(), "{:?}: {}", killed.shelf.violations, trace());
    assert!(!killed.actions_overlapped, "{}", trace());
    assert_eq!(killed.unprotected, [], "{}", trace());
    assert_eq!(killed.slots.claimed, None, "the slot is given back: {}", trace());
    assert!(killed.restarted.len() <= whole.restarted.len(), "{:?} {}", killed.restarted, trace());
    let RestartBudget { most, within, .. } = killed.policy().application.restarts;
    let of_one_window = |at: &Duration| {
        let in_window = |other: &&Duration| *other >= at && **other < *at + within;
        killed.restarted.iter().filter(in_window).count()
    };
    let most = usize::try_from(most).unwrap();
    assert!(killed.restarted.iter().all(|at| of_one_window(at) <= most), "{}", trace());
}

#[test]
fn a_podnudge_that_is_killed_after_any_command_ends_where_it_would_have_ended() {
    let mut failed = Vec::new();
    for scene in SCENES {
        // The other scenes still run, so that one run lists all that fail.
        let checked = std::panic::catch_unwind(|| {
            let whole = play(scene, &[]);
            println!("{}: {:?}, {:?}", scene.name, end(&whole), whole.restarted);
            for first in 1..=whole.executed.min(100) {
                assert_kept(scene, &whole, &[first]);
                // Killed again soon after its start.
                if first % 3 == 0 {
                    assert_kept(scene, &whole, &[first, 3 + first % 11]);
                }
            }
        });
        if checked.is_err() {
            failed.push(scene.name);
        }
    }
    assert_eq!(failed, [""; 0]);
}
