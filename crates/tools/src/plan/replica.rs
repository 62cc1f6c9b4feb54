//! One replica: the real core, whose commands the models answer.
//!
//! The commands of the core are answered at once, except for slots. The checks pass, and the application
//! accepts any content: the plan shows what a good change costs.

use std::collections::VecDeque;
use std::time::Duration;

use super::application::{Application, not_started};
use super::content::{digest, snapshot};
use super::kubelet::Syncs;
use super::overlap::Span;
use super::random::Random;
use super::requests::Requests;
use super::scenario::Scenario;
use super::server::{Server, Told};
use super::slots::SharedSlots;
use crate::plan_options::Restarts;
use podnudge_core::agenda::Agenda;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::command::{Act, Command, Extent, PodIs};
use podnudge_core::event::{
    Acted, Checked, Current, Event, Found, PodLook, Publication, Published, RuleId, Scan, Standing,
    Targets, VolumeId, Watch,
};
use podnudge_core::jitter::Replica as Identity;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;
use podnudge_core::{Core, Intervals, TargetName};

/// When a run begins. The application and the first content are older.
pub(super) const BEGIN: Moment = Moment(Duration::from_hours(24));
/// Nothing in the model needs a resync.
const NEVER: Duration = Duration::from_hours(24 * 365);
/// The only rule.
const RULE: RuleId = RuleId(0);

/// Something that happens at a known time.
#[derive(Debug)]
enum Due {
    Event(Event),
    /// The kubelet writes the volume.
    Sync,
    /// The application starts.
    Start,
    /// The API server tells something about a Lease.
    Told(Told),
}

/// One simulated replica.
#[derive(Debug)]
pub(super) struct Replica<'a> {
    scenario: &'a Scenario,
    /// When the content changes.
    edits: &'a [Moment],
    core: Core,
    random: Random,
    syncs: Syncs,
    due: Agenda<Due>,
    /// The wall clock at the begin.
    epoch: UnixTime,
    /// The version on disk: 0 before the first change.
    disk: usize,
    committed: UnixTime,
    /// The version in the publish directory.
    published: usize,
    application: Application<'a>,
    slots: Option<SharedSlots>,
    has_last: Option<Moment>,
    /// The requests about the replica's own pod.
    requests: Requests,
    /// The time of the last step.
    clock: Moment,
}

/// What happened to one replica.
#[derive(Debug)]
pub(super) struct Record {
    /// When it could not answer requests, since the first change. Spans may overlap.
    pub(super) downs: Vec<Span>,
    /// How long requests were sent to it that it could not answer.
    pub(super) failing: Duration,
    /// When its application ran the last content, since the last change.
    pub(super) has_last: Option<Duration>,
    /// The requests that are not about a slot.
    pub(super) requests: Requests,
}

