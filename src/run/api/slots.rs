//! Slots that the replicas share: passes the core's claims to the protocol (the core's `slots.rs`), the
//! protocol's requests to the API server, and the state of each slot back to the core. Does nothing unless
//! a rule has `lease`; `run/api/evict.rs` uses its access to the API server, too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::ApiAnswer;
use super::access::ApiAccess;
use super::evict::Evictor;
use crate::cluster::{LeaseSeen, LeaseWatch};
use crate::exchange::kept::Kept;
use crate::report;
use crate::run::agent::{Agent, Done};
use crate::run::clock;
use crate::system::surroundings::{Pod, Surroundings};
use podnudge_config::{Config, Rule, RuleSettings};
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now};
use podnudge_core::command::{Command, Intent};
use podnudge_core::event::{Event, RuleId, SlotState};
use podnudge_core::random::Random;
use podnudge_core::slots::{Lease, Slots, SlotsSettings};
use podnudge_core::snapshot::Digest;

/// How long to wait for the answer whether the pod is being deleted.
const DELETION_LIMIT: Duration = Duration::from_secs(5);

/// How many events of watches may wait for the loop; whoever has more waits.
const MOST_EVENTS: usize = 4;

/// The slots of all rules.
pub(super) struct SharedSlots {
    access: Option<ApiAccess>,
    /// For the looks at the pod; `None` when podnudge stops.
    pub(super) looks: Option<ApiAccess>,
    evictor: Option<Evictor>,
    /// In the order of the rules.
    rules: Vec<Option<RuleSlots>>,
    /// What the watches tell.
    sender: mpsc::Sender<LeaseWatch>,
    watches: mpsc::Receiver<LeaseWatch>,
    random: Random,
}

struct RuleSlots {
    slots: Slots,
    /// The state that the core knows.
    known: SlotState,
    /// Content that failed, and the commands after it, until it is known whether the pod is being deleted.
    deferred: VecDeque<Command>,
    watch: Watch,
    /// The last request beside the watch.
    request: Option<AbortHandle>,
}

/// The watch of a rule's Lease.
#[derive(Default)]
struct Watch {
    /// Which of the rule's watches it is: what earlier ones have told is not heard.
    number: u32,
    request: Option<AbortHandle>,
}

impl Watch {
    fn end(&mut self) {
        self.request.take().iter().for_each(AbortHandle::abort);
        self.number = self.number.wrapping_add(1);
    }
}

impl RuleSlots {
    fn perform(&mut self, now: Now, command: Command) {
        match command {
            Command::Claim(_, digest, intent) => self.claim(now, digest, intent),
            Command::Release(_) => self.slots.release(),
            Command::Halt(_, digest, reason) => self.slots.halt(now, digest, &reason),
            Command::TryHalted(_, digest) => self.slots.try_halted(now, digest),
            Command::ClearHalt(_, digest) => self.slots.clear_halt(digest),
            _ => {}
        }
    }

    fn claim(&mut self, now: Now, digest: Digest, intent: Intent) {
        if self.slots.claim(now, digest, intent) {
            // The core forgets the state of the claim before, too.
            self.known = SlotState::Free;
        }
    }
}

impl SharedSlots {
    pub(super) fn new(
        config: &Config,
        (surroundings, kept): (Surroundings, Kept),
        seed: u64,
    ) -> Self {
        let is_used = config.rules.iter().any(|rule| {
            let RuleSettings { limit, drain, .. } = &rule.settings;
            let has_lease = limit.as_ref().is_some_and(|limit| limit.lease.is_some());
            let has_services = drain.as_ref().is_some_and(|drain| !drain.services.is_empty());
            has_lease || has_services || rule.settings.evicts()
        });
        let Some(settings) = config.cluster.clone().filter(|_| is_used) else {
            return Self::unused();
        };
        let access = ApiAccess::new(settings, surroundings, kept);
        if let Err(reason) = access.api.examine() {
            report::api_unusable(&reason);
        }
        let slots = |rule: &Rule| {
            let limit = rule.settings.limit.as_ref()?;
            let settings = SlotsSettings {
                name: limit.lease.clone()?,
                count: limit.slots(),
                duration: limit.lease_duration,
                cover: rule.slot_cover(limit),
                holder: access.pod.holder(&rule.name, seed),
                seed,
            };
            let slots = Slots::new(settings, clock::now().mono);
            let deferred = VecDeque::new();
            let watch = Watch::default();
            Some(RuleSlots { slots, known: SlotState::Free, deferred, watch, request: None })
        };
        let rules = config.rules.iter().map(slots).collect();
        let (api, pod) = access.parts();
        let (looks, evictor) = (Some(access.another()), Some(Evictor::new(api, pod)));
        let random = Random::new(seed);
        Self { access: Some(access), looks, evictor, rules, random, ..Self::unused() }
    }

