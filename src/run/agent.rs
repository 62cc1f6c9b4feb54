//! The event loop: passes every event to the core, and performs the core's commands
//! (`commands.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{info, warn};

use super::answers::Counted;
use super::clock;
use super::connections::{Connections, accept};
use super::digests::{Digests, NamingKey};
use super::eager::EagerSyncing;
use super::events::EventSending;
use super::exits::ExitWatches;
use super::facts::Facts;
use super::pod::Ending;
use super::queues::BlockingQueue;
use super::rights::Rights;
use super::slots::SharedSlots;
use crate::admin::server;
use crate::checks::{self, Attempts, Left, LocalResult};
use crate::config::{self, Config, Rule};
use crate::os_signals::{OsSignal, OsSignals};
use crate::preflight::Addresses;
use crate::process::Context;
use crate::report;
use crate::state::StateDir;
use crate::surroundings::Surroundings;
use crate::verify::Baseline;
use crate::volume::scan::{ReadError, Reading};
use crate::volume::watch::{MountTable, Watching};
use podnudge_core::clock::Moment;
use podnudge_core::command::Act;
use podnudge_core::event::{Acted, Event, Found, Published, RuleId, Verified, VolumeId};
use podnudge_core::jitter::Replica;
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{Digest, Generation};
use podnudge_core::{Core, Intervals};

/// How many admin requests may be queued for the loop.
const MAX_QUEUED_REQUESTS: usize = 8;

/// The result of a task.
pub(super) enum Done {
    Scanned(RuleId, Vec<(VolumeId, Result<Reading, ReadError>)>),
    Resynced(Moment, Vec<(VolumeId, Result<Option<Generation>, ReadError>)>),
    CheckedLocally(RuleId, Digest, LocalResult),
    /// What precedes this action is on disk.
    MayAct(Act),
    /// What precedes the end of podnudge with this exit code, before this time, is on disk.
    MayEnd(RuleId, u8, Option<Moment>),
    Acted(RuleId, Acted, Baseline),
    Verified(RuleId, Verified, Baseline),
    Preflight(RuleId, Vec<Problem>, Addresses),
    Event(Event),
    #[cfg(feature = "cluster")]
    Api(super::slots::ApiAnswer),
    Written(Result<(), (RuleId, Reason)>),
    /// There was no thread for it, and podnudge is stopping.
    Abandoned,
    Nothing,
}

/// The loop's state of one rule.
pub(super) struct RuleState {
    pub(super) config: Arc<Rule>,
    /// The target's state before the last action, for its verification.
    pub(super) baseline: Baseline,
    /// The digest of the last check that was started.
    pub(super) checked_digest: Option<Digest>,
    /// The digest over all keys of that content, ignored ones included, as the programs saw it.
    pub(super) full_digest: Option<Digest>,
    /// Its checks that have not ended.
    pub(super) attempts: Attempts,
    /// The task that runs its programs and requests.
    pub(super) check_task: Option<AbortHandle>,
    /// What the last preflight has found about its addresses.
    pub(super) addresses: Addresses,
    /// The task of the preflight.
    pub(super) preflight_task: Option<AbortHandle>,
    /// Whether the metrics may show its digests.
    pub(super) digests: Digests,
}

pub(super) struct Agent {
    pub(super) config: Config,
    pub(super) rules: Vec<RuleState>,
    /// The rule and the path of each volume.
    pub(super) volumes: Vec<(RuleId, PathBuf)>,
    pub(super) core: Core,
    pub(super) watching: Watching,
    pub(super) mounts: MountTable,
    pub(super) context: Arc<Context>,
    pub(super) state: Option<StateDir>,
    /// Volumes that the kubelet wrote, according to the last scan. They are local and hold at most
    /// 1 MiB: reading one takes less time than handing it to another thread.
    pub(super) kubelet_volumes: Vec<VolumeId>,
    /// Volumes that were mounted at their paths at some scan.
    pub(super) mounted: Vec<VolumeId>,
    /// What the core has reported.
    pub(super) facts: Facts,
    pub(super) counted: Counted,
    pub(super) tasks: JoinSet<Done>,
    pub(super) reading: BlockingQueue,
    pub(super) writing: BlockingQueue,
    pub(super) slots: SharedSlots,
    pub(super) eager: EagerSyncing,
    pub(super) events: EventSending,
    pub(super) rights: Rights,
    /// Set when podnudge is to end for a rule that restarts its pod.
    pub(super) ending: Option<Ending>,
    /// Whether work was abandoned, so that the core may wait for an answer in vain.
    has_abandoned: bool,
    exits: ExitWatches,
    connections: Connections,
}

impl RuleState {
    fn new(config: Rule, attempts: Attempts, agent: &config::Agent, key: NamingKey) -> Self {
        Self {
            digests: Digests::of(&config, agent, key),
            config: Arc::new(config),
            baseline: Baseline::default(),
            checked_digest: None,
            full_digest: None,
            attempts,
            check_task: None,
            addresses: Addresses::default(),
            preflight_task: None,
        }
    }

