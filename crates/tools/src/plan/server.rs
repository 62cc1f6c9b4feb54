//! A model of the API server: the Leases of one rule, the watches of them, and what they cost. Requests and events take
//! some milliseconds, as in a cluster that has other things to do. Without failures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::random::Random;
use super::requests::Requests;
use super::scenario::Slots;
use podnudge_core::agenda::Agenda;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::Moment;
use podnudge_core::collect;
use podnudge_core::reason::Reason;
use podnudge_core::slots::{Lease, LeaseRequest};

/// The time of a request, its answer, or an event on its way: between the first and both.
const ON_THE_WAY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(8));
/// How long the server is busy with a request, and with an event for one watch: it handles one after the other. Measured
/// by `k8s/scale/run` with two processors were 1.5 ms and 30 µs; most API servers have more of them.
const BUSY: (Duration, Duration) = (Duration::from_micros(500), Duration::from_micros(10));
/// How long a watch lasts: between the first and both.
const WATCH: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(5));
/// The bytes of a request and its answer, of the beginning of a watch, and of an event, with what HTTP and TLS add.
/// Measured on a cluster by `k8s/scale/run`.
const BYTES: (u64, u64, u64) = (6_500, 6_000, 1_500);

/// The modelled API server.
#[derive(Debug)]
pub(super) struct Server {
    leases: BTreeMap<String, Arc<Lease>>,
    version: u64,
    watches: BTreeMap<String, Vec<Watcher>>,
    random: Random,
    /// What arrives, with the replica that has sent it.
    due: Agenda<(usize, Call)>,
    /// What replicas get, to be taken by whoever calls.
    pub(super) sent: Vec<(Moment, usize, Told)>,
    pub(super) cost: Cost,
    /// Nothing before this counts.
    begin: Moment,
    /// Until when the server is busy with what has arrived.
    busy_until: Moment,
}

/// What the Leases cost.
#[derive(Debug, Default)]
pub(super) struct Cost {
    pub(super) requests: Requests,
    pub(super) writes: u64,
    pub(super) conflicts: u64,
    pub(super) bytes: u64,
    pub(super) most_watches: u32,
}

#[derive(Debug)]
struct Watcher {
    replica: usize,
    number: u32,
    /// When its last event arrives: they arrive in order.
    last: Moment,
}

/// What replicas send.
#[derive(Debug)]
pub(super) enum Call {
    Request(Box<LeaseRequest>),
    Watch(String, u32),
    EndWatch(String, u32),
}

/// What they get.
#[derive(Debug)]
pub(super) enum Told {
    Answer(Box<Result<Lease, ApiError>>),
    Opened(u32),
    Seen(u32, Arc<Lease>),
    Ended(u32),
}

impl Server {
    /// Creates the server with the Leases, which nobody holds.
    pub(super) fn new(slots: Slots, random: Random, begin: Moment) -> Self {
        let lease = |n: u32| {
            let name = name(n);
            (name.clone(), Arc::new(Lease::new(&name).stored_as(&n.to_string())))
        };
        Self {
            leases: collect::map((0..slots.count).map(lease)),
            version: u64::from(slots.count),
            watches: BTreeMap::new(),
            random,
            due: Agenda::default(),
            sent: Vec::new(),
            cost: Cost::default(),
            begin,
            busy_until: Moment::default(),
        }
    }

    /// A replica sends this now.
    pub(super) fn send(&mut self, now: Moment, replica: usize, call: Call) {
        let at = now.after(self.on_the_way());
        self.due.plan(at, (replica, call));
    }

