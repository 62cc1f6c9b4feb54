//! A simulated world for one core, without threads, files or real clocks: a virtual clock, volumes
//! as maps, and an application with preset answers. Used by scenarios, properties and the fleet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use podnudge_core::agenda::Agenda;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::command::{Act, Command, Extent, Intent, PodIs};
use podnudge_core::event::{
    Acted, Alive, Checked, Event, Found, Inspection, Interrupted, Memory, PodLook, Probe, Proof,
    Publication, Published, Reads, RuleId, Scan, SlotState, Standing, Targets, Verified, VolumeId,
    Watch,
};
use podnudge_core::fact::Fact;
use podnudge_core::jitter::Replica;
use podnudge_core::preflight::Problem;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{self, Digest, Generation, Key, Snapshot};
use podnudge_core::status::Status;
use podnudge_core::{Core, Intervals, Policy};
use sha2::{Digest as _, Sha256};

use super::policies;
use super::record::Record;
use super::shelf::Shelf;

/// The key that pauses a rule that has one.
const PAUSE_KEY: &str = "pause";

/// The UID of the pod when a scenario begins.
const POD: &str = "u-1";
/// How long podnudge does not run after it was killed.
const DOWN: Duration = Duration::from_secs(1);

/// The wall clock when a scenario begins.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_700_000_000);
/// The uptime of the machine when a scenario begins.
pub(crate) const UPTIME: Duration = Duration::from_hours(24);

/// The moment of a time in a scenario.
pub(crate) fn moment(time: Duration) -> Moment {
    Moment(UPTIME + time)
}

/// One volume as it is on the world's disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    /// `None` if the path does not exist.
    pub(crate) content: Option<BTreeMap<String, String>>,
    pub(crate) generation: u64,
    pub(crate) committed: UnixTime,
    pub(crate) unreadable: Option<Reason>,
}

/// The preset behaviour of the application.
#[derive(Debug, Clone)]
pub(crate) struct Application {
    pub(crate) acts: Acted,
    pub(crate) verifies: Verified,
    /// The result of checks, unless the content on disk has changed meanwhile.
    pub(crate) checks: Checked,
    /// The start time of the application; `None` if that is unknown.
    pub(crate) started: Option<Moment>,
    /// What an inspection finds, whatever the start time.
    pub(crate) inspected: Option<Inspection>,
    /// The content that it read at its last start or reload.
    pub(crate) runs: Option<Digest>,
    /// Whether the answer to a signal (fresh, or sent and read) follows from the world's disk
    /// instead of `acts`.
    pub(crate) is_honest: bool,
    /// Whether it rewrites its own volume with equal content at each reload.
    pub(crate) touches: bool,
    /// Whether the target is there when an action is prepared, and not when it is sent.
    pub(crate) vanishes: bool,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is read by a test")]
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now: Now,
    pub(crate) disks: Vec<Disk>,
    pub(crate) application: Application,
    /// The duration of a scan and of an action.
    pub(crate) scan_takes: Duration,
    pub(crate) act_takes: Duration,
    pub(crate) verify_takes: Duration,
    /// The duration of a check.
    pub(crate) check_takes: Duration,
    /// The duration of a publication.
    pub(crate) publish_takes: Duration,
    pub(crate) preflight_takes: Duration,
    /// How long it takes to tell the other replicas of content that failed.
    pub(crate) halt_takes: Duration,
    /// Whether the pause file exists.
    pub(crate) is_paused: bool,
    /// The publish directory.
    pub(crate) shelf: Shelf,
    /// Whether resyncs hang.
    pub(crate) resyncs_hang: bool,
    /// All commands of the core, with their times in the scenario.
    pub(crate) log: Vec<(Duration, Command)>,
    /// The positions in the log where podnudge restarted.
    pub(crate) restarts: Vec<usize>,
    /// The times of all swaps.
    pub(crate) swaps: Vec<Duration>,
    /// The content of the state directory.
    pub(crate) persisted: Option<Memory>,
    /// The checks that have begun and not ended, as `checks/attempts.rs` records them.
    pub(crate) interrupted: Vec<Interrupted>,
    /// Derives what must begin, and what may be quarantined.
    pub(crate) record: Record,
    /// Rollouts that had not begun when they should have, with the time: see [`Record::overdue`].
    pub(crate) overdue: Vec<(Duration, String)>,
    /// Commands that came earlier than the status announced in the instant before, with the time.
    pub(crate) reported_too_late: Vec<(Duration, Command)>,
    /// Additionally calls the core in this interval, even if nothing is due.
    pub(crate) nudges: Option<Duration>,
    /// Whether an action ever began before the previous one had ended.
    pub(crate) actions_overlapped: bool,
    /// Whether an action ever began although the last checks of its content had not passed.
    pub(crate) acted_unchecked: bool,
    /// The digests whose last checks passed.
    passed: BTreeSet<Digest>,
    acting: bool,
    policy: Policy,
    replica: Replica,
    answers: Agenda<Event>,
    /// What a preflight finds.
    pub(crate) problems: Vec<Problem>,
    /// What podnudge has said that failed here, and not that it works.
    pub(crate) failed: BTreeSet<Digest>,
    /// The slots, as podnudge is told about them.
    pub(crate) slots: Slots,
    /// The Services have the pod, and follow at once, if there is nothing else.
    pub(crate) services: (Option<PodLook>, Option<PodLook>),
    /// Whether the application is the main process of a container.
    pub(crate) is_container: bool,
    /// podnudge is killed after so many commands, each counted from the kill before, and restarted with
    /// what it has saved.
    pub(crate) kills: VecDeque<usize>,
    /// The number of commands since the last kill.
    pub(crate) executed: usize,
    /// Content that ends the application just after it was read.
    pub(crate) deadly: Option<Digest>,
    /// Content for which the application gives no proof.
    pub(crate) unproven: Option<Digest>,
    /// When podnudge restarted the application.
    pub(crate) restarted: Vec<Duration>,
    /// When a restarted application was not protected: without a slot before the end of the bake, or in its
    /// Services before it was verified.
    pub(crate) unprotected: Vec<(Duration, &'static str)>,
    /// When an action was sent without a slot, where replicas share slots.
    pub(crate) acted_without_slot: Vec<Duration>,
    /// When an action was sent although the rule had not even asked for a slot.
    pub(crate) acted_unclaimed: Vec<Duration>,
    /// When the pod was out of its Services without a slot for longer than the slot of a killed podnudge lasts.
    pub(crate) drained_without_slot: Vec<Duration>,
    without_slot_since: Option<Moment>,
    killed_at: Option<Moment>,
    /// Whether the application was restarted and not verified since.
    is_unverified: bool,
    /// The pod, for a rule that restarts it.
    pub(crate) pod: Pod,
    /// The UID of the pod.
    pub(crate) pod_uid: String,
}

/// What becomes of the pod when podnudge ends with the rule's exit code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pod {
    /// The kubelet restarts all containers.
    #[default]
    Restarts,
    /// The kubelet restarts all containers, and podnudge does not see the application.
    RestartsUnseen,
    /// The kubelet restarts podnudge's container only.
    HasNoRule,
    /// podnudge cannot save its state, and finds that out when it is to end.
    Unsaved,
    /// podnudge knows that it cannot.
    Refuses,
    /// podnudge is stopped (SIGSTOP) when it is to end, until another replica may have its slot.
    Stopped,
}