    /// Stops the programs and requests of a check, because its result is no longer needed.
    pub(super) fn abort_check(&mut self) {
        if let Some(task) = self.check_task.take() {
            task.abort();
        }
    }

    /// Stops the tasks whose results are no longer needed when podnudge stops.
    pub(super) fn stop(&mut self) {
        self.attempts.close();
        self.abort_check();
        if let Some(task) = self.preflight_task.take() {
            task.abort();
        }
    }
}

impl Agent {
    pub(super) fn new(
        config: Config,
        state: Option<StateDir>,
        published: Vec<Published>,
        replica: &Replica,
        surroundings: Surroundings,
    ) -> Self {
        let mut volumes = Vec::new();
        let (mut rules, mut states) = (Vec::new(), Vec::new());
        let eager = EagerSyncing::new(&config, surroundings.clone(), replica.seed);
        let events = EventSending::new(&config, surroundings.clone());
        let rights = Rights::new(&config, surroundings.clone(), replica.seed);
        let context = Arc::new(Context::new(surroundings.pod.told_name()));
        let slots = SharedSlots::new(&config, surroundings, replica.seed);
        let key = NamingKey::open(&config, state.as_ref());
        for (n, (rule, published)) in config.rules.iter().zip(published).enumerate() {
            // podnudge also starts without it.
            let memory = state.as_ref().map(|state| state.load(&rule.name, clock::now()));
            let memory = memory.transpose().unwrap_or_else(|reason| {
                report::state_unreadable(&reason);
                None
            });
            let policy = rule.policy(VolumeId(volumes.len()));
            let (attempts, Left { known, is_unreadable }) = Attempts::open(rule, &config.agent);
            states.push(RuleState::new(rule.clone(), attempts, &config.agent, key));
            let (interrupted, is_record_unreadable) = (known, is_unreadable);
            let pod = slots.pod().uid;
            let memory = memory.flatten();
            let found = Found { memory, published, interrupted, is_record_unreadable, pod };
            rules.push((policy, found));
            volumes.extend(rule.settings.watch.iter().map(|path| (RuleId(n), path.clone())));
        }
        let rounds = Intervals { resync: config.agent.resync, poll: config.agent.poll };
        Self {
            rules: states,
            core: Core::new(rules, replica, rounds, clock::now()),
            watching: Watching::new(config.agent.watch, volumes.len()),
            mounts: MountTable::open(),
            context,
            events,
            rights,
            eager,
            slots,
            config,
            volumes,
            state,
            kubelet_volumes: Vec::new(),
            mounted: Vec::new(),
            facts: Facts::default(),
            counted: Counted::default(),
            tasks: JoinSet::new(),
            reading: BlockingQueue::default(),
            writing: BlockingQueue::default(),
            ending: None,
            has_abandoned: false,
            exits: ExitWatches::default(),
            connections: Connections::default(),
        }
    }