    fn unused() -> Self {
        let (sender, watches) = mpsc::channel(MOST_EVENTS);
        let (rules, random) = (Vec::new(), Random::new(0));
        Self { access: None, looks: None, evictor: None, rules, sender, watches, random }
    }

    /// What a watch tells next. If there is none, nothing comes.
    pub(super) async fn next(&mut self) -> Option<LeaseWatch> {
        self.watches.recv().await
    }

    /// Performs a command of the core that is about the slot of this rule. Returns whether it has to be found out
    /// first whether the pod is being deleted.
    fn perform(&mut self, rule: RuleId, command: Command) -> bool {
        let Some(rule) = self.of(rule) else { return false };
        let is_first = rule.deferred.is_empty();
        if is_first && !matches!(command, Command::Halt(..)) {
            rule.perform(clock::now(), command);
            return false;
        }
        rule.deferred.push_back(command);
        is_first
    }

    /// Performs what was deferred. The application of a pod that is being deleted ends, whatever it has read: then
    /// nobody has to know, and the digests are returned.
    fn perform_deferred(&mut self, rule: RuleId, is_deleted: bool) -> Vec<Digest> {
        let Some(rule) = self.of(rule) else { return Vec::new() };
        let mut dropped = Vec::new();
        for command in std::mem::take(&mut rule.deferred) {
            match command {
                Command::Halt(_, digest, _) if is_deleted => dropped.push(digest),
                command => rule.perform(clock::now(), command),
            }
        }
        dropped
    }

    fn of(&mut self, rule: RuleId) -> Option<&mut RuleSlots> {
        self.rules.get_mut(rule.0)?.as_mut()
    }

    /// podnudge's own pod, as far as it is known, if there is a use for it.
    pub(super) fn pod(&self) -> Pod {
        self.access.as_ref().map(|access| access.pod.clone()).unwrap_or_default()
    }

    pub(super) fn evictor(&self) -> Option<Evictor> {
        self.evictor.clone()
    }

    /// podnudge is asked to stop: it looks at its pod no more. What is to be given back, or told to others, goes on.
    pub(super) fn stop_looks(&mut self) {
        self.looks = None;
    }

    /// Ends the requests that are under way. A slot that is kept for a pod that is about to end stays taken for its time.
    pub(super) fn end_requests(&mut self) {
        for rule in self.rules.iter_mut().flatten() {
            rule.watch.end();
            rule.request.take().iter().for_each(AbortHandle::abort);
        }
    }

    /// When to advance the slots, if nothing else happens.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        if self.rules.is_empty() {
            return None;
        }
        let now = clock::now().mono;
        self.all().filter_map(|slots| slots.next_wakeup(now)).min()
    }

    /// Whether a slot is being given back, or the other replicas are being told of content that failed.
    pub(super) fn is_busy(&self) -> bool {
        let now = clock::now().mono;
        self.all().any(|slots| slots.is_busy(now))
    }

    /// Whether the other replicas are being told of content that failed, or it is being found out whether they
    /// have to be.
    pub(super) fn is_telling(&self) -> bool {
        let is_telling = |rule: &RuleSlots| !rule.deferred.is_empty() || rule.slots.is_telling();
        self.rules.iter().flatten().any(is_telling)
    }

    fn all(&self) -> impl Iterator<Item = &Slots> {
        self.rules.iter().flatten().map(|rule| &rule.slots)
    }

    /// The states that have changed since the last call.
    fn changes(&mut self, now: Now) -> Vec<(RuleId, SlotState)> {
        let rules = self.rules.iter_mut().enumerate();
        let change = |(n, rule): (usize, &mut Option<RuleSlots>)| {
            let RuleSlots { slots, known, deferred, .. } = rule.as_mut()?;
            // What is known is of the digest before.
            if deferred.iter().any(|command| matches!(command, Command::Claim(..))) {
                return None;
            }
            let state = slots.state(now.mono);
            let is_new = *known != state;
            known.clone_from(&state);
            is_new.then_some((RuleId(n), state))
        };
        rules.filter_map(change).collect()
    }
}

