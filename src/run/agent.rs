//! The loop itself: events to the core, and what the core asks for to whoever does it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::clock;
use super::connections::{Connections, accept};
use super::endings::Endings;
use super::lanes::Lane;
use crate::action;
use crate::admin::server;
use crate::checks::{self, Begun};
use crate::clock::Moment;
use crate::config::{Config, Rule};
use crate::core::event::{Acted, Command, Event, Published, RuleId, Verified, VolumeId};
use crate::core::fact::Fact;
use crate::core::jitter::Replica;
use crate::core::{Core, Policy, Rounds};
use crate::os_signals::{OsSignal, OsSignals};
use crate::pause;
use crate::process::{self, Context};
use crate::publish;
use crate::reason::Reason;
use crate::report;
use crate::shown;
use crate::state::StateDir;
use crate::verify::{self, Baseline};
use crate::volume::scan::{self, ReadError, Reading};
use crate::volume::snapshot::{Digest, Generation};
use crate::volume::watch::Watching;

/// How many questions of connections may wait.
const ASKS: usize = 8;

/// What a task found.
pub(super) enum Done {
    Scanned(RuleId, Vec<(VolumeId, Result<Reading, ReadError>)>),
    Audited(Moment, Vec<(VolumeId, Result<Option<Generation>, ReadError>)>),
    CheckBegun(RuleId, Digest, Begun),
    Acted(RuleId, Acted, Baseline),
    Verified(RuleId, Verified, Baseline),
    Told(Event),
    Written(Result<(), (RuleId, Reason)>),
    Nothing,
}

pub(super) struct Agent {
    pub(super) config: Config,
    rules: Vec<Arc<Rule>>,
    /// The rule and the path of each volume.
    pub(super) volumes: Vec<(RuleId, PathBuf)>,
    pub(super) core: Core,
    pub(super) watching: Watching,
    context: Arc<Context>,
    state: Option<StateDir>,
    /// Volumes that the kubelet wrote, as far as the last look knows. They are local and hold at
    /// most 1 MiB: to read one takes less time than to hand it to another thread.
    pub(super) kubelet_volumes: BTreeSet<VolumeId>,
    baselines: BTreeMap<RuleId, Baseline>,
    /// What programs were asked about last: the digest that counts, and the one over all of it.
    asked: BTreeMap<RuleId, (Digest, Digest)>,
    /// What people are to be told when everything else is done.
    untold: Vec<(RuleId, Fact)>,
    pub(super) tasks: JoinSet<Done>,
    pub(super) reading: Lane,
    writing: Lane,
    endings: Endings,
    connections: Connections,
}

impl Agent {
    pub(super) fn new(
        config: Config,
        state: Option<StateDir>,
        published: &BTreeMap<RuleId, Published>,
        replica: &Replica,
    ) -> Self {
        let mut volumes = Vec::new();
        let mut policies = Vec::new();
        for (n, rule) in config.rules.iter().enumerate() {
            policies.push(Policy::new(rule, VolumeId(volumes.len())));
            volumes.extend(rule.watch.iter().map(|path| (RuleId(n), path.clone())));
        }
        let names = config.rules.iter().map(|rule| rule.name.as_str());
        let (remembered, problems) =
            state.as_ref().map(|state| state.load(names)).unwrap_or_default();
        for problem in problems {
            warn!(event = "state-unreadable", hint = problem.hint, "{}", problem.message);
        }
        let rounds = Rounds { audit: config.agent.audit, poll: config.agent.poll };
        Self {
            rules: config.rules.iter().cloned().map(Arc::new).collect(),
            core: Core::new(policies, (&remembered, published), replica, rounds, clock::now()),
            watching: Watching::new(config.agent.watch, volumes.len()),
            context: Arc::new(Context::new()),
            config,
            volumes,
            state,
            kubelet_volumes: BTreeSet::new(),
            baselines: BTreeMap::new(),
            asked: BTreeMap::new(),
            untold: Vec::new(),
            tasks: JoinSet::new(),
            reading: Lane::default(),
            writing: Lane::default(),
            endings: Endings::default(),
            connections: Connections::default(),
        }
    }

