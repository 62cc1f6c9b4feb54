//! One run: changes of the content of all replicas, simulated until nothing happens any more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::leases::Leases;
use super::overlap::{self, Span};
use super::random::Random;
use super::replica::{BEGIN, Record, Replica};
use super::requests::Requests;
use super::scenario::Scenario;
use podnudge_core::clock::{Moment, UnixTime};

/// The time before the first change.
const LEAD: Duration = Duration::from_secs(10);
/// How long after the last change a run ends, even if not all replicas have it.
const LIMIT: Duration = Duration::from_hours(24);
/// The wall clock at the begin of the first run.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// What happened in one run.
#[derive(Debug)]
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
    let mut all =
        Run { downs: Vec::new(), failing: Duration::ZERO, has_last: Vec::new(), requests: (0, 0) };
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
            let mut leases = Leases::new(slots);
            let replicas = (0..scenario.replicas).map(replica).collect();
            for replica in together(replicas, &mut leases, end) {
                all.add(replica.end(end), &mut requests);
            }
            requests.append(leases.requests);
        }
    }
    all.requests = requests.sum();
    all
}

/// Simulates replicas that share slots, in the order of time.
fn together<'a>(
    mut replicas: Vec<Replica<'a>>,
    leases: &mut Leases,
    end: Moment,
) -> Vec<Replica<'a>> {
    let next = |(n, replica): (usize, &Replica<'_>)| Some(Reverse((replica.next()?, n)));
    let mut queue: BinaryHeap<_> = replicas.iter().enumerate().filter_map(next).collect();
    while let Some(Reverse((at, n))) = queue.pop().filter(|Reverse((at, _))| *at <= end) {
        let Some(replica) = replicas.get_mut(n) else { continue };
        replica.step(at, Some(leases));
        queue.extend(replica.next().map(|next| Reverse((next, n))));
    }
    replicas
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