    /// When something arrives next.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.next()
    }

    /// Handles what arrives at `at`, the result of [`Self::next`].
    pub(super) fn step(&mut self, at: Moment) {
        let Some((now, (replica, call))) = self.due.pop(at) else { return };
        match call {
            Call::Request(request) => {
                let now = self.handled(now, BUSY.0);
                self.count(now, BYTES.0);
                let name = request.name().to_owned();
                let (answer, has_changed) = self.perform(now, *request);
                let at = now.after(self.on_the_way());
                self.sent.push((at, replica, Told::Answer(Box::new(answer))));
                if has_changed {
                    self.tell(now, &name);
                }
            }
            Call::Watch(name, number) => {
                let now = self.handled(now, BUSY.0);
                self.count(now, BYTES.1);
                let at = now.after(self.on_the_way());
                self.sent.push((at, replica, Told::Opened(number)));
                if let Some(lease) = self.leases.get(&name) {
                    self.sent.push((at, replica, Told::Seen(number, Arc::clone(lease))));
                }
                let watcher = Watcher { replica, number, last: at };
                self.watches.entry(name.clone()).or_default().push(watcher);
                let open: usize = self.watches.values().map(Vec::len).sum();
                let open = u32::try_from(open).unwrap_or(u32::MAX);
                self.cost.most_watches = self.cost.most_watches.max(open);
                let lasts = WATCH.0 + self.random.below(WATCH.1);
                self.due.plan(now.after(lasts), (replica, Call::EndWatch(name, number)));
            }
            Call::EndWatch(name, number) => {
                let watches = self.watches.entry(name).or_default();
                let before = watches.len();
                watches.retain(|it| (it.replica, it.number) != (replica, number));
                if watches.len() < before {
                    self.sent.push((now, replica, Told::Ended(number)));
                }
            }
        }
    }

    /// When the server has handled what keeps it busy for so long.
    fn handled(&mut self, now: Moment, time: Duration) -> Moment {
        self.busy_until = self.busy_until.max(now).after(time);
        self.busy_until
    }

    fn perform(&mut self, now: Moment, request: LeaseRequest) -> (Result<Lease, ApiError>, bool) {
        let Some(before) = self.leases.get(request.name()).map(Arc::clone) else {
            return (Err(ApiError::NotFound(Reason::new("there is no such Lease"))), false);
        };
        let changed = match request {
            LeaseRequest::Read(_) => return (Ok(Lease::clone(&before)), false),
            LeaseRequest::Update(lease) => (lease.version() == before.version()).then_some(lease),
            LeaseRequest::LineUp(_, next) => Some(Lease::clone(&before).lined_up(next)),
            LeaseRequest::PassOn(pass) => pass.applied_to(Lease::clone(&before)),
            LeaseRequest::Create(_) => None,
        };
        let Some(lease) = changed else {
            if now >= self.begin {
                self.cost.writes += 1;
                self.cost.conflicts += 1;
            }
            return (Err(ApiError::Conflict(Reason::new("it has changed"))), false);
        };
        self.cost.writes += u64::from(now >= self.begin);
        self.version += 1;
        let lease = lease.stored_as(&self.version.to_string());
        self.leases.insert(lease.name().to_owned(), Arc::new(lease.clone()));
        (Ok(lease), true)
    }

    /// Tells the watches what a Lease is like.
    fn tell(&mut self, now: Moment, name: &str) {
        let watches = self.watches.get(name).map_or(0, Vec::len);
        let now = self.handled(now, BUSY.1 * u32::try_from(watches).unwrap_or(u32::MAX));
        let Some(lease) = self.leases.get(name) else { return };
        for watcher in self.watches.entry(name.to_owned()).or_default() {
            let on_the_way = ON_THE_WAY.0 + self.random.below(ON_THE_WAY.1);
            watcher.last = now.after(on_the_way).max(watcher.last);
            let told = Told::Seen(watcher.number, Arc::clone(lease));
            self.sent.push((watcher.last, watcher.replica, told));
            self.cost.bytes += if now >= self.begin { BYTES.2 } else { 0 };
        }
    }

    fn count(&mut self, now: Moment, bytes: u64) {
        if now >= self.begin {
            self.cost.requests.add(now, 1);
            self.cost.bytes += bytes;
        }
    }

    fn on_the_way(&mut self) -> Duration {
        ON_THE_WAY.0 + self.random.below(ON_THE_WAY.1)
    }
}

/// The name of a Lease.
fn name(n: u32) -> String {
    format!("{LEASES}-{n}")
}

/// What the names of the Leases begin with.
pub(super) const LEASES: &str = "plan";