    pub(super) async fn run(&mut self, mut signals: OsSignals, listener: Option<TcpListener>) {
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        report::started(&self.config, address);
        let hints = self.watching.hints();
        let (asking, mut asks) = mpsc::channel(ASKS);
        let mut end_at: Option<Moment> = None;
        loop {
            self.obey_all();
            if self.core.is_stopped() && self.tasks.is_empty() {
                return;
            }
            let wakeup = self.core.next_wakeup().into_iter().chain(end_at).min();
            tokio::select! {
                // In this order when several are ready: to end goes before to begin.
                biased;
                signal = signals.next() => match signal {
                    OsSignal::Stop if end_at.is_some() => {
                        info!(event = "ending-now", "told a second time to end");
                        return;
                    }
                    OsSignal::Stop => {
                        info!(event = "ending", "told to end");
                        end_at = Some(clock::now().mono.after(self.config.agent.grace));
                        self.tell(Event::Stop);
                    }
                    OsSignal::Force => self.tell(Event::Force(None)),
                    OsSignal::DumpStatus => self.dump_status(),
                },
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.done(done),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                rule = self.endings.next() => self.tell(Event::Ended(rule)),
                pending = hints.next() => {
                    if pending.all {
                        self.tell(Event::TouchedAll);
                    }
                    for volume in pending.volumes {
                        self.tell(Event::Touched(volume));
                    }
                }
                Some(ask) = asks.recv() => self.answer(ask),
                (stream, peer) = accept(listener.as_ref()) => {
                    let reload = self.config.agent.reload.clone();
                    self.connections.serve(server::connection(stream, peer, asking.clone(), reload));
                }
                () = self.connections.ended() => {}
                () = clock::sleep_until(wakeup) => {
                    if end_at.is_some_and(|end| clock::now().mono >= end) {
                        warn!(event = "grace-over", "a running action was left behind");
                        return;
                    }
                    self.core.tick(clock::now());
                }
            }
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.core.handle(clock::now(), event);
    }

    /// Does all that the core asks for. What it tells people comes last: to write a line takes
    /// longer than to send a signal.
    fn obey_all(&mut self) {
        while let Some(command) = self.core.next_command() {
            self.obey(command);
        }
        for (rule, fact) in std::mem::take(&mut self.untold) {
            if let Some(config) = self.rule(rule) {
                report::fact(&config.name, &fact, |volume| self.path_for_people(volume));
            }
        }
    }

    /// Does what the core asks for, or has it done.
    fn obey(&mut self, command: Command) {
        match command {
            Command::Scan(rule, volumes) => {
                let Some(config) = self.rule(rule) else { return };
                let volumes = self.paths(volumes);
                let is_quick = volumes.iter().all(|(id, _)| self.kubelet_volumes.contains(id));
                let scan = move || {
                    let read =
                        |(id, path): (VolumeId, PathBuf)| (id, scan::read(&path, &config.keys));
                    Done::Scanned(rule, volumes.into_iter().map(read).collect())
                };
                if is_quick {
                    self.done(scan());
                } else {
                    self.reading.take(&mut self.tasks, scan);
                }
            }
            Command::Audit(volumes) => self.audit(volumes),
            Command::Inspect(rule) => {
                let Some(config) = self.rule(rule) else { return };
                self.done(Done::Told(Event::Inspected(
                    rule,
                    process::inspect(&self.context, &config),
                )));
            }
            Command::Check(rule, digest) => {
                let work_dir = self.config.agent.work_dir.clone();
                let now = clock::now().wall;
                self.begin_reading(rule, move |config| {
                    let begun = checks::begin(config, digest, &work_dir, now);
                    Done::CheckBegun(rule, digest, begun)
                });
            }
            Command::LookForPause(rule) => {
                let Some(config) = self.rule(rule) else { return };
                let by = config.hold.pause_file.as_deref().and_then(pause::by_file);
                self.done(Done::Told(Event::Paused(rule, by)));
            }
            Command::Expiry(rule, digest) => {
                let now = clock::now().wall;
                self.begin_reading(rule, move |config| {
                    Done::Told(Event::Expires(rule, checks::expiry(config, digest, now)))
                });
            }
            Command::Publish(rule, digest) => {
                let now = clock::now().wall;
                let asked = self.asked.get(&rule).filter(|(asked, _)| *asked == digest);
                let whole = asked.map(|(_, whole)| *whole);
                self.begin_writing(rule, move |config| {
                    let publication = publish::publish(config, digest, whole, now);
                    Done::Told(Event::Published(rule, publication))
                });
            }
            Command::RollBack(rule, back) => self.begin_writing(rule, move |config| {
                Done::Told(Event::Published(rule, publish::roll_back(config, back)))
            }),
            Command::Approve(rule, digest) => self.begin_writing(rule, move |config| {
                Done::Written(publish::approve(config, digest).map_err(|reason| (rule, reason)))
            }),
            Command::Act(act) => {
                let Some(config) = self.rule(act.rule) else { return };
                let context = Arc::clone(&self.context);
                let last = self.baselines.get(&act.rule).filter(|_| act.attempt > 1);
                let last = last.cloned().unwrap_or_default();
                self.begin(async move {
                    let (acted, baseline) = action::act(&context, &config, &act, last).await;
                    Done::Acted(act.rule, acted, baseline)
                });
            }
            Command::Verify(rule) => {
                let Some(config) = self.rule(rule) else { return };
                let baseline = self.baselines.get(&rule).cloned().unwrap_or_default();
                let context = Arc::clone(&self.context);
                self.begin(async move {
                    let (verified, baseline) = verify::verify(&context, &config, baseline).await;
                    Done::Verified(rule, verified, baseline)
                });
            }
            Command::Persist(rule, memory) => {
                let Some(state) = self.state.clone() else { return };
                self.begin_writing(rule, move |config| {
                    let written = state.save(&config.name, &memory);
                    Done::Written(written.map_err(|reason| (rule, reason)))
                });
            }
            Command::Report(rule, fact) => self.untold.push((rule, fact)),
        }
    }

    /// Begins a task right here; what has to wait for somebody goes on beside the loop. A signal
    /// waits for nobody, and is sent without a detour.
    fn begin(&mut self, task: impl Future<Output = Done> + Send + 'static) {
        // One kind of task for all of them: each kind costs some KiB of the binary.
        let mut task: Pin<Box<dyn Future<Output = Done> + Send>> = Box::pin(task);
        match task.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => self.done(done),
            Poll::Pending => drop(self.tasks.spawn(task)),
        }
    }