impl Agent {
    /// Tells the core what has changed, or sends the requests that are due: the core may still need a slot that
    /// would be given back. Returns whether there may be more to do.
    pub(in crate::run) fn advance_slots(&mut self) -> bool {
        let changes = self.api.slots.changes(clock::now());
        let has_changed = !changes.is_empty();
        for (rule, state) in changes {
            self.event_of_slot(rule, &state);
            self.handle_event(Event::Slot(rule, state));
        }
        self.watch_leases();
        has_changed || self.send_slot_requests()
    }

    /// Begins and ends the watches, as the protocol has it.
    fn watch_leases(&mut self) {
        let Some((api, _)) = self.api.slots.access.as_ref().map(ApiAccess::parts) else { return };
        for rule in (0..self.api.slots.rules.len()).map(RuleId) {
            let sender = self.api.slots.sender.clone();
            let spread = self.api.slots.random.part();
            let Some(RuleSlots { slots, watch, .. }) = self.api.slots.of(rule) else { continue };
            let Some((name, is_new)) = slots.watched(clock::now().mono) else {
                watch.end();
                continue;
            };
            if !is_new {
                continue;
            }
            watch.end();
            let (api, name, of) = (Arc::clone(&api), name.to_owned(), (rule, watch.number));
            let request = self.start_task(async move {
                api.watch_lease(of, &name, spread, sender).await;
                Done::Nothing
            });
            if let Some(rule) = self.api.slots.of(rule) {
                rule.watch.request = request;
            }
        }
    }

    pub(super) fn lease_watch_told(&mut self, (rule, number, seen): LeaseWatch) {
        let Some(RuleSlots { slots, watch, .. }) = self.api.slots.of(rule) else { return };
        if watch.number != number {
            return;
        }
        let now = clock::now().mono;
        match seen {
            LeaseSeen::Opened => slots.watch_opened(now),
            LeaseSeen::State(lease) => slots.watch_seen(now, lease.as_ref()),
            LeaseSeen::Ended(how) => slots.watch_ended(now, &how),
        }
        let written = slots.take_written();
        self.halts_written(rule, written);
    }

    fn send_slot_requests(&mut self) -> bool {
        let Some((api, _)) = self.api.slots.access.as_ref().map(ApiAccess::parts) else {
            return false;
        };
        let mut has_sent = false;
        for rule in (0..self.api.slots.rules.len()).map(RuleId) {
            let slots = self.api.slots.of(rule).map(|rule| &mut rule.slots);
            let due = slots
                .and_then(|slots| Some((slots.next_request(clock::now())?, slots.time_limit())));
            if let Some((request, limit)) = due {
                has_sent = true;
                let api = Arc::clone(&api);
                let request = self.start_task(async move {
                    let lease = Box::new(api.lease(request, limit).await);
                    Done::Api(ApiAnswer::Lease(rule, lease))
                });
                if let Some(rule) = self.api.slots.of(rule) {
                    rule.request = request;
                }
            }
        }
        has_sent
    }

    /// Performs a command of the core that is about the slot of this rule.
    pub(in crate::run) fn perform_for_slot(&mut self, rule: RuleId, command: Command) {
        if !self.api.slots.perform(rule, command) {
            return;
        }
        let Some((api, pod)) = self.api.slots.access.as_ref().map(ApiAccess::parts) else { return };
        self.start_task(async move {
            let deletion = api.is_being_deleted(&pod.name, DELETION_LIMIT).await;
            // Bad content does more harm on the other replicas than a halt without need.
            Done::Api(ApiAnswer::Deletion(rule, deletion.unwrap_or(false)))
        });
    }

    pub(super) fn lease_answered(&mut self, rule: RuleId, lease: Result<Lease, ApiError>) {
        let Some(slots) = self.api.slots.of(rule).map(|rule| &mut rule.slots) else { return };
        slots.handle(clock::now(), lease);
        let written = slots.take_written();
        self.halts_written(rule, written);
    }

    pub(super) fn deletion_answered(&mut self, rule: RuleId, is_deleted: bool) {
        let dropped = self.api.slots.perform_deferred(rule, is_deleted);
        self.halts_written(rule, dropped);
    }

    fn halts_written(&mut self, rule: RuleId, digests: Vec<Digest>) {
        for digest in digests {
            self.handle_event(Event::HaltWritten(rule, digest));
        }
    }
}