impl<'a> Replica<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        edits: &'a [Moment],
        (run, number): (u32, u32),
        epoch: UnixTime,
    ) -> Self {
        let mut random = Random::new(scenario.seed, run, number);
        // Two pods of a Deployment have different names in each run.
        let identity = Identity {
            identity: format!("{:016x}", random.bits()),
            ordinal: Some(number),
            seed: random.bits(),
        };
        let policy = scenario.policy.clone();
        let long_ago = Moment(BEGIN.0 / 2);
        let current =
            Current { digest: digest(scenario, 0), at: long_ago, standing: Standing::Good };
        let published = Published {
            current: policy.application.publishes.then_some(current),
            good: policy.application.publishes.then_some(current.digest),
            ..Published::default()
        };
        let found = Found { published, ..Found::default() };
        let slots = scenario.slots.filter(|_| policy.permit.slot.is_some());
        let slots = slots.map(|slots| SharedSlots::new(slots, number, &mut random, BEGIN));
        let intervals = Intervals { resync: NEVER, poll: NEVER };
        let now = Now { mono: BEGIN, wall: epoch };
        let mut replica = Self {
            syncs: Syncs::new(scenario.sync_period, BEGIN, &mut random),
            core: Core::new(vec![(policy, found)], &identity, intervals, now),
            scenario,
            edits,
            random,
            due: Agenda::default(),
            epoch,
            disk: 0,
            committed: UnixTime(epoch.0.saturating_sub(BEGIN.0)),
            published: 0,
            application: Application::new(scenario, long_ago),
            slots,
            has_last: None,
            requests: Requests::default(),
            clock: BEGIN,
        };
        for volume in 0..replica.scenario.policy.intake.volumes.len() {
            let watched = Event::Watched(VolumeId(volume), Watch::Inotify);
            replica.due.plan(BEGIN, Due::Event(watched));
        }
        replica.plan_sync(BEGIN);
        replica
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Moment> {
        let slots = self.slots.as_ref().and_then(|slots| slots.next(self.clock));
        let all = [self.due.next(), slots, self.core.next_wakeup()];
        all.into_iter().flatten().min().map(|at| at.max(self.clock))
    }

    /// Lets happen what is due at `at`, the result of [`Self::next`].
    pub(super) fn step(&mut self, at: Moment, server: Option<&mut Server>) {
        self.clock = at;
        let now = self.now(at);
        match self.due.pop(at).map(|(_, due)| due) {
            Some(Due::Event(event)) => self.core.handle(now, event),
            Some(Due::Sync) => self.sync(now),
            Some(Due::Start) => self.record_version(self.readable(), self.application.ready()),
            Some(Due::Told(told)) => {
                self.slots.iter_mut().for_each(|slots| slots.told(now, &told));
            }
            None => self.core.tick(now),
        }
        self.obey_all(now);
        if let Some(server) = server {
            while let Some(state) = self.slots.as_mut().and_then(|slots| slots.change(now)) {
                self.core.handle(now, Event::Slot(RULE, state));
                self.obey_all(now);
            }
            self.slots.iter_mut().for_each(|slots| slots.send(now, server));
        }
        if self.scenario.policy.permit.drain.is_some() {
            self.application.serves(at, self.core.is_serving());
        }
    }

    /// The API server tells this at that time.
    pub(super) fn tell(&mut self, at: Moment, told: Told) {
        self.due.plan(at, Due::Told(told));
    }

    fn obey_all(&mut self, now: Now) {
        let mut commands = VecDeque::new();
        while let Some(command) = self.core.next_command() {
            commands.push_back(command);
        }
        for command in commands {
            self.obey(now, command);
        }
    }

    /// Ends the simulation.
    pub(super) fn end(self, at: Moment) -> Record {
        let first = self.edits.first().copied().unwrap_or(BEGIN);
        let last = self.edits.last().copied().unwrap_or(BEGIN);
        let has_last = self.has_last.map(|at| at.since(last));
        let (downs, failing) = self.application.end(first, at);
        Record { downs, failing, has_last, requests: self.requests }
    }

    fn now(&self, at: Moment) -> Now {
        Now { mono: at, wall: UnixTime(self.epoch.0.saturating_add(at.since(BEGIN))) }
    }

    fn answer(&mut self, now: Now, event: Event) {
        self.due.plan(now.mono, Due::Event(event));
    }

    /// Finds the time at which the kubelet writes the next change.
    fn plan_sync(&mut self, after: Moment) {
        let next = self.edits.iter().find(|edit| **edit > after).copied();
        if let Some(edit) = next {
            let at = self.syncs.after(edit, &mut self.random);
            self.due.plan(at, Due::Sync);
        }
    }

    fn sync(&mut self, now: Now) {
        self.disk = self.edits.iter().filter(|edit| **edit <= now.mono).count();
        self.committed = now.wall;
        self.plan_sync(now.mono);
        self.core.handle(now, Event::Hint(VolumeId(0), 1));
    }

    /// The version that the application reads.
    fn readable(&self) -> usize {
        if self.scenario.policy.application.publishes { self.published } else { self.disk }
    }

    /// The application runs this version from then on.
    fn record_version(&mut self, version: usize, at: Moment) {
        if version == self.edits.len() {
            self.has_last.get_or_insert(at);
        }
    }

    fn obey(&mut self, now: Now, command: Command) {
        let event = match command {
            Command::Scan(rule, volumes) => {
                let scan = |volume: VolumeId| {
                    (volume, Scan::Present(snapshot(volume, self.disk, self.committed)))
                };
                Event::Scanned(rule, volumes.into_iter().map(scan).collect())
            }
            Command::Preflight(rule) => Event::Preflight(rule, Vec::new()),
            Command::Inspect(rule) => Event::Inspected(rule, self.application.inspect(now.mono)),
            Command::Check(rule, digest) => {
                let is_there = self.digest_on_disk() == digest;
                let checked = if is_there { Checked::Passed } else { Checked::Moved };
                Event::Checked(rule, digest, checked)
            }
            Command::Expiry(rule, digest) => Event::Expires(rule, digest, None),
            Command::Probe(rule, probe) => Event::Probed(rule, probe, None),
            Command::Publish(rule, digest) => {
                let is_there = self.digest_on_disk() == digest;
                if is_there {
                    self.published = self.disk;
                }
                let done = if is_there { Publication::Done } else { Publication::Moved };
                Event::Published(rule, done)
            }
            Command::RollBack(rule, _) => Event::Published(rule, Publication::Done),
            Command::ReadPublished(rule) => {
                Event::FoundPublished(rule, Some(digest(self.scenario, self.published)))
            }
            Command::Act(act) => {
                let acted = self.act(now.mono, &act);
                // The action takes as long as it interrupts the application.
                let is_done = matches!(acted, Acted::Accepted(_));
                let takes = if is_done { self.scenario.downtime } else { Duration::ZERO };
                self.due.plan(now.mono.after(takes), Due::Event(Event::Acted(act.rule, acted)));
                return;
            }
            Command::Verify(rule) => Event::Verified(rule, self.application.verify(now.mono)),
            Command::LookAtPod(rule, number, is) => {
                // Its Pod, and the EndpointSlices of each Service, if they fit into one answer.
                let services =
                    self.scenario.policy.permit.drain.as_ref().map(|drain| drain.services.len());
                let services = u32::try_from(services.unwrap_or(0)).unwrap_or(u32::MAX);
                self.requests.add(now.mono, services.saturating_add(1));
                let (is_so, why) = match is {
                    PodIs::Listed => (true, ""),
                    PodIs::Serving => {
                        (self.application.is_pod_ready(now.mono), "the application starts")
                    }
                    PodIs::OutOfServices => {
                        (self.application.has_left(now.mono), "the endpoints follow")
                    }
                };
                let look = if is_so { PodLook::Yes } else { PodLook::No(Reason::new(why)) };
                Event::PodLooked(rule, number, look)
            }
            Command::Claim(_, digest, intent) => {
                self.slots.iter_mut().for_each(|slots| slots.claim(now, digest, intent));
                return;
            }
            Command::Release(_) => {
                self.slots.iter_mut().for_each(SharedSlots::release);
                return;
            }
            Command::Resync(_)
            | Command::RenewWatches
            | Command::Remember(..)
            | Command::Approve(..)
            | Command::Persist(..)
            | Command::EndPod(..)
            | Command::Halt(..)
            | Command::TryHalted(..)
            | Command::ClearHalt(..)
            | Command::Report(..) => return,
        };
        self.answer(now, event);
    }

    fn act(&mut self, now: Moment, act: &Act) -> Acted {
        let are_containers = self.scenario.restarts == Restarts::Kubelet;
        let targets = || Targets {
            names: vec!["app".to_owned()],
            ancestors: Vec::new(),
            containers: Vec::new(),
            pid: None,
            text: "app".to_owned(),
            are_containers,
        };
        if self.scenario.policy.target != TargetName::None {
            if !self.application.runs(now) {
                return Acted::Absent(not_started());
            }
            if act.fresh_after.is_some_and(|moment| self.application.started_after(moment)) {
                return Acted::Fresh(targets());
            }
        }
        let policy = &self.scenario.policy;
        match act.extent {
            Extent::Prepare => Acted::Ready,
            Extent::LookForFresh | Extent::LookForRestart => Acted::Absent(not_started()),
            Extent::Send
                if act.restart
                    || policy.rollout.is_restart
                    || policy.rollout.evict_wait.is_some() =>
            {
                let started = self.application.restart(now);
                self.due.plan(started, Due::Start);
                Acted::Restarted(targets())
            }
            Extent::Send => {
                let until = now.after(self.scenario.downtime);
                self.application.interrupt(now, until);
                self.record_version(self.readable(), until);
                Acted::Accepted("200".to_owned())
            }
        }
    }

    fn digest_on_disk(&self) -> Digest {
        digest(self.scenario, self.disk)
    }
}