    /// Runs until podnudge is asked to stop, or is to end with an exit code.
    pub(super) async fn run(
        &mut self,
        mut signals: OsSignals,
        listener: Option<TcpListener>,
    ) -> Option<u8> {
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        report::started(&self.config, address);
        let hints = self.watching.hints();
        let (sender, mut requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let mut end_at: Option<Moment> = None;
        loop {
            self.run_all();
            self.end_left();
            if let Some(code) = self.ended_for_pod() {
                return Some(code);
            }
            let is_stopped = self.core.is_stopped() || self.has_abandoned;
            if is_stopped && self.tasks.is_empty() && !self.slots.is_busy() {
                return None;
            }
            let (slots, eager) = (self.slots.next_wakeup(), self.eager.next_wakeup());
            let of_cluster = [slots, eager, self.events.next_wakeup(), self.rights.next_wakeup()];
            let ending = self.ending.map(|ending| ending.until);
            let wakeups = of_cluster.into_iter().chain([self.core.next_wakeup(), end_at, ending]);
            let wakeup = wakeups.flatten().min();
            tokio::select! {
                // If several are ready, in this order: stopping comes before starting anything.
                biased;
                signal = signals.next() => match signal {
                    OsSignal::Stop if end_at.is_some() => {
                        info!(event = "ending-now", "second stop signal: stopping at once");
                        return None;
                    }
                    OsSignal::Stop => {
                        info!(event = "ending", "stop signal received: stopping");
                        end_at = Some(clock::now().mono.after(self.config.agent.grace));
                        self.handle_event(Event::Stop);
                        self.rules.iter_mut().for_each(RuleState::stop);
                        self.slots.stop_looks();
                        self.eager.stop();
                        self.events.stop();
                        self.rights.stop();
                        self.reading.stop_waiting();
                        self.writing.stop_waiting();
                    }
                    OsSignal::Trigger => self.handle_event(Event::Trigger(None)),
                    OsSignal::DumpStatus => self.dump_status(),
                },
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.handle_done(done),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                rule = self.exits.next() => self.handle_event(Event::Ended(rule)),
                pending = hints.next() => {
                    if pending.all {
                        self.handle_event(Event::HintsLost);
                    }
                    for (volume, commits) in pending.volumes {
                        self.handle_event(Event::Hint(volume, commits));
                    }
                }
                Some(request) = requests.recv() => self.answer(request),
                (stream, peer) = accept(listener.as_ref()) => {
                    let reload = self.config.agent.reload();
                    let connection = server::connection(stream, peer, sender.clone(), reload);
                    self.connections.serve(connection);
                }
                () = self.connections.ended() => {}
                () = clock::sleep_until(wakeup) => {
                    if end_at.is_some_and(|end| clock::now().mono >= end) {
                        warn!(event = "grace-over", "grace over: a running action was abandoned");
                        return None;
                    }
                    self.core.tick(clock::now());
                }
                Some(answer) = self.eager.next() => self.eager_sync_answered(answer),
                Some(()) = self.mounts.changed() => self.handle_event(Event::MountsChanged),
            }
        }
    }

    pub(super) fn handle_event(&mut self, event: Event) {
        self.core.handle(clock::now(), event);
    }

    /// Handles the result of a task.
    pub(super) fn handle_done(&mut self, done: Done) {
        match done {
            Done::Scanned(rule, readings) => self.scanned(rule, readings),
            Done::Resynced(begun, seen) => {
                for (volume, generation) in seen {
                    match generation {
                        Ok(generation) => {
                            self.handle_event(Event::Resynced(volume, begun, generation));
                        }
                        Err(_) => self.handle_event(Event::ResyncFailed(volume)),
                    }
                }
            }
            Done::CheckedLocally(rule, digest, LocalResult::Decided(checked)) => {
                self.handle_event(Event::Checked(rule, digest, checked));
            }
            Done::CheckedLocally(rule, digest, LocalResult::NeedsExternal(external)) => {
                let Some(config) = self.rule(rule) else { return };
                let is_stopped = self.core.is_stopped();
                let Some(state) = self.rules.get_mut(rule.0) else { return };
                // The result would no longer be used; dropping `external` removes the copy.
                if is_stopped || state.checked_digest != Some(digest) {
                    return;
                }
                state.full_digest = external.full_digest();
                let task = self.start_task(async move {
                    let checked = checks::run_external(&config, digest, external).await;
                    Done::Event(Event::Checked(rule, digest, checked))
                });
                if let Some(state) = self.rules.get_mut(rule.0) {
                    state.check_task = task;
                }
            }
            Done::MayAct(act) => self.act(act),
            Done::MayEnd(rule, code, before) => self.end_with(rule, code, before),
            Done::Acted(rule, acted, baseline) => {
                self.note_attempt(rule, &acted);
                self.handle_with(rule, baseline, Event::Acted(rule, acted));
            }
            Done::Verified(rule, verified, baseline) => {
                self.handle_with(rule, baseline, Event::Verified(rule, verified));
            }
            Done::Preflight(rule, mut problems, addresses) => {
                let failure = self.state.as_ref().and_then(StateDir::failure);
                problems
                    .extend(failure.map(|why| Problem::new(ProblemKind::StateDirUnusable, why)));
                let unknown = self.why_not_evict(rule);
                problems.extend(unknown.map(|why| Problem::new(ProblemKind::PodUnknown, why)));
                if let Some(state) = self.rules.get_mut(rule.0) {
                    state.addresses = addresses;
                }
                self.handle_event(Event::Preflight(rule, problems));
            }
            Done::Event(event) => self.handle_event(event),
            #[cfg(feature = "cluster")]
            Done::Api(answer) => self.api_answered(answer),
            Done::Written(Err((rule, reason))) => {
                if let Some(config) = self.rule(rule) {
                    report::state_unwritable(&config.name, &reason);
                }
            }
            Done::Abandoned => self.has_abandoned = true,
            Done::Written(Ok(())) | Done::Nothing => {}
        }
    }

    pub(super) fn rule(&self, id: RuleId) -> Option<Arc<Rule>> {
        self.rules.get(id.0).map(|state| Arc::clone(&state.config))
    }

    /// Handles what an action or a verification has found about these processes.
    fn handle_with(&mut self, rule: RuleId, baseline: Baseline, found: Event) {
        let before = self.rules.get(rule.0).map(|state| &state.baseline.processes);
        // A verification finds others after a restart.
        let are_new = matches!(found, Event::Acted(..)) || before != Some(&baseline.processes);
        if are_new {
            self.exits.watch(rule, baseline.exit_watches());
        }
        // They may have ended before the exit watch was set up.
        let have_ended = are_new && baseline.has_ended();
        if let Some(state) = self.rules.get_mut(rule.0) {
            state.baseline = baseline;
        }
        self.handle_event(found);
        if have_ended {
            self.handle_event(Event::Ended(rule));
        }
        // Only a verification looks whether the content is read.
        let is_over = !self.core.is_verifying(rule);
        if let Some(state) = self.rules.get_mut(rule.0).filter(|_| is_over) {
            state.baseline.reads = None;
        }
    }
}