/// The slots of the replicas, for one of them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// What it is told when it asks; it gets a slot if there is nothing else.
    pub(crate) answer: Option<SlotState>,
    pub(crate) claimed: Option<Digest>,
    /// Whether the slot is only kept: content that failed on another replica is no reason to refuse it.
    pub(crate) is_kept: bool,
    pub(crate) halted: Vec<Digest>,
    /// What a person wants here although it is halted.
    pub(crate) tried: Option<Digest>,
    /// What works after all.
    pub(crate) cleared: Vec<Digest>,
    /// Whether the pod is Ready; it is if there is nothing else.
    pub(crate) readiness: Option<PodLook>,
    /// What it was told last.
    told: SlotState,
}

/// How long a Lease is honoured whose holder was killed, at least.
const SLOT_OF_KILLED: Duration = Duration::from_secs(5);

/// The policy of a rule that publishes and rolls back.
pub(crate) fn publishing(policy: Policy) -> Policy {
    policies::changed(policy, |policy| {
        policy.application.publishes = true;
        policy.application.rolls_back = true;
    })
}

/// The policy of a rule whose action is a restart.
pub(crate) fn restarting(policy: Policy) -> Policy {
    policies::changed(policy, |policy| policy.rollout.is_restart = true)
}

/// A slot that is not lost.
pub(crate) fn slot(name: &str) -> SlotState {
    SlotState::Held { slot: name.to_owned(), until: Moment(Duration::MAX) }
}

impl Slots {
    pub(crate) fn is_halted(&self, digest: Digest) -> bool {
        self.halted.contains(&digest) && self.tried != Some(digest) && !self.is_kept
    }

    fn claimed(&mut self, digest: Digest, intent: Intent) -> SlotState {
        (self.claimed, self.is_kept) = (Some(digest), intent == Intent::Keep);
        if self.is_halted(digest) {
            return SlotState::Halted(digest, Reason::new("failed on web-2"));
        }
        self.answer.clone().unwrap_or(slot("web-0"))
    }
}