    /// Begins something that reads volumes.
    fn begin_reading(&mut self, rule: RuleId, task: impl FnOnce(&Rule) -> Done + Send + 'static) {
        if let Some(config) = self.rule(rule) {
            self.reading.take(&mut self.tasks, move || task(&config));
        }
    }

    /// Begins something that writes what is published or remembered.
    fn begin_writing(&mut self, rule: RuleId, task: impl FnOnce(&Rule) -> Done + Send + 'static) {
        if let Some(config) = self.rule(rule) {
            self.writing.take(&mut self.tasks, move || task(&config));
        }
    }

    /// Takes what a task found.
    fn done(&mut self, done: Done) {
        match done {
            Done::Scanned(rule, readings) => self.scanned(rule, readings),
            Done::Audited(begun, seen) => {
                for (volume, generation) in seen {
                    match generation {
                        Ok(generation) => self.tell(Event::Audited(volume, begun, generation)),
                        Err(_) => self.tell(Event::AuditFailed(volume)),
                    }
                }
            }
            Done::CheckBegun(rule, _, Begun::Judged(checked)) => {
                self.tell(Event::Checked(rule, checked));
            }
            // Nobody waits for the answer any more, and the copy goes.
            Done::CheckBegun(_, _, Begun::Open(_)) if self.core.is_stopped() => {}
            Done::CheckBegun(rule, digest, Begun::Open(open)) => {
                let Some(config) = self.rule(rule) else { return };
                if let Some(whole) = open.whole() {
                    self.asked.insert(rule, (digest, whole));
                }
                self.begin(async move {
                    let checked = checks::ask(&config, digest, open).await;
                    Done::Told(Event::Checked(rule, checked))
                });
            }
            Done::Acted(rule, acted, baseline) => {
                self.endings.wait_for(rule, baseline.endings());
                // Before anybody waited for it.
                let has_ended = baseline.has_ended();
                self.baselines.insert(rule, baseline);
                self.tell(Event::Acted(rule, acted));
                if has_ended {
                    self.tell(Event::Ended(rule));
                }
            }
            Done::Verified(rule, verified, baseline) => {
                self.baselines.insert(rule, baseline);
                self.tell(Event::Verified(rule, verified));
            }
            Done::Told(event) => self.tell(event),
            Done::Written(Err((rule, reason))) => {
                if let Some(config) = self.rule(rule) {
                    report::unwritable(&config.name, &reason);
                }
            }
            Done::Written(Ok(())) | Done::Nothing => {}
        }
    }

    pub(super) fn rule(&self, id: RuleId) -> Option<Arc<Rule>> {
        self.rules.get(id.0).map(Arc::clone)
    }

    fn paths(&self, volumes: Vec<VolumeId>) -> Vec<(VolumeId, PathBuf)> {
        let path = |id: VolumeId| Some((id, self.volumes.get(id.0)?.1.clone()));
        volumes.into_iter().filter_map(path).collect()
    }

    fn path_for_people(&self, volume: VolumeId) -> String {
        self.volumes.get(volume.0).map(|(_, path)| shown::path(path)).unwrap_or_default()
    }
}
