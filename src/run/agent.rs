//! What podnudge is while it runs: the core, the rules, and the tasks that work for them. Any file of `run` may start a
//! task here; what comes of it is handled in `done.rs`, by the loop (`event_loop.rs`).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use tokio::task::{AbortHandle, JoinSet};

use super::answers::Counted;
use super::api::ApiUsers;
use super::clock;
use super::connections::Connections;
use super::digests::{Digests, NamingKey};
use super::exits::ExitWatches;
use super::facts::Facts;
use super::pod_end::Ending;
use super::preset::PresetCheck;
use super::queues::BlockingQueue;
use crate::checks::{Attempts, LocalResult};
use crate::preflight::Addresses;
use crate::process::Context;
use crate::report;
use crate::state::StateDir;
use crate::system::surroundings::Surroundings;
use crate::verify::Baseline;
use crate::volume::known::KnownVolume;
use crate::volume::scan::{ReadError, Reading};
use crate::volume::watch::{MountTable, Watching};
use podnudge_config::{self as config, Config, Rule};
use podnudge_core::clock::Moment;
use podnudge_core::command::Act;
use podnudge_core::event::{Acted, Checked, Event, Found, Published, RuleId, Verified, VolumeId};
use podnudge_core::evidence::Evidence;
use podnudge_core::jitter::Replica;
use podnudge_core::preflight::Problem;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{Digest, Generation};
#[cfg(feature = "page")]
use podnudge_core::status::PodStatus;
use podnudge_core::{Core, Intervals};

/// The result of a task.
pub(super) enum Done {
    Scanned(RuleId, Vec<(VolumeId, Result<Reading, ReadError>)>),
    Resynced(Moment, Vec<(VolumeId, Result<Option<Generation>, ReadError>)>),
    CheckedLocally(RuleId, Digest, LocalResult),
    PresetCheckBegun(RuleId, Digest, LocalResult),
    PresetChecked(RuleId, Digest, Checked),
    /// What precedes this action is on disk.
    MayAct(Act),
    /// What precedes the end of podnudge with this exit code, before this time, is on disk.
    MayEnd(RuleId, u8, Option<Moment>),
    Acted(RuleId, Acted, Baseline),
    Verified(RuleId, Verified, Baseline),
    Preflight(RuleId, Vec<Problem>, Addresses),
    Event(Event),
    #[cfg(feature = "cluster")]
    Api(super::api::ApiAnswer),
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
    /// The rule's checks that have not ended.
    pub(super) attempts: Attempts,
    /// What is known of the check of the rule's preset, which the rule does not ask for.
    pub(super) preset_check: PresetCheck,
    /// The task that runs the rule's programs and requests, or tries the check of its preset.
    pub(super) check_task: Option<AbortHandle>,
    /// What the last preflight has found about the rule's addresses.
    pub(super) addresses: Addresses,
    /// The task of the preflight.
    pub(super) preflight_task: Option<AbortHandle>,
    /// Whether metrics and Events have the rule's digests, and how all else names its content: by digest, or with a secret key.
    pub(super) digests: Digests,
}

pub(super) struct Agent {
    pub(super) config: Config,
    pub(super) rules: Vec<RuleState>,
    pub(super) volumes: Vec<KnownVolume>,
    pub(super) core: Core,
    pub(super) watching: Watching,
    pub(super) mounts: MountTable,
    pub(super) context: Arc<Context>,
    pub(super) state: Option<StateDir>,
    /// podnudge's own pod, for the page.
    #[cfg(feature = "page")]
    pub(super) pod: PodStatus,
    /// What the core has reported.
    pub(super) facts: Facts,
    pub(super) counted: Counted,
    pub(super) tasks: JoinSet<Done>,
    /// The results of what had not to wait, in their order.
    pub(super) ready: VecDeque<Done>,
    pub(super) reading: BlockingQueue,
    pub(super) writing: BlockingQueue,
    pub(super) api: ApiUsers,
    /// Set when podnudge is to end for a rule that restarts its pod.
    pub(super) ending: Option<Ending>,
    /// Whether work was abandoned, so that the core may wait for an answer in vain.
    pub(super) has_abandoned: bool,
    pub(super) exits: ExitWatches,
    pub(super) connections: Connections,
}