impl World {
    /// A world whose volumes have held `a=1` since before the application started. If podnudge
    /// publishes, this content is verified.
    pub(crate) fn new(policy: Policy, replica: &Replica, remembered: Option<Memory>) -> Self {
        Self::publishing(policy, replica, remembered, Some(Standing::Good))
    }

    /// A world with another state of the publish directory.
    pub(crate) fn publishing(
        policy: Policy,
        replica: &Replica,
        remembered: Option<Memory>,
        published: Option<Standing>,
    ) -> Self {
        let now = Now { mono: moment(Duration::ZERO), wall: UnixTime(EPOCH) };
        let content = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let disk = Disk {
            content: Some(content),
            generation: 0,
            committed: UnixTime(EPOCH - Duration::from_hours(1)),
            unreadable: None,
        };
        let disks = vec![disk; policy.intake.volumes.len()];
        let all: Option<Vec<Snapshot>> = disks.iter().map(Disk::snapshot).collect();
        let digest = snapshot::digest(all.into_iter().flatten().map(|one| one.digest()));
        let long_ago = Moment(UPTIME - Duration::from_hours(1));
        let shelf = published.map(|standing| Shelf::holding(digest, long_ago, standing));
        let shelf = shelf.unwrap_or_default();
        let mut world = Self {
            core: core(&policy, replica, remembered, &shelf, Vec::new(), POD, now),
            shelf,
            policy,
            replica: replica.clone(),
            now,
            disks,
            application: Application {
                acts: Acted::Sent(app(41)),
                verifies: Verified {
                    alive: Alive::Yes,
                    proof: Proof::NotConfigured,
                    reads: Reads::Unknown,
                },
                checks: Checked::Passed,
                started: Some(Moment(UPTIME - Duration::from_mins(1))),
                inspected: None,
                runs: None,
                is_honest: false,
                touches: false,
                vanishes: false,
            },
            scan_takes: Duration::ZERO,
            act_takes: Duration::ZERO,
            verify_takes: Duration::ZERO,
            check_takes: Duration::ZERO,
            publish_takes: Duration::ZERO,
            preflight_takes: Duration::ZERO,
            halt_takes: Duration::ZERO,
            is_paused: false,
            resyncs_hang: false,
            log: Vec::new(),
            restarts: Vec::new(),
            swaps: Vec::new(),
            persisted: None,
            interrupted: Vec::new(),
            record: Record::default(),
            overdue: Vec::new(),
            reported_too_late: Vec::new(),
            nudges: None,
            actions_overlapped: false,
            acted_unchecked: false,
            passed: BTreeSet::new(),
            acting: false,
            answers: Agenda::default(),
            problems: Vec::new(),
            failed: BTreeSet::new(),
            slots: Slots::default(),
            services: (None, None),
            is_container: false,
            kills: VecDeque::new(),
            executed: 0,
            deadly: None,
            unproven: None,
            restarted: Vec::new(),
            unprotected: Vec::new(),
            acted_without_slot: Vec::new(),
            acted_unclaimed: Vec::new(),
            drained_without_slot: Vec::new(),
            without_slot_since: None,
            killed_at: None,
            is_unverified: false,
            pod: Pod::default(),
            pod_uid: POD.to_owned(),
        };
        world.application.runs = world.readable();
        world
    }

    /// The content that the application reads when it starts or reloads.
    fn readable(&self) -> Option<Digest> {
        if self.policy.application.publishes {
            self.shelf.current.map(|(digest, _)| digest)
        } else {
            self.digest_on_disk()
        }
    }

    /// The application restarts and reads the current content.
    pub(crate) fn application_restarts(&mut self) {
        self.application.started = Some(self.now.mono);
        self.application.runs = self.readable();
    }

    /// podnudge is killed and restarts; disk and application stay as they are.
    pub(crate) fn restart(&mut self, remembered: Option<Memory>) {
        self.answers.clear();
        self.killed_at = Some(self.now.mono);
        (self.slots.claimed, self.slots.told) = (None, SlotState::Free);
        self.acting = false;
        self.shelf.forget();
        self.shelf.is_triggered = false;
        self.restarts.push(self.log.len());
        let interrupted = self.interrupted.clone();
        let (policy, replica, pod) = (&self.policy, &self.replica, &self.pod_uid);
        self.core = core(policy, replica, remembered, &self.shelf, interrupted, pod, self.now);
        self.run_to(self.now.mono);
    }

