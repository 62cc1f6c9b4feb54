//! Two rules that publish for one application: a virtual clock, and a process that reads both
//! directories when it starts or reloads, and that crashes on deadly content.
//!
//! Unlike the application of [`World`](super::world::World), this one has no preset answers: they
//! follow from whether its process runs, as those of `process` and `verify` do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use podnudge_core::agenda::Agenda;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::command::{Act, Command};
use podnudge_core::event::{
    Absence, Acted, Alive, Checked, Event, Found, Inspection, PodLook, Proof, Publication, Reads,
    RuleId, Standing, Verified, VolumeId,
};
use podnudge_core::fact::Fact;
use podnudge_core::jitter::Replica;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{self, Digest};
use podnudge_core::status::{RuleStatus, State};
use podnudge_core::{Core, Intervals, Policy, PolicyVolume};

use super::policies;
use super::shelf::Shelf;
use super::world::{self, Disk, EPOCH, UPTIME, moment};

/// The duration of any command of a rule. It differs between the rules, so that the answer to one
/// never comes in the instant in which something is due for the other: either order would be right.
const MOMENTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_nanos(1_000_001)];

/// The process of the application.
#[derive(Debug, Clone)]
struct Process {
    pid: u64,
    started: Moment,
    /// The content of each rule that it read last.
    runs: [Option<Digest>; 2],
    /// When it crashes because of that content.
    ends: Option<Moment>,
}

/// Which processes a rule observes, as `verify` remembers them between two verifications.
#[derive(Debug, Clone, Copy, Default)]
struct Baseline {
    process: Option<u64>,
    /// The process that podnudge has ended, and whose replacement it waits for.
    replaced: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) core: Core,
    now: Now,
    policies: [Policy; 2],
    disks: [Disk; 2],
    pub(crate) shelves: [Shelf; 2],
    /// Whether a process has read the published content since its publication.
    was_read: [bool; 2],
    /// The content that crashes the application.
    pub(crate) deadly: BTreeSet<Digest>,
    /// How long after reading it the application crashes.
    pub(crate) ends_after: Duration,
    /// How long a restart of the application takes.
    pub(crate) starts_after: Duration,
    process: Option<Process>,
    next_start: Option<Moment>,
    is_away: bool,
    last_pid: u64,
    /// The processes that podnudge has ended.
    replaced: BTreeSet<u64>,
    baselines: [Baseline; 2],
    /// All commands of the core, with their times.
    pub(crate) log: Vec<(Duration, Command)>,
    /// Whether each rule is acting, and since when it has been verifying that the application
    /// survives.
    acting: [bool; 2],
    surviving: [Option<Moment>; 2],
    /// Whether one rule has acted while the other was acting or verifying.
    pub(crate) overlapped: bool,
    answers: Agenda<Event>,
}

/// Gives each rule its own volume, which it publishes and rolls back.
pub(crate) fn publishing(policies: [Policy; 2]) -> [Policy; 2] {
    let mut n = 0;
    policies.map(|policy| {
        let volumes = vec![PolicyVolume { id: VolumeId(n), path: format!("/etc/{n}") }];
        n += 1;
        let name = format!("rule-{n}");
        policies::changed(policy, |policy| {
            policy.name = name;
            policy.intake.volumes = volumes;
            policy.application.publishes = true;
            policy.application.rolls_back = true;
        })
    })
}