impl RuleState {
    fn new(
        config: Rule,
        (attempts, preset_check): (Attempts, PresetCheck),
        agent: &config::Agent,
        key: NamingKey,
    ) -> Self {
        Self {
            digests: Digests::of(&config, agent, key),
            config: Arc::new(config),
            baseline: Baseline::default(),
            checked_digest: None,
            full_digest: None,
            attempts,
            preset_check,
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
        (state, key): (Option<StateDir>, NamingKey),
        published: Vec<Published>,
        replica: &Replica,
        surroundings: &Surroundings,
    ) -> Self {
        let mut volumes = Vec::new();
        let (mut rules, mut states) = (Vec::new(), Vec::new());
        let api = ApiUsers::new(&config, surroundings, replica.seed);
        let context = Arc::new(Context::new(surroundings.pod.told_name()));
        for (n, (rule, published)) in config.rules.iter().zip(published).enumerate() {
            // podnudge also starts without it.
            let memory = state.as_ref().map(|state| state.load(&rule.name, clock::now()));
            let memory = memory.transpose().unwrap_or_else(|reason| {
                report::state_unreadable(&reason);
                None
            });
            let (attempts, mut left) = Attempts::open(rule, &config.agent);
            let preset_check = PresetCheck::restored(rule, &mut left);
            let policy = rule.policy(VolumeId(volumes.len()));
            volumes
                .extend(rule.settings.watch.iter().map(|path| KnownVolume::new(RuleId(n), path)));
            states.push(RuleState::new(rule.clone(), (attempts, preset_check), &config.agent, key));
            let (interrupted, is_record_unreadable) = (left.known, left.is_unreadable);
            let pod = api.pod().uid;
            let mut memory = memory.flatten();
            // Without its file, the application runs nothing that is remembered, and nothing has begun.
            if let (Some(expand), Some(memory)) = (&rule.settings.expand, &mut memory)
                && !expand.to.exists()
            {
                (memory.known.running, memory.known.evidence) = (None, Evidence::None);
                memory.rollout = None;
            }
            let found = Found { memory, published, interrupted, is_record_unreadable, pod };
            rules.push((policy, found));
        }
        let rounds = Intervals { resync: config.agent.resync, poll: config.agent.poll };
        Self {
            rules: states,
            core: Core::new(rules, replica, rounds, clock::now()),
            watching: Watching::new(config.agent.watch, volumes.len()),
            mounts: MountTable::open(),
            context,
            api,
            config,
            volumes,
            state,
            #[cfg(feature = "page")]
            pod: PodStatus {
                name: surroundings.pod.name.clone(),
                namespace: surroundings.namespace.clone(),
                node: surroundings.node.clone(),
            },
            facts: Facts::default(),
            counted: Counted::default(),
            tasks: JoinSet::new(),
            ready: VecDeque::new(),
            reading: BlockingQueue::default(),
            writing: BlockingQueue::default(),
            ending: None,
            has_abandoned: false,
            exits: ExitWatches::default(),
            connections: Connections::default(),
        }
    }

    pub(super) fn handle_event(&mut self, event: Event) {
        self.core.handle(clock::now(), event);
    }

    pub(super) fn rule(&self, id: RuleId) -> Option<Arc<Rule>> {
        self.rules.get(id.0).map(|state| Arc::clone(&state.config))
    }

    /// Polls a task once on the loop, and spawns it only if it has to wait: a signal is sent
    /// without the delay of a new task.
    pub(super) fn start_task(
        &mut self,
        task: impl Future<Output = Done> + Send + 'static,
    ) -> Option<AbortHandle> {
        // One kind of task for all of them: each kind costs some KiB of the binary.
        let mut task: Pin<Box<dyn Future<Output = Done> + Send>> = Box::pin(task);
        match task.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => {
                self.ready.push_back(done);
                None
            }
            Poll::Pending => Some(self.tasks.spawn(task)),
        }
    }

    /// Queues work that reads volumes.
    pub(super) fn queue_read(
        &mut self,
        rule: RuleId,
        task: impl FnOnce(&Rule) -> Done + Send + 'static,
    ) {
        if let Some(config) = self.rule(rule) {
            self.reading.submit(&mut self.tasks, move || task(&config));
        }
    }

    /// Queues work that writes the publish or the state directory.
    pub(super) fn queue_write(
        &mut self,
        rule: RuleId,
        task: impl FnOnce(&Rule) -> Done + Send + 'static,
    ) {
        if let Some(config) = self.rule(rule) {
            self.writing.submit(&mut self.tasks, move || task(&config));
        }
    }
}