    /// The pod is replaced by another one, with the same state directory.
    pub(crate) fn replace_pod(&mut self) {
        self.pod_uid.push('x');
        if self.application.started.is_some() {
            self.application.started = Some(self.now.mono);
        }
        self.application.runs = self.readable();
        self.restart(self.persisted.clone());
    }

    /// Puts a new generation in place, without a hint.
    pub(crate) fn put(&mut self, volume: usize, content: Option<BTreeMap<String, String>>) {
        let committed = self.now.wall;
        self.swaps.push(self.now.mono.0 - UPTIME);
        let disk = &mut self.disks[volume];
        disk.generation += 1;
        disk.committed = committed;
        disk.content = content;
    }

    /// Passes an event to the core, and runs everything that is due at once.
    pub(crate) fn tell(&mut self, event: Event) {
        if matches!(event, Event::Trigger(_)) {
            let rolled_back = std::mem::take(&mut self.shelf.rolled_back);
            self.shelf.asked_for.extend(rolled_back);
            self.shelf.is_triggered = true;
        }
        self.handle(event);
        self.run_to(self.now.mono);
    }

    fn handle(&mut self, event: Event) {
        let is_scan = matches!(event, Event::Scanned(..));
        match &event {
            Event::Slot(_, state) => self.slots.told.clone_from(state),
            Event::HaltWritten(_, digest) if !self.slots.halted.contains(digest) => {
                self.slots.halted.push(*digest);
            }
            _ => {}
        }
        self.record.event(self.now.mono, &event);
        if let Event::Checked(_, digest, checked) = &event {
            self.interrupted.retain(|known| known.digest != *digest || *checked != Checked::Passed);
            if let Some(known) = self.interrupted.iter_mut().find(|one| one.digest == *digest) {
                known.times = 0;
            }
        }
        if event == Event::Stop {
            self.abort_check();
        }
        self.core.handle(self.now, event);
        if is_scan {
            self.shelf.is_triggered &= self.status().rules[0].digest_on_disk.is_none();
            self.record.scanned(&self.status().rules[0]);
        }
    }

    fn remember(&mut self, digest: Digest) {
        self.interrupted.retain(|known| known.times > 0 || known.digest == digest);
        if !self.interrupted.iter().any(|known| known.digest == digest) {
            self.interrupted.push(Interrupted { digest, times: 0 });
        }
    }

    fn begin_check(&mut self, digest: Digest) {
        self.interrupted.retain(|known| known.times > 0 || known.digest == digest);
        match self.interrupted.iter_mut().find(|known| known.digest == digest) {
            Some(known) => known.times += 1,
            None => self.interrupted.push(Interrupted { digest, times: 1 }),
        }
    }

    /// Newer content, or a stop: the check does not count.
    fn abort_check(&mut self) {
        let is_check = |answer: &Event| match answer {
            Event::Checked(_, digest, _) => Some(*digest),
            _ => None,
        };
        let running: Vec<Digest> = self.answers.all().filter_map(is_check).collect();
        self.answers.retain(|answer| is_check(answer).is_none());
        for known in self.interrupted.iter_mut().filter(|known| running.contains(&known.digest)) {
            known.times -= 1;
        }
    }