impl Pair {
    /// Both rules have verified content, and the application runs with it.
    pub(crate) fn new(policies: [Policy; 2]) -> Self {
        let now = Now { mono: moment(Duration::ZERO), wall: UnixTime(EPOCH) };
        let long_ago = Moment(UPTIME - Duration::from_hours(1));
        let disks = [0, 1].map(|rule| Disk {
            content: Some(content(rule, 0)),
            generation: 0,
            committed: UnixTime(EPOCH - Duration::from_hours(1)),
            unreadable: None,
        });
        let shelves =
            [0, 1].map(|rule| Shelf::holding(digest(&disks[rule]), long_ago, Standing::Good));
        let mut pair = Self {
            core: core(&policies, &shelves, now),
            policies,
            now,
            disks,
            shelves,
            was_read: [true; 2],
            deadly: BTreeSet::new(),
            ends_after: Duration::from_millis(300),
            starts_after: Duration::from_secs(1),
            process: None,
            next_start: None,
            is_away: false,
            last_pid: 40,
            replaced: BTreeSet::new(),
            baselines: [Baseline::default(); 2],
            log: Vec::new(),
            acting: [false; 2],
            surviving: [None; 2],
            overlapped: false,
            answers: Agenda::default(),
        };
        pair.start();
        pair.run_for(Duration::ZERO);
        pair
    }

    /// Commits new content for a rule, with a hint. Deadly content crashes the application.
    pub(crate) fn commit(&mut self, rule: usize, number: u8, is_deadly: bool) {
        let disk = &mut self.disks[rule];
        disk.generation += 1;
        disk.committed = self.now.wall;
        disk.content = Some(content(rule, number));
        let digest = digest(disk);
        if is_deadly {
            self.deadly.insert(digest);
        }
        self.tell(Event::Hint(VolumeId(rule), 1));
    }

    pub(crate) fn trigger(&mut self, rule: Option<usize>) {
        for (n, shelf) in self.shelves.iter_mut().enumerate() {
            if rule.is_none_or(|rule| rule == n) {
                let rolled_back = std::mem::take(&mut shelf.rolled_back);
                shelf.asked_for.extend(rolled_back);
                // The trigger is for what is on disk, also if that is rolled back during its scan.
                shelf.asked_for.insert(digest(&self.disks[n]));
            }
        }
        self.tell(Event::Trigger(rule.map(RuleId)));
    }

    /// Stops the application from outside, and restarts it after this time. Does nothing while
    /// podnudge verifies that it survives, or while content is on trial, since podnudge could not tell
    /// that the content is not the cause.
    pub(crate) fn application_is_away_for(&mut self, time: Duration) {
        let are_good = self.shelves.iter().all(Shelf::is_good);
        if are_good && !self.is_busy(0) && !self.is_busy(1) {
            self.process = None;
            self.next_start = Some(self.now.mono.after(time));
            self.is_away = true;
        }
    }

