//! 50 replicas that share slots: content that ends the application, then content that works.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::policies;
use crate::support::random::Random;
use crate::support::world::{self, World};
use podnudge_core::SlotPolicy;
use podnudge_core::command::Extent;
use podnudge_core::event::{Alive, Event, Proof, Reads, RuleId, SlotState, Verified, VolumeId};
use podnudge_core::jitter::Replica;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;
use podnudge_core::status::State;

const REPLICAS: usize = 50;
const SECOND: Duration = Duration::from_secs(1);

/// The replicas, and their slots: an idealised API server, which answers within a second.
struct Fleet {
    replicas: Vec<World>,
    holders: Vec<Option<usize>>,
    halted: BTreeSet<Digest>,
    /// When each kubelet updates the volume next, and with which content.
    swaps: Vec<Option<(Duration, String)>>,
    now: Duration,
    random: Random,
}

impl Fleet {
    fn new(slots: usize) -> Self {
        let replica = |n: usize| {
            let replica = Replica { identity: format!("web-{n}"), ordinal: None, seed: 0 };
            let mut policy = policies::policy_settling();
            policy.rollout.is_restart = true;
            policy.permit.slot = Some(SlotPolicy {
                acts_when_unreachable: false,
                awaits_readiness: true,
                patience: Duration::ZERO,
                bake: SECOND * 5,
            });
            let mut world = World::new(policy, &replica, None);
            world::watched_by_inotify(&mut world);
            world.slots.answer = Some(SlotState::Waiting(Reason::new("it is being asked for")));
            world
        };
        Self {
            replicas: (0..REPLICAS).map(replica).collect(),
            holders: vec![None; slots],
            halted: BTreeSet::new(),
            swaps: vec![None; REPLICAS],
            now: Duration::ZERO,
            random: Random::from_environment(),
        }
    }

    /// Edits the ConfigMap. Each kubelet updates its volume within this time.
    fn edit(&mut self, content: &str, within: Duration) {
        for swap in &mut self.swaps {
            let delay = self.random.below(within);
            *swap = Some((self.now + delay, content.to_owned()));
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += SECOND;
            for replica in 0..REPLICAS {
                self.advance(replica);
                self.share_slots(replica);
            }
        }
    }

    fn advance(&mut self, replica: usize) {
        let world = &mut self.replicas[replica];
        world.run_until(self.now);
        let due = self.swaps[replica].take_if(|(at, _)| *at <= self.now);
        if let Some((_, content)) = due {
            // The application ends when it reads `bad`.
            let is_bad = content == "bad";
            let gone = Alive::Gone(Reason::new("it ended with code 1"));
            let alive = if is_bad { gone } else { Alive::Yes };
            world.application.verifies =
                Verified { alive, proof: Proof::NotConfigured, reads: Reads::Unknown };
            world.put(0, Some(BTreeMap::from([("a".to_owned(), content)])));
            world.tell(Event::Hint(VolumeId(0), 1));
        }
    }

    fn share_slots(&mut self, replica: usize) {
        let world = &mut self.replicas[replica];
        for digest in std::mem::take(&mut world.slots.cleared) {
            self.halted.remove(&digest);
        }
        self.halted.extend(std::mem::take(&mut world.slots.halted));
        let tried = world.slots.tried;
        let held = self.holders.iter().position(|holder| *holder == Some(replica));
        let state = match (world.slots.claimed, held) {
            (None, Some(slot)) => {
                self.holders[slot] = None;
                return;
            }
            (None, None) => return,
            (Some(digest), _)
                if self.halted.contains(&digest)
                    && tried != Some(digest)
                    && !world.slots.is_kept =>
            {
                SlotState::Halted(digest, Reason::new("it failed on another replica"))
            }
            (Some(_), Some(slot)) => world::slot(&format!("web-{slot}")),
            (Some(_), None) => match self.holders.iter().position(Option::is_none) {
                Some(slot) => {
                    self.holders[slot] = Some(replica);
                    world::slot(&format!("web-{slot}"))
                }
                None => SlotState::Waiting(Reason::new("other replicas hold the slots")),
            },
        };
        world.tell(Event::Slot(RuleId(0), state));
    }

    /// How many replicas have acted since this time.
    fn acted_since(&self, time: Duration) -> usize {
        self.replicas.iter().filter(|world| world.acts().any(|(at, _)| at >= time)).count()
    }
}

/// What a person tries in one pod must not take down as many as there are slots again; nor does it work because
/// the application runs again for a while.
#[test]
fn halted_content_reaches_the_others_only_if_it_works_where_a_person_has_triggered_it() {
    let sent = |world: &World| world.acts().filter(|(_, act)| act.extent == Extent::Send).count();
    for slots in [1, 3] {
        let mut fleet = Fleet::new(slots);
        fleet.run_for(SECOND * 10);
        fleet.edit("bad", SECOND);
        fleet.run_for(SECOND * 600);
        let hurt = fleet.holders[0].unwrap();
        let lives = |fleet: &mut Fleet, replica: usize, lives: bool| {
            let gone = Alive::Gone(Reason::new("it ended with code 1"));
            fleet.replicas[replica].application.verifies.alive =
                if lives { Alive::Yes } else { gone };
        };
        let acted = |fleet: &Fleet| fleet.replicas.iter().filter(|world| sent(world) > 0).count();
        lives(&mut fleet, hurt, true);
        fleet.replicas[hurt].application_restarts();
        fleet.run_for(SECOND * 300);
        assert_eq!(fleet.replicas[hurt].status().rules[0].state, State::Idle);
        assert_eq!(acted(&fleet), slots, "{slots} slots");
        for (works, triggers) in [(false, 1), (true, 2)] {
            (0..REPLICAS).for_each(|replica| lives(&mut fleet, replica, works));
            fleet.replicas[hurt].tell(Event::Trigger(None));
            fleet.run_for(SECOND * 1200);
            assert_eq!(sent(&fleet.replicas[hurt]), 1 + triggers, "{slots} slots");
            assert_eq!(acted(&fleet), if works { REPLICAS } else { slots }, "{slots} slots");
        }
    }
}

#[test]
fn bad_content_hurts_as_many_replicas_as_there_are_slots_and_the_fix_reaches_all() {
    for (slots, within) in [(1, SECOND * 90), (1, SECOND), (3, SECOND)] {
        let mut fleet = Fleet::new(slots);
        fleet.run_for(SECOND * 10);
        fleet.edit("bad", within);
        let begin = fleet.now;
        fleet.run_for(SECOND * 600);
        assert_eq!(fleet.acted_since(begin), slots, "{slots} slots");
        let is_held = |world: &&World| world.status().rules[0].state == State::Held;
        let held = fleet.replicas.iter().filter(is_held).count();
        assert_eq!(held, REPLICAS - slots, "the others say that they are held");
        fleet.edit("good", within);
        let begin = fleet.now;
        fleet.run_for(SECOND * 1200);
        assert_eq!(fleet.acted_since(begin), REPLICAS, "{slots} slots");
        for world in &fleet.replicas {
            let status = &world.status().rules[0];
            assert_eq!(status.digest_on_disk, status.digest_running, "{status:?}");
        }
        assert_eq!(fleet.holders, vec![None; slots], "every slot was given back");
    }
}