    /// Whether no command is pending.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.answers.is_empty()
    }

    /// Records a rollout that should have begun, at a time without pending commands.
    fn look_for_overdue(&mut self) {
        let rule = &self.status().rules[0];
        if let Some(what) = self.record.overdue(self.now.mono, rule, &self.policy) {
            self.overdue.push((self.now.mono.0 - UPTIME, what));
        }
    }

    /// Records that the application was restarted and is not protected now.
    fn look_for_unprotected(&mut self) {
        let now = self.now.mono.0 - UPTIME;
        let Some(since) = self.restarted.last().map(|at| now.saturating_sub(*at)) else {
            return;
        };
        let bake = self.policy.permit.slot.map(|slot| slot.bake);
        let is_refused = matches!(self.slots.told, SlotState::Halted(..));
        let has_slot = self.slots.claimed.is_some() && !is_refused;
        if bake.is_some_and(|bake| since < bake) && !has_slot {
            self.unprotected.push((now, "it has no slot"));
        }
        if self.policy.permit.drain.is_some() && self.is_unverified && self.status().serving {
            self.unprotected.push((now, "it is in its Services"));
        }
    }

    /// Records that another replica may act while the pod is out of its Services.
    fn look_for_drained(&mut self) {
        let may_others_act = self.policy.permit.slot.is_some() && self.slots.claimed.is_none();
        if !may_others_act || self.core.is_serving() {
            self.without_slot_since = None;
            return;
        }
        let now = self.now.mono;
        let since = *self.without_slot_since.get_or_insert(now);
        if now.since(since) > SLOT_OF_KILLED {
            self.drained_without_slot.push(now.0 - UPTIME);
        }
    }

    /// Lets time pass until this time of the scenario.
    pub(crate) fn run_until(&mut self, time: Duration) {
        self.run_to(moment(time));
    }

    fn run_to(&mut self, end: Moment) {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 100_000, "the core never becomes idle");
            self.obey();
            self.look_for_unprotected();
            self.look_for_drained();
            if self.is_at_rest() {
                self.look_for_overdue();
            }
            let nudge = self.nudges.map(|every| self.now.mono.after(every)).filter(|at| *at <= end);
            let next =
                self.answers.next().into_iter().chain(self.core.next_wakeup()).chain(nudge).min();
            let Some(next) = next else { break };
            if next > end {
                break;
            }
            self.set_clock(next.max(self.now.mono));
            if let Some((_, event)) = self.answers.pop(self.now.mono) {
                self.acting &= !matches!(event, Event::Acted(..));
                self.handle(event);
            } else {
                self.tick();
            }
        }
        self.set_clock(end);
    }

    /// Runs what is due. A status that is read just before must already report it as due.
    fn tick(&mut self) {
        let reported = self.status().rules[0].next_action_at;
        self.core.tick(self.now);
        let (before, is_late) =
            (self.log.len(), reported.is_some_and(|reported| reported > self.now.wall));
        self.obey();
        let done = self.log[before..].iter().filter(|(_, command)| is_late && is_work(command));
        self.reported_too_late.extend(done.cloned());
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_to(self.now.mono.after(time));
    }

    pub(crate) fn status(&self) -> Status {
        self.core.status(self.now)
    }

    /// All actions.
    pub(crate) fn acts(&self) -> impl Iterator<Item = (Duration, Act)> {
        self.log.iter().filter_map(|(at, command)| match command {
            Command::Act(act) if !act.is_preparation() => Some((*at, act.clone())),
            _ => None,
        })
    }

    /// The digest of the content on the world's disk, by the function that the core uses.
    pub(crate) fn digest_on_disk(&self) -> Option<Digest> {
        let all: Option<Vec<Snapshot>> = self.disks.iter().map(Disk::snapshot).collect();
        Some(snapshot::digest(all?.iter().map(Snapshot::digest)))
    }

    /// The digest of this content in the first volume.
    pub(crate) fn digest_of(&self, content: BTreeMap<String, String>) -> Option<Digest> {
        let disk = Disk { content: Some(content), ..self.disks[0].clone() };
        Some(snapshot::digest([disk.snapshot()?.digest()]))
    }

    fn set_clock(&mut self, mono: Moment) {
        self.now = Now { mono, wall: UnixTime(EPOCH + (mono.0 - UPTIME)) };
    }

    fn answer(&mut self, after: Duration, event: Event) {
        self.answers.plan(self.now.mono.after(after), event);
    }

    /// Carries out the commands of the core.
    fn obey(&mut self) {
        let mut commands = VecDeque::new();
        while let Some(command) = self.core.next_command() {
            commands.push_back(command);
        }
        assert!(self.log.len() < 20_000, "the core never becomes idle");
        for command in commands {
            self.log.push((self.now.mono.0 - UPTIME, command.clone()));
            if !is_preparation(&command) {
                self.record.command(&command);
            }
            match command {
                Command::Report(_, Fact::Applied(..)) => self.is_unverified = false,
                Command::Scan(rule, volumes) => {
                    let scan = |volume: VolumeId| (volume, self.disks[volume.0].scan());
                    let scans = volumes.into_iter().map(scan).collect();
                    self.answer(self.scan_takes, Event::Scanned(rule, scans));
                }
                Command::Resync(_) if self.resyncs_hang => {}
                Command::Resync(volumes) => {
                    for volume in volumes {
                        let seen = self.disks[volume.0].snapshot().map(|s| s.generation);
                        let begun = self.now.mono;
                        self.answer(Duration::ZERO, Event::Resynced(volume, begun, seen));
                    }
                }
                Command::Preflight(rule) => {
                    let problems = self.problems.clone();
                    self.answer(self.preflight_takes, Event::Preflight(rule, problems));
                }
                Command::Inspect(rule) => {
                    self.answer(Duration::ZERO, Event::Inspected(rule, self.inspect()));
                }
                Command::Check(rule, digest) => {
                    // It replaces the previous check.
                    self.abort_check();
                    self.begin_check(digest);
                    let checked = if self.digest_on_disk() == Some(digest) {
                        self.application.checks.clone()
                    } else {
                        Checked::Moved
                    };
                    if checked == Checked::Passed {
                        self.passed.insert(digest);
                    } else {
                        self.passed.remove(&digest);
                    }
                    self.answer(self.check_takes, Event::Checked(rule, digest, checked));
                }
                Command::Probe(rule, probe @ Probe::PauseFile) => {
                    let by = self.is_paused.then(|| Reason::new("paused"));
                    self.answer(Duration::ZERO, Event::Probed(rule, probe, by));
                }
                Command::ReadPublished(rule) => {
                    let current = self.shelf.current.map(|(digest, _)| digest);
                    self.answer(Duration::ZERO, Event::FoundPublished(rule, current));
                }
                Command::Expiry(rule, digest) => {
                    self.answer(Duration::ZERO, Event::Expires(rule, digest, None));
                }
                Command::Publish(rule, digest) => {
                    let is_there = self.shelf.current.is_some_and(|(there, _)| there == digest);
                    // The publication of content that is already current is only completed.
                    self.acted_unchecked |= self.policy.intake.has_checks
                        && !is_there
                        && !self.passed.contains(&digest);
                    let published = if is_there || self.digest_on_disk() == Some(digest) {
                        self.shelf.publish(digest, self.now.mono)
                    } else {
                        Publication::Moved
                    };
                    self.answer(self.publish_takes, Event::Published(rule, published));
                }
                Command::RollBack(rule, back) => {
                    let published = self.shelf.roll_back(&back, self.now.mono);
                    self.answer(self.publish_takes, Event::Published(rule, published));
                }
                Command::Approve(_, digest, evidence) => self.shelf.approve(digest, evidence),
                Command::Act(act) => self.obey_act(&act),
                Command::Verify(rule) => {
                    let verified = self.verify();
                    self.answer(self.verify_takes, Event::Verified(rule, verified));
                }
                Command::Persist(_, memory) => self.persisted = Some(*memory),
                Command::Remember(_, digest) => self.remember(digest),
                Command::EndPod(rule, before) => match self.why_not_end(rule, before) {
                    Some(why) => {
                        let refused = Acted::Refused(Reason::new(why));
                        self.answer(Duration::ZERO, Event::Acted(rule, refused));
                    }
                    None => return self.end_pod(),
                },
                Command::RenewWatches | Command::Report(..) => {}
                about_slots => self.obey_about_slots(&about_slots),
            }
            self.executed += 1;
            if self.kills.front() == Some(&self.executed) {
                self.kills.pop_front();
                self.executed = 0;
                self.set_clock(self.now.mono.after(DOWN));
                return self.restart(self.persisted.clone());
            }
        }
    }
}

