//! What a rollout that waits for another rule may still do when that has acted: on the core, whose other rule acts for
//! as long as the test says.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::policies;
use crate::support::world::{Disk, EPOCH, UPTIME, app, moment};
use podnudge_core::DrainBefore;
use podnudge_core::clock::{Now, UnixTime};
use podnudge_core::command::{Command, Extent};
use podnudge_core::event::{
    Acted, Alive, Checked, Event, Found, Inspection, PodLook, Proof, Reads, RuleId, Verified,
    VolumeId,
};
use podnudge_core::jitter::Replica;

use podnudge_core::reason::Reason;
use podnudge_core::snapshot;
use podnudge_core::status::State;
use podnudge_core::{Core, Intervals, PermitPolicy, Policy, PolicyVolume, TargetName, Turns};

const SECOND: Duration = Duration::from_secs(1);
/// Content that the checks reject.
const REJECTED: u8 = 9;
const RULE: RuleId = RuleId(0);
const OTHER: RuleId = RuleId(1);

/// A rule under test and another one, whose actions the test ends.
struct Rules {
    core: Core,
    now: Now,
    disks: [Disk; 2],
    /// What became of the rule under test, by the second.
    did: Vec<(u64, &'static str)>,
}

impl Rules {
    fn new(rule: Policy, target_of_other: TargetName) -> Self {
        let now = Now { mono: moment(Duration::ZERO), wall: UnixTime(EPOCH) };
        let other = policies::changed(policies::policy(), |policy| {
            policy.target = target_of_other;
            policy.rollout.alive_for = Duration::ZERO;
        });
        let policies = [rule, other].into_iter().enumerate().map(|(n, policy)| {
            let volumes = vec![PolicyVolume { id: VolumeId(n), path: format!("/etc/{n}") }];
            (
                policies::changed(policy, |policy| {
                    policy.name = format!("rule-{n}");
                    policy.intake.volumes = volumes;
                }),
                Found::default(),
            )
        });
        // The turn of this replica begins at 0 s, at 60 s and so on, and lasts for 20 s: it may begin within 5 s.
        let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
        let rounds = Intervals { resync: SECOND * 30, poll: SECOND * 5 };
        let disk = Disk { committed: UnixTime(EPOCH - SECOND * 3600), ..Disk::default() };
        let mut rules = Self {
            core: Core::new(policies.collect(), &replica, rounds, now),
            now,
            disks: [disk.clone(), disk],
            did: Vec::new(),
        };
        rules.write(RULE, 1);
        rules.write(OTHER, 1);
        rules.obey();
        rules
    }

    fn write(&mut self, rule: RuleId, number: u8) {
        let disk = &mut self.disks[rule.0];
        disk.generation += 1;
        disk.content = Some(BTreeMap::from([("a".to_owned(), number.to_string())]));
    }

    fn commit(&mut self, rule: RuleId, number: u8) {
        self.disks[rule.0].committed = self.now.wall;
        self.write(rule, number);
        self.tell(Event::Hint(VolumeId(rule.0), 1));
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(self.now, event);
        self.obey();
    }

    fn other_has_acted(&mut self) {
        self.tell(Event::Acted(OTHER, Acted::Sent(app(50))));
    }

    fn run_until(&mut self, second: u64) {
        let end = moment(SECOND * u32::try_from(second).unwrap());
        while let Some(next) = self.core.next_wakeup().filter(|next| *next <= end) {
            self.set_clock(next.0.max(self.now.mono.0));
            self.core.tick(self.now);
            self.obey();
        }
        self.set_clock(end.0);
    }

    fn set_clock(&mut self, mono: Duration) {
        self.now.mono.0 = mono;
        self.now.wall = UnixTime(EPOCH + (mono - UPTIME));
    }

    fn obey(&mut self) {
        while let Some(command) = self.core.next_command() {
            if let Some(event) = self.answer(command) {
                self.core.handle(self.now, event);
            }
        }
    }

