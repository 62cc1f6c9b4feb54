//! The figures of many runs.

use std::time::Duration;

use serde::Serialize;

use super::fleet::{self, Run};
use super::overlap;
use super::scenario::Scenario;

/// What many simulated rollouts cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The number of replicas.
    pub replicas: u32,
    /// With fewer replicas up than this, there is an outage.
    pub min_available: u32,
    /// The number of runs.
    pub runs: u32,
    /// The seed of the runs.
    pub seed: u64,
    /// The most replicas that were down at once, in each run.
    pub down_at_once: Figures,
    /// The number of runs in which fewer than `min_available` replicas were up at some time.
    pub outages: u32,
    /// How long the outages of a run lasted together, in the worst run.
    pub longest_outage_seconds: f64,
    /// The time from the last change until all replicas ran it, of the runs in which they did.
    pub seconds_until_all_have_it: Option<Figures>,
    /// The number of runs in which some replicas did not run the last change within 24 h.
    pub unfinished: u32,
    /// How long requests were sent to a replica that could not answer: the mean of all replicas and runs.
    pub failing_seconds_per_replica: f64,
    /// The most requests to the API server within one second, of all replicas and runs.
    pub api_requests_per_second: u32,
    /// The number of requests to the API server in a run, in the mean.
    pub api_requests: f64,
    /// The part of the writes of Leases that met another one, in the mean of all runs.
    pub api_conflicts: f64,
    /// The most connections that wait for slots at a time, of all runs.
    pub api_connections: u32,
    /// The bytes between the replicas and the API server about slots in a run, in the mean.
    pub api_bytes: f64,
    /// The replicas that are down, over time.
    pub chart: Vec<Point>,
}

/// A quantity over all runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// The mean of all runs.
    pub mean: f64,
    /// 5 % of the runs have at most this.
    pub p5: f64,
    /// Half of the runs have at most this.
    pub median: f64,
    /// 95 % of the runs have at most this.
    pub p95: f64,
    /// The greatest value of all runs.
    pub worst: f64,
}

/// The replicas that are down in one part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// When it begins: the time since the first change.
    pub seconds: f64,
    /// How many are down, in the mean of this part and of all runs.
    pub mean: f64,
    /// The most in any run.
    pub worst: u32,
}

/// The parts of the time that a chart shows.
const COLUMNS: u32 = 64;

/// Simulates all runs.
#[must_use]
pub fn simulate(scenario: &Scenario) -> Outcome {
    let runs: Vec<Run> = (0..scenario.runs.max(1)).map(|n| fleet::run(scenario, n)).collect();
    let count = runs.len();
    let greatest = runs.iter().map(|run| f64::from(overlap::greatest(&run.downs)));
    let outages: Vec<Duration> =
        runs.iter().map(|run| overlap::time_above(&run.downs, scenario.spare())).collect();
    let until_all: Vec<Duration> = runs.iter().filter_map(Run::until_all).collect();
    let failing: Duration = runs.iter().map(|run| run.failing).sum();
    let all_replicas = number(count) * f64::from(scenario.replicas.max(1));
    let last_change = scenario.every.saturating_mul(scenario.changes.saturating_sub(1));
    Outcome {
        replicas: scenario.replicas,
        min_available: scenario.min_available,
        runs: whole(count),
        seed: scenario.seed,
        down_at_once: Figures::of(greatest.collect()).unwrap_or(Figures::NONE),
        outages: whole(outages.iter().filter(|time| !time.is_zero()).count()),
        longest_outage_seconds: outages.iter().max().map_or(0.0, Duration::as_secs_f64),
        seconds_until_all_have_it: Figures::of(
            until_all.iter().map(Duration::as_secs_f64).collect(),
        ),
        unfinished: whole(count - until_all.len()),
        failing_seconds_per_replica: failing.as_secs_f64() / all_replicas,
        api_requests_per_second: runs.iter().map(|run| run.requests.1).max().unwrap_or(0),
        api_requests: mean(runs.iter().map(|run| run.requests.0)),
        api_conflicts: mean(runs.iter().map(|run| run.writes.1))
            / mean(runs.iter().map(|run| run.writes.0)).max(1.0),
        api_connections: runs.iter().map(|run| run.watches).max().unwrap_or(0),
        api_bytes: mean(runs.iter().map(|run| run.bytes)),
        chart: chart(&runs, until_all.iter().max().copied().unwrap_or_default() + last_change),
    }
}

impl Figures {
    const NONE: Self = Self { mean: 0.0, p5: 0.0, median: 0.0, p95: 0.0, worst: 0.0 };

    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        // The least value that so many percent of the values do not exceed.
        let at =
            |percent: usize| values.get((values.len() * percent).div_ceil(100).max(1) - 1).copied();
        Some(Self {
            mean: values.iter().sum::<f64>() / number(values.len()),
            p5: at(5)?,
            median: at(50)?,
            p95: at(95)?,
            worst: at(100)?,
        })
    }
}

/// How many replicas are down in equal parts of the time until all are up and have the content.
fn chart(runs: &[Run], until_all: Duration) -> Vec<Point> {
    let downs = runs.iter().flat_map(|run| &run.downs);
    let end = downs.map(|(_, until)| *until).max().unwrap_or_default().max(until_all);
    let width = (end / COLUMNS).max(Duration::from_millis(10)).as_secs_f64();
    let column = |n: u32| Point { seconds: f64::from(n) * width, mean: 0.0, worst: 0 };
    let mut columns: Vec<Point> = (0..COLUMNS).map(column).collect();
    let share = 1.0 / (width * number(runs.len()));
    for run in runs {
        let steps = overlap::steps(&run.downs);
        for ((from, count), (until, _)) in steps.iter().zip(steps.iter().skip(1)) {
            let (from, until) = (from.as_secs_f64(), until.as_secs_f64());
            for column in columns.iter_mut().filter(|_| *count > 0) {
                let overlap = until.min(column.seconds + width) - from.max(column.seconds);
                if overlap > 0.0 {
                    column.mean += f64::from(*count) * overlap * share;
                    column.worst = column.worst.max(*count);
                }
            }
        }
    }
    columns
}

#[expect(clippy::cast_precision_loss, reason = "a mean")]
fn mean(figures: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = number(figures.len().max(1));
    figures.sum::<u64>() as f64 / count
}

fn whole(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a number of runs or columns")]
fn number(count: usize) -> f64 {
    count as f64
}