impl World {
    /// Carries out a command about slots.
    fn obey_about_slots(&mut self, command: &Command) {
        if matches!(command, Command::Claim(..) | Command::Release(_)) {
            // As the loop does: nothing is said any more of the claim before.
            self.answers.retain(|answer| !matches!(answer, Event::Slot(..)));
        }
        match *command {
            Command::Claim(rule, digest, intent) => {
                let keeps = intent == Intent::Keep && self.slots.claimed.is_some();
                let state = self.slots.claimed(digest, intent);
                // Any slot can be kept.
                if keeps && matches!(self.slots.told, SlotState::Held { .. }) {
                    return;
                }
                self.slots.told = SlotState::Free;
                self.answer(Duration::ZERO, Event::Slot(rule, state));
            }
            Command::Release(_) => {
                (self.slots.claimed, self.slots.told) = (None, SlotState::Free);
            }
            Command::LookAtPod(rule, number, is) => {
                let look = match is {
                    PodIs::Serving => &self.slots.readiness,
                    PodIs::Listed => &self.services.0,
                    PodIs::OutOfServices => &self.services.1,
                };
                let look = look.clone().unwrap_or(PodLook::Yes);
                self.answer(Duration::ZERO, Event::PodLooked(rule, number, look));
            }
            Command::Halt(rule, digest, _) => {
                self.failed.insert(digest);
                self.answer(self.halt_takes, Event::HaltWritten(rule, digest));
            }
            Command::TryHalted(rule, digest) => {
                self.slots.tried = Some(digest);
                if self.slots.claimed == Some(digest) {
                    let state = self.slots.claimed(digest, Intent::Act);
                    self.answer(Duration::ZERO, Event::Slot(rule, state));
                }
            }
            Command::ClearHalt(_, digest) => {
                self.failed.remove(&digest);
                self.slots.halted.retain(|one| *one != digest);
                self.slots.cleared.push(digest);
            }
            _ => {}
        }
    }

