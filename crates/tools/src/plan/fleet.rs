//! One run: changes of the content of all replicas, simulated until nothing happens any more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::overlap::{self, Span};
use super::random::Random;
use super::replica::{BEGIN, Record, Replica};
use super::requests::Requests;
use super::scenario::Scenario;
use super::server::{Cost, Server};
use podnudge_core::clock::{Moment, UnixTime};

/// The time before the first change.
const LEAD: Duration = Duration::from_secs(10);
/// How long after the last change a run ends, even if not all replicas have it.
const LIMIT: Duration = Duration::from_hours(24);
/// The wall clock at the begin of the first run.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// What happened in one run.
#[derive(Debug, Default)]
pub struct Run {
    /// When replicas could not answer requests, since the first change. Those of one replica do not
    /// overlap.
    pub downs: Vec<Span>,
    /// How long, of all replicas together, requests were sent to a replica that could not answer.
    pub failing: Duration,
    /// The time from the last change until each replica ran it; `None` for those that did not within 24 h.
    pub has_last: Vec<Option<Duration>>,
    /// How many requests were sent to the API server, and the most within a second.
    pub requests: (u64, u32),
    /// The writes of Leases, and how many of them met another one.
    pub writes: (u64, u64),
    /// The most watches of Leases at a time: each is a connection.
    pub watches: u32,
    /// The bytes between the replicas and the API server about Leases.
    pub bytes: u64,
}

/// Simulates the run of this number.
#[must_use]
pub fn run(scenario: &Scenario, number: u32) -> Run {
    let first = BEGIN.after(LEAD);
    let edits: Vec<Moment> = (0..scenario.changes.max(1))
        .map(|n| first.after(scenario.every.saturating_mul(n)))
        .collect();
    let end = edits.last().copied().unwrap_or(first).after(LIMIT);
    // The changes come at any time of the clock by which replicas may take turns.
    let offset = Random::new(scenario.seed, number, u32::MAX).below(LIMIT);
    let epoch = UnixTime(EPOCH.saturating_add(offset));
    let replica = |n| Replica::new(scenario, &edits, (number, n), epoch);
    let mut all = Run::default();
    let mut requests = Requests::default();
    match scenario.slots.filter(|_| scenario.policy.permit.slot.is_some()) {
        None => {
            // They do not depend on each other.
            for n in 0..scenario.replicas {
                let mut replica = replica(n);
                while let Some(at) = replica.next().filter(|at| *at <= end) {
                    replica.step(at, None);
                }
                all.add(replica.end(end), &mut requests);
            }
        }
        Some(slots) => {
            let random = Random::new(scenario.seed, number, u32::MAX - 1);
            let mut server = Server::new(slots, random, first);
            let replicas = (0..scenario.replicas).map(replica).collect();
            for replica in together(replicas, &mut server, end) {
                all.add(replica.end(end), &mut requests);
            }
            let Cost { requests: of_slots, writes, conflicts, bytes, most_watches } = server.cost;
            requests.append(of_slots);
            all.writes = (writes, conflicts);
            (all.watches, all.bytes) = (most_watches, bytes);
        }
    }
    all.requests = requests.sum();
    all
}

/// Simulates replicas that share slots, in the order of time.
fn together<'a>(
    mut replicas: Vec<Replica<'a>>,
    server: &mut Server,
    end: Moment,
) -> Vec<Replica<'a>> {
    let next = |(n, replica): (usize, &Replica<'_>)| Some(Reverse((replica.next()?, n)));
    let mut queue: BinaryHeap<_> = replicas.iter().enumerate().filter_map(next).collect();
    loop {
        let of_replica = queue.peek().map(|Reverse((at, _))| *at);
        let of_server = server.next();
        let Some(at) = of_replica.into_iter().chain(of_server).min().filter(|at| *at <= end) else {
            return replicas;
        };
        if of_server == Some(at) {
            server.step(at);
            for (at, n, told) in server.sent.drain(..) {
                if let Some(replica) = replicas.get_mut(n) {
                    replica.tell(at, told);
                    queue.push(Reverse((at, n)));
                }
            }
            continue;
        }
        let Some(Reverse((_, n))) = queue.pop() else { return replicas };
        let Some(replica) = replicas.get_mut(n) else { continue };
        // It may have been called for something that it has handled since.
        if replica.next().is_some_and(|next| next <= at) {
            replica.step(at, Some(server));
            queue.extend(replica.next().map(|next| Reverse((next, n))));
        }
    }
}

impl Run {
    fn add(&mut self, record: Record, requests: &mut Requests) {
        requests.append(record.requests);
        self.downs.extend(overlap::merged(record.downs));
        self.failing += record.failing;
        self.has_last.push(record.has_last);
    }

    /// The time from the last change until all replicas ran it; `None` if some did not within 24 h.
    #[must_use]
    pub fn until_all(&self) -> Option<Duration> {
        self.has_last.iter().try_fold(Duration::ZERO, |until, has| Some(until.max((*has)?)))
    }
}