    /// Whether the application was stopped from outside and has not recovered since.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away && !(self.process.is_some() && self.is_at_rest())
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        let rests = |(rule, disk): (&RuleStatus, &Disk)| {
            rule.digest_on_disk == Some(digest(disk))
                && matches!(rule.state, State::Idle | State::RolledBack)
                // A rolled-back rule may still wait for the proof of what it had published before.
                && rule.next_action_at.is_none()
        };
        // A trigger is visible in the state after its scan.
        let is_quiet = self.answers.is_empty();
        is_quiet && self.core.status(self.now).rules.iter().zip(&self.disks).all(rests)
    }

    /// podnudge is killed and restarts.
    pub(crate) fn restart(&mut self) {
        self.answers.clear();
        (self.acting, self.surviving) = ([false; 2], [None; 2]);
        self.baselines = [Baseline::default(); 2];
        self.replaced.clear();
        self.shelves.iter_mut().for_each(Shelf::forget);
        self.core = core(&self.policies, &self.shelves, self.now);
        self.run_for(Duration::ZERO);
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(self.now, event);
        self.run_for(Duration::ZERO);
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now.mono.after(time);
        for step in 0.. {
            assert!(step < 100_000, "the core never becomes idle");
            self.obey();
            let answer = self.answers.next();
            let ends = self.process.as_ref().and_then(|process| process.ends);
            let others = [ends, self.next_start, self.core.next_wakeup()].into_iter().flatten();
            let Some(next) = answer.into_iter().chain(others).min().filter(|next| *next <= end)
            else {
                break;
            };
            self.set_clock(next.max(self.now.mono));
            let is_over = |at: Option<Moment>| at.is_some_and(|at| at <= self.now.mono);
            if is_over(ends) {
                self.end();
            } else if is_over(self.next_start) {
                self.start();
            } else if let Some((_, event)) = self.answers.pop(self.now.mono) {
                self.answered(&event);
                self.core.handle(self.now, event);
            } else {
                self.core.tick(self.now);
            }
        }
        self.set_clock(end);
    }

    fn set_clock(&mut self, mono: Moment) {
        self.now = Now { mono, wall: UnixTime(EPOCH + (mono.0 - UPTIME)) };
    }

    pub(crate) fn rule(&self, rule: usize) -> RuleStatus {
        self.core.status(self.now).rules.swap_remove(rule)
    }

    /// The content of a rule that the application runs.
    pub(crate) fn runs(&self, rule: usize) -> Option<Digest> {
        self.process.as_ref().and_then(|process| process.runs[rule])
    }

    pub(crate) fn digest_on_disk(&self, rule: usize) -> Digest {
        digest(&self.disks[rule])
    }

    /// The actions, publications and reports of a rule.
    pub(crate) fn did(&self, rule: usize) -> Vec<(Duration, Command)> {
        let is_of = |command: &Command| match command {
            Command::Act(act) => act.rule.0 == rule,
            Command::Publish(of, _) | Command::RollBack(of, _) | Command::Report(of, _) => {
                of.0 == rule
            }
            _ => false,
        };
        self.log.iter().filter(|(_, command)| is_of(command)).cloned().collect()
    }

    /// The quarantined content, with the times.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = (Duration, Digest)> {
        self.log.iter().filter_map(|(at, command)| match command {
            Command::RollBack(_, back) => Some((*at, back.failed)),
            _ => None,
        })
    }

    fn start(&mut self) {
        (self.next_start, self.is_away) = (None, self.is_away());
        self.last_pid += 1;
        let (pid, started) = (self.last_pid, self.now.mono);
        self.process = Some(Process { pid, started, runs: [None; 2], ends: None });
        self.read();
    }

    /// The application reads both directories.
    fn read(&mut self) {
        let Some(process) = &mut self.process else { return };
        process.runs = [0, 1].map(|rule| self.shelves[rule].current.map(|(digest, _)| digest));
        self.was_read = [true; 2];
        if process.runs.iter().flatten().any(|digest| self.deadly.contains(digest)) {
            process.ends.get_or_insert(self.now.mono.after(self.ends_after));
        } else {
            process.ends = None;
        }
    }

    fn end(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.next_start = Some(self.now.mono.after(self.starts_after));
        for rule in 0..2 {
            if self.baselines[rule].process == Some(process.pid) {
                self.answer(rule, Event::Ended(RuleId(rule)));
            }
        }
    }

    fn answer(&mut self, rule: usize, event: Event) {
        self.answers.plan(self.now.mono.after(MOMENTS[rule]), event);
    }

    fn obey(&mut self) {
        while let Some(command) = self.core.next_command() {
            assert!(self.log.len() < 50_000, "the core never becomes idle");
            self.log.push((self.now.mono.0 - UPTIME, command.clone()));
            self.note(&command);
            let (rule, event) = match command {
                Command::Scan(rule, volumes) => {
                    let scan = |volume: VolumeId| (volume, self.disks[volume.0].scan());
                    (rule, Event::Scanned(rule, volumes.into_iter().map(scan).collect()))
                }
                Command::Resync(volumes) => {
                    for volume in volumes {
                        let seen = self.disks[volume.0].snapshot().map(|seen| seen.generation);
                        self.answer(volume.0, Event::Resynced(volume, self.now.mono, seen));
                    }
                    continue;
                }
                Command::Inspect(rule) => {
                    let start = self.process.as_ref().map(|process| process.started);
                    let running = |start| Inspection::Running { first: start, last: start };
                    (rule, Event::Inspected(rule, start.map_or(Inspection::Absent, running)))
                }
                Command::Check(rule, digest) => {
                    (rule, Event::Checked(rule, digest, Checked::Passed))
                }
                Command::Claim(rule, ..) => (rule, Event::Slot(rule, world::slot("pair-0"))),
                Command::LookAtPod(rule, number, _) => {
                    (rule, Event::PodLooked(rule, number, PodLook::Yes))
                }
                Command::Expiry(rule, digest) => (rule, Event::Expires(rule, digest, None)),
                Command::Probe(rule, probe) => (rule, Event::Probed(rule, probe, None)),
                Command::ReadPublished(rule) => {
                    let current = self.shelves[rule.0].current;
                    (rule, Event::FoundPublished(rule, current.map(|(digest, _)| digest)))
                }
                Command::Publish(rule, to) => {
                    let published = if self.digest_on_disk(rule.0) == to {
                        self.turn(rule.0, |shelf, now| shelf.publish(to, now))
                    } else {
                        Publication::Moved
                    };
                    (rule, Event::Published(rule, published))
                }
                Command::RollBack(rule, back) => {
                    let published = self.turn(rule.0, |shelf, now| shelf.roll_back(&back, now));
                    (rule, Event::Published(rule, published))
                }
                Command::Approve(rule, digest, evidence) => {
                    self.shelves[rule.0].approve(digest, evidence);
                    continue;
                }
                Command::Act(act) => {
                    self.overlapped |= self.is_busy(1 - act.rule.0);
                    self.shelves[act.rule.0].acted_on(act.digest);
                    (act.rule, Event::Acted(act.rule, self.act(&act)))
                }
                Command::Verify(rule) => (rule, Event::Verified(rule, self.verify(rule.0))),
                Command::RenewWatches
                | Command::Remember(..)
                | Command::Preflight(_)
                | Command::Persist(..)
                | Command::EndPod(..)
                | Command::Report(..)
                | Command::Release(_)
                | Command::Halt(..)
                | Command::TryHalted(..)
                | Command::ClearHalt(..) => continue,
            };
            self.answer(rule.0, event);
        }
    }

    /// Updates whether a rule is busy with the target after an answer. After an exit of the target,
    /// there is nothing left to verify.
    fn answered(&mut self, event: &Event) {
        match event {
            Event::Acted(rule, acted) => {
                self.acting[rule.0] = false;
                let is_absent = matches!(acted, Acted::Absent(_));
                self.surviving[rule.0] = (!is_absent).then_some(self.now.mono);
            }
            Event::Verified(rule, Verified { alive: Alive::Gone(_), .. }) => {
                self.surviving[rule.0] = None;
            }
            _ => {}
        }
    }

    /// Updates whether a rule is busy with the target after a command.
    fn note(&mut self, command: &Command) {
        match command {
            Command::Act(act) => self.acting[act.rule.0] = true,
            Command::Publish(rule, _) | Command::RollBack(rule, _) => {
                self.surviving[rule.0] = None;
            }
            Command::Report(rule, fact) if is_outcome(fact) => self.surviving[rule.0] = None,
            _ => {}
        }
    }

    fn is_busy(&self, rule: usize) -> bool {
        let alive_for = self.policies[rule].rollout.alive_for;
        let is_surviving = |since: Moment| self.now.mono < since.after(alive_for);
        self.acting[rule] || self.surviving[rule].is_some_and(is_surviving)
    }

    fn turn(
        &mut self,
        rule: usize,
        turn: impl FnOnce(&mut Shelf, Moment) -> Publication,
    ) -> Publication {
        let before = self.shelves[rule].current;
        let published = turn(&mut self.shelves[rule], self.now.mono);
        self.was_read[rule] &= self.shelves[rule].current == before;
        published
    }

    fn absence(&self, rule: usize) -> Absence {
        let reason = Reason::new("no process is named app");
        Absence { reason, was_read: self.was_read[rule] }
    }

    fn act(&mut self, act: &Act) -> Acted {
        let rule = act.rule.0;
        let Some(process) = &self.process else { return Acted::Absent(self.absence(rule)) };
        let (pid, name) = (process.pid, world::app(process.pid));
        self.baselines[rule] = Baseline { process: Some(pid), replaced: None };
        if act.fresh_after.is_some_and(|moment| process.started > moment) {
            return Acted::Fresh(name);
        }
        if self.policies[rule].rollout.pod_exit_code.is_some() {
            return Acted::EndsPod;
        }
        if act.restart || self.policies[rule].rollout.is_restart {
            self.baselines[rule] = Baseline { process: None, replaced: Some(pid) };
            self.replaced.insert(pid);
            self.end();
            return Acted::Restarted(name);
        }
        self.read();
        Acted::Sent(name)
    }

    /// One verification, in the order of `verify::look`.
    fn verify(&mut self, rule: usize) -> Verified {
        let mut baseline = self.baselines[rule];
        let there = self.process.as_ref().filter(|there| Some(there.pid) != baseline.replaced);
        if baseline.process.is_none() && baseline.replaced.is_some() {
            let Some(there) = there else {
                let alive = Alive::Absent(self.absence(rule));
                return Verified { alive, proof: Proof::NotConfigured, reads: Reads::Unknown };
            };
            baseline.process = Some(there.pid);
        }
        let pending = |reason: &str| Proof::Pending(Reason::new(reason));
        let seen = match (baseline.process, there) {
            (None, _) => Verified {
                alive: Alive::Unknown,
                proof: Proof::NotConfigured,
                reads: Reads::Unknown,
            },
            (Some(pid), Some(there)) if there.pid == pid => {
                let age = self.now.mono.since(there.started);
                if baseline.replaced.is_some() && age < self.policies[rule].rollout.alive_for {
                    Verified {
                        alive: Alive::Unknown,
                        proof: pending("it is too young"),
                        reads: Reads::Unknown,
                    }
                } else {
                    Verified {
                        alive: Alive::Yes,
                        proof: Proof::NotConfigured,
                        reads: Reads::Unknown,
                    }
                }
            }
            (Some(pid), _) if self.replaced.contains(&pid) => {
                baseline = Baseline { process: None, replaced: Some(pid) };
                Verified {
                    alive: Alive::Replaced,
                    proof: pending("another rule restarted it"),
                    reads: Reads::Unknown,
                }
            }
            (Some(pid), _) => {
                let alive = Alive::Gone(Reason::new(format!("process {pid} ended")));
                Verified { alive, proof: Proof::NotConfigured, reads: Reads::Unknown }
            }
        };
        self.baselines[rule] = baseline;
        seen
    }
}

/// Whether a rollout has ended or waits after this fact.
fn is_outcome(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Applied(..)
            | Fact::Delivered(..)
            | Fact::RolledBack(_)
            | Fact::RollingBack(..)
            | Fact::GaveUp(..)
            | Fact::Retrying(..)
            | Fact::Tripped(..)
            | Fact::TargetAbsent(_)
            | Fact::Refused(_)
            | Fact::Escalating(..)
            | Fact::Superseded(_)
    )
}

fn core(policies: &[Policy; 2], shelves: &[Shelf; 2], now: Now) -> Core {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let found = shelves.iter().map(|shelf| Found { published: shelf.found(), ..Found::default() });
    let rules = policies.iter().cloned().zip(found).collect();
    let rounds = Intervals { resync: Duration::from_secs(30), poll: Duration::from_secs(5) };
    Core::new(rules, &replica, rounds, now)
}

fn content(rule: usize, number: u8) -> BTreeMap<String, String> {
    BTreeMap::from([(format!("rule-{rule}"), number.to_string())])
}

fn digest(disk: &Disk) -> Digest {
    snapshot::digest(disk.snapshot().map(|snapshot| snapshot.digest()))
}