    fn obey_act(&mut self, act: &Act) {
        if act.is_preparation() {
            let acted = self.prepare(act);
            return self.answer(Duration::ZERO, Event::Acted(act.rule, acted));
        }
        // As the loop does: what preceded it took too long.
        if act.is_late(self.now.mono) {
            let acted = Acted::Refused(Reason::new("the slot has expired"));
            return self.answer(Duration::ZERO, Event::Acted(act.rule, acted));
        }
        self.actions_overlapped |= self.acting;
        let has_slot = matches!(self.slots.told, SlotState::Held { .. });
        if self.policy.permit.slot.is_some() && act.extent == Extent::Send && !has_slot {
            self.acted_without_slot.push(self.now.mono.0 - UPTIME);
            let is_of_killed =
                self.killed_at.is_some_and(|at| self.now.mono.since(at) < SLOT_OF_KILLED);
            if self.slots.claimed.is_none() && !is_of_killed {
                self.acted_unclaimed.push(self.now.mono.0 - UPTIME);
            }
        }
        // Published content may be acted on, even after a roll-back to it.
        if self.policy.application.publishes {
            self.shelf.acted_on(act.digest);
        } else if self.policy.intake.has_checks {
            self.acted_unchecked |= !self.passed.contains(&act.digest);
        }
        self.acting = true;
        let mut acted = self.act(act);
        if let Acted::Sent(to) | Acted::Fresh(to) | Acted::Restarted(to) = &mut acted {
            to.are_containers = self.is_container;
        }
        self.answer(self.act_takes, Event::Acted(act.rule, acted));
    }

    /// Why podnudge does not end, if so. It happens once.
    fn why_not_end(&mut self, rule: RuleId, before: Option<Moment>) -> Option<&'static str> {
        match self.pod {
            Pod::Stopped if before.is_some() => {
                self.pod = Pod::Restarts;
                let state = SlotState::Lost(Reason::new("it has expired"));
                self.answer(Duration::ZERO, Event::Slot(rule, state));
                Some("the slot has expired")
            }
            Pod::Unsaved => {
                self.pod = Pod::Refuses;
                Some("no space left")
            }
            _ => None,
        }
    }

    /// podnudge ends, and the kubelet restarts it, and with a rule all other containers.
    fn end_pod(&mut self) {
        self.set_clock(self.now.mono.after(DOWN));
        if self.pod != Pod::HasNoRule {
            self.restarted.push(self.now.mono.0 - UPTIME);
            self.application_restarts();
        }
        if self.pod == Pod::RestartsUnseen {
            self.application.started = None;
        }
        self.restart(self.persisted.clone());
    }

    /// The answer to an action of a rule that restarts the pod.
    fn act_on_pod(&self, act: &Act) -> Acted {
        let started = self.application.started.unwrap_or_default();
        let is_seen = self.pod != Pod::RestartsUnseen;
        match &self.application.acts {
            absent @ Acted::Absent(_) if is_seen => absent.clone(),
            _ if is_seen && act.fresh_after.is_some_and(|moment| started > moment) => {
                Acted::Fresh(app(41))
            }
            _ if self.pod == Pod::Refuses => Acted::Refused(Reason::new("no space left")),
            _ if act.extent == Extent::Prepare => Acted::Ready,
            _ if act.extent == Extent::Send => Acted::EndsPod,
            _ if is_seen => Acted::NotRestarted("41 (app)".to_owned()),
            _ => Acted::Unseen,
        }
    }

    /// What the preparation of an action finds. Nothing is sent.
    fn prepare(&self, act: &Act) -> Acted {
        if self.policy.rollout.pod_exit_code.is_some() {
            return self.act_on_pod(act);
        }
        let started = self.application.started.unwrap_or_default();
        match &self.application.acts {
            Acted::Absent(_) if self.application.vanishes => Acted::Ready,
            Acted::Sent(names) | Acted::Restarted(names) => {
                let is_fresh = act.fresh_after.is_some_and(|moment| started > moment);
                if is_fresh { Acted::Fresh(names.clone()) } else { Acted::Ready }
            }
            Acted::Accepted(_)
            | Acted::Failed(_)
            | Acted::Declined(_)
            | Acted::Evicted
            | Acted::Postponed(..)
            | Acted::Unanswered(..) => Acted::Ready,
            acted => acted.clone(),
        }
    }

    fn inspect(&self) -> Inspection {
        if let Some(inspected) = self.application.inspected {
            return inspected;
        }
        match self.application.started {
            None => Inspection::Unknown,
            Some(_) if matches!(self.application.acts, Acted::Absent(_)) => Inspection::Absent,
            Some(start) => Inspection::Running { first: start, last: start },
        }
    }

    /// What a verification finds.
    fn verify(&mut self) -> Verified {
        let verified = self.application.verifies.clone();
        let runs = self.application.runs;
        if self.deadly.is_some() && runs == self.deadly {
            // The kubelet starts it again.
            self.application_restarts();
            return Verified { alive: Alive::Gone(Reason::new("it ended")), ..verified };
        }
        if self.unproven.is_some() {
            let pending = Proof::Pending(Reason::new("503"));
            let proof = if runs == self.unproven { pending } else { Proof::Given };
            return Verified { proof, ..verified };
        }
        verified
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The reaction of the application to an action.
    fn act(&mut self, act: &Act) -> Acted {
        if self.policy.rollout.pod_exit_code.is_some() {
            return self.act_on_pod(act);
        }
        if act.extent == Extent::LookForRestart {
            let is_fresh = |started| act.fresh_after.is_some_and(|moment| started > moment);
            let is_seen = self.application.started.is_some_and(is_fresh);
            return if is_seen { Acted::Fresh(app(41)) } else { Acted::Unseen };
        }
        let acted = match self.application.acts.clone() {
            // A target that can be signalled can be restarted.
            Acted::Sent(names) | Acted::Restarted(names)
                if act.restart || self.policy.rollout.is_restart =>
            {
                let started = self.application.started.unwrap_or_default();
                if act.fresh_after.is_some_and(|moment| started > moment) {
                    return Acted::Fresh(names);
                }
                self.restarted.push(self.now.mono.0 - UPTIME);
                self.is_unverified = true;
                self.application_restarts();
                return Acted::Restarted(names);
            }
            acted => acted,
        };
        if self.application.touches {
            self.put(0, self.disks[0].content.clone());
            self.answer(Duration::ZERO, Event::Hint(VolumeId(0), 0));
        }
        if !self.application.is_honest || !matches!(acted, Acted::Sent(_)) {
            return acted;
        }
        let started = self.application.started.unwrap_or_default();
        if act.fresh_after.is_some_and(|moment| started > moment) {
            return Acted::Fresh(app(41));
        }
        self.application.runs = self.readable();
        if matches!(self.application.verifies.alive, Alive::Gone(_)) {
            self.application.started = Some(self.now.mono);
        }
        acted
    }
}