    fn answer(&mut self, command: Command) -> Option<Event> {
        let second = (self.now.mono.0 - UPTIME).as_secs();
        Some(match command {
            Command::Scan(rule, volumes) => {
                let scan = |volume: VolumeId| (volume, self.disks[volume.0].scan());
                Event::Scanned(rule, volumes.into_iter().map(scan).collect())
            }
            Command::Inspect(rule) => {
                let start = moment(Duration::ZERO);
                Event::Inspected(rule, Inspection::Running { first: start, last: start })
            }
            Command::Check(rule, digest) => {
                let is_rejected = self.disks[rule.0].content.as_ref().unwrap()["a"] == "9";
                let rejected = Checked::Rejected(Reason::new("no nine"));
                let disk = self.disks[rule.0].snapshot().map(|seen| seen.digest());
                assert_eq!(digest, snapshot::digest(disk));
                Event::Checked(rule, digest, if is_rejected { rejected } else { Checked::Passed })
            }
            Command::Act(act) if act.rule == OTHER => return None,
            Command::Act(act) if act.extent == Extent::Prepare => Event::Acted(RULE, Acted::Ready),
            Command::Act(_) => {
                let ends_pod = self.core.status(self.now).rules[0].action.kinds() == "restart-pod";
                if !ends_pod {
                    self.did.push((second, "acted"));
                }
                let acted = if ends_pod { Acted::EndsPod } else { Acted::Sent(app(41)) };
                Event::Acted(RULE, acted)
            }
            Command::EndPod(..) => {
                self.did.push((second, "ended"));
                return None;
            }
            Command::Verify(rule) => Event::Verified(
                rule,
                Verified { alive: Alive::Yes, proof: Proof::NotConfigured, reads: Reads::Unknown },
            ),
            Command::LookAtPod(rule, number, _) => Event::PodLooked(rule, number, PodLook::Yes),
            _ => return None,
        })
    }
}

/// The policy of a rule that leaves its Services for 3 s, and takes turns.
fn draining() -> Policy {
    let drain = policies::drain(SECOND * 3, DrainBefore::Action);
    let turns = Turns { every: SECOND * 20, of: 3 };
    let permit = PermitPolicy { drain: Some(drain), turns: Some(turns), slot: None };
    policies::changed(policies::policy(), |policy| policy.permit = permit)
}

/// The policy of a rule whose target is not that of the other rule.
fn restarting_the_pod() -> Policy {
    let (action, target) = ("restart-pod".into(), TargetName::Exact("name", "app".to_owned()));
    policies::changed(policies::policy(), |policy| {
        policy.action = action;
        policy.rollout.pod_exit_code = Some(88);
        policy.intake.has_checks = true;
        policy.target = target;
    })
}

fn other_target() -> TargetName {
    TargetName::Exact("name", "other".to_owned())
}

/// Both rules have new content, and the other one acts.
fn waiting_for_the_other(rule: Policy) -> Rules {
    let mut rules = Rules::new(rule, other_target());
    rules.commit(OTHER, 2);
    rules.commit(RULE, 2);
    rules
}

#[test]
fn a_drain_may_last_beyond_the_beginning_of_the_turn() {
    let mut rules = Rules::new(draining(), TargetName::Any);
    rules.run_until(4);
    rules.commit(RULE, 2);
    rules.run_until(120);
    assert_eq!(rules.did, [(7, "acted")]);
}

#[test]
fn a_drain_that_waits_for_another_rule_until_its_turn_is_over_acts_in_the_next_one() {
    let mut rules = Rules::new(draining(), TargetName::Any);
    rules.run_until(1);
    rules.commit(RULE, 2);
    rules.run_until(2);
    rules.commit(OTHER, 2);
    rules.run_until(30);
    assert_eq!(rules.did, []);
    rules.other_has_acted();
    rules.run_until(120);
    assert_eq!(rules.did, [(63, "acted")]);
}

#[test]
fn the_pod_is_restarted_when_the_other_rule_has_acted() {
    let mut rules = waiting_for_the_other(restarting_the_pod());
    rules.run_until(5);
    assert_eq!(rules.did, []);
    rules.other_has_acted();
    rules.run_until(20);
    assert_eq!(rules.did, [(5, "ended")]);
}

#[test]
fn the_pod_is_not_restarted_with_content_that_was_rejected_meanwhile() {
    let mut rules = waiting_for_the_other(restarting_the_pod());
    rules.run_until(2);
    rules.commit(RULE, REJECTED);
    rules.run_until(5);
    rules.other_has_acted();
    rules.run_until(20);
    assert_eq!(rules.did, []);
    rules.commit(RULE, 3);
    rules.run_until(30);
    assert_eq!(rules.did, [(20, "ended")]);
}

#[test]
fn the_rollout_ends_if_its_content_goes_back_before_the_pod_is_restarted() {
    let mut rules = Rules::new(restarting_the_pod(), other_target());
    rules.run_until(60);
    rules.commit(OTHER, 2);
    rules.commit(RULE, 2);
    rules.run_until(62);
    rules.commit(RULE, 1);
    rules.run_until(65);
    rules.other_has_acted();
    rules.run_until(80);
    assert_eq!(rules.did, []);
    assert_eq!(rules.core.status(rules.now).rules[0].state, State::Idle);
}

#[test]
fn the_pod_is_not_restarted_when_the_turn_of_the_replica_is_over() {
    let turns = Some(Turns { every: SECOND * 20, of: 3 });
    let mut rules = waiting_for_the_other(policies::changed(restarting_the_pod(), |policy| {
        policy.permit.turns = turns;
    }));
    rules.run_until(30);
    rules.other_has_acted();
    rules.run_until(120);
    assert_eq!(rules.did, [(60, "ended")]);
}