/// The application's process.
pub(crate) fn app(pid: u64) -> Targets {
    let text = format!("{pid} (app)");
    let pid = i32::try_from(pid).ok();
    let names = vec!["app".to_owned()];
    let (ancestors, containers) = (Vec::new(), Vec::new());
    Targets { names, ancestors, containers, pid, text, are_containers: false }
}

/// Whether a command only prepares an action.
pub(crate) fn is_preparation(command: &Command) -> bool {
    matches!(command, Command::Act(act) if act.is_preparation())
}

/// Whether a command is a check, a publication, a roll-back or an action.
pub(crate) fn is_work(command: &Command) -> bool {
    matches!(
        command,
        Command::Check(..) | Command::Publish(..) | Command::RollBack(..) | Command::Act(_)
    )
}

fn core(
    policy: &Policy,
    replica: &Replica,
    remembered: Option<Memory>,
    shelf: &Shelf,
    interrupted: Vec<Interrupted>,
    pod: &str,
    now: Now,
) -> Core {
    let published = if policy.application.publishes { shelf.found() } else { Published::default() };
    let pod = Some(pod.to_owned());
    let found = Found { memory: remembered, published, interrupted, pod, ..Found::default() };
    let rounds = Intervals { resync: Duration::from_secs(30), poll: Duration::from_secs(5) };
    Core::new(vec![(policy.clone(), found)], replica, rounds, now)
}

impl Disk {
    pub(crate) fn scan(&self) -> Scan {
        match (&self.unreadable, self.snapshot()) {
            (Some(reason), _) => Scan::Unreadable(reason.clone()),
            (None, Some(snapshot)) => Scan::Present(snapshot),
            (None, None) => Scan::Absent,
        }
    }

    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let keys = self.content.as_ref()?.iter().filter(|(key, _)| *key != PAUSE_KEY);
        let keys = keys.map(|(key, value)| {
            let hash: [u8; 32] = Sha256::digest(value).into();
            (Key(key.clone().into_bytes()), Digest(hash))
        });
        Some(Snapshot {
            generation: Generation(format!("..generation_{}", self.generation)),
            committed: self.committed,
            keys: keys.collect(),
            pauses: self.content.as_ref()?.contains_key(PAUSE_KEY),
        })
    }
}

/// From now on, all volumes of the world are watched by inotify.
pub(crate) fn watched_by_inotify(world: &mut World) {
    for volume in 0..world.disks.len() {
        world.tell(Event::Watched(VolumeId(volume), Watch::Inotify));
    }
}
