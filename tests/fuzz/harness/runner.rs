//! Runs a target: makes inputs, checks each within a limit of time, and describes a failure.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::mutate::Mutator;
use super::random::Random;
use super::shrink::shrink;

/// The seed of the inputs of each run without `FUZZ_SEED`.
const SEED: u64 = 20_261_122;
/// The most CPU time for one input. Most need less than a millisecond.
const SLOW: Duration = Duration::from_secs(2);
/// How long an input may take before it counts as one that never ends, on a busy machine.
const HANG: Duration = Duration::from_secs(30);
/// How long an input is made smaller.
const SHRINK: Duration = Duration::from_secs(20);
/// The stack of tokio's threads, on which volumes are read.
const STACK: usize = 2 * 1024 * 1024;
/// The most inputs that become seeds.
const MOST_SEEDS: usize = 400;

/// What is fuzzed.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Inputs to start from.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Words of the format.
    pub(crate) dictionary: &'static [&'static str],
    /// The number of inputs in `cargo test`.
    pub(crate) inputs: u32,
    /// The longest input, in bytes.
    pub(crate) longest: usize,
}

impl Target {
    pub(crate) fn new(name: &'static str, seeds: &[&str]) -> Self {
        let seeds = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
        Self { name, seeds, dictionary: &[], inputs: 2000, longest: 4096 }
    }
}

/// Fuzzes a target. `check` panics if something is wrong; it returns the kind of the outcome.
pub(crate) fn fuzz(target: Target, check: impl Fn(&[u8]) -> String + Send + 'static) {
    static HOOK: Once = Once::new();
    HOOK.call_once(catch_messages);
    let name = target.name;
    let current = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (report, result) = mpsc::channel();
    let now = Arc::clone(&current);
    let run = move || drop(report.send(run(&target, &check, &now)));
    thread::Builder::new().name(format!("fuzz {name}")).stack_size(STACK).spawn(run).unwrap();
    let mut before = 0;
    loop {
        match result.recv_timeout(HANG) {
            Ok(Ok(figures)) => return println!("fuzz {name}: {figures}"),
            Ok(Err(failure)) => panic!("{failure}"),
            Err(RecvTimeoutError::Disconnected) => panic!("fuzz {name}: the thread has ended"),
            Err(RecvTimeoutError::Timeout) => {
                let (number, input) = current.lock().unwrap().clone();
                assert!(number != before, "{}", describe(name, number, "it does not end", &input));
                before = number;
            }
        }
    }
}

fn run(
    target: &Target,
    check: &impl Fn(&[u8]) -> String,
    current: &Mutex<(u64, Vec<u8>)>,
) -> Result<String, String> {
    let seconds = variable("FUZZ_SECONDS").and_then(|text| text.parse().ok());
    let deadline = seconds.map(|seconds| elapsed() + Duration::from_secs(seconds));
    let mut random = Random::new(seed(), target.name);
    let mutator = Mutator { dictionary: target.dictionary, longest: target.longest };
    let keep = variable("FUZZ_KEEP").map(|file| format!("{file}.{}", target.name));
    let (mut corpus, mut outcomes) = (target.seeds.clone(), BTreeSet::new());
    let mut number = 0;
    loop {
        let input = match corpus.get(usize::try_from(number).unwrap()) {
            // Each seed itself, first.
            Some(seed) if number < target.seeds.len() as u64 => seed.clone(),
            _ => {
                let (one, other) = (random.below(corpus.len()), random.below(corpus.len()));
                let (one, other) = (corpus.get(one), corpus.get(other));
                let one = one.cloned().unwrap_or_default();
                mutator.mutate(&mut random, one, other.map_or(&[], Vec::as_slice))
            }
        };
        *current.lock().unwrap() = (number + 1, input.clone());
        if let Some(file) = &keep {
            std::fs::write(file, &input).unwrap();
        }
        match try_one(check, &input) {
            Ok(outcome) => {
                if outcomes.insert(kind(&outcome)) && corpus.len() < MOST_SEEDS {
                    corpus.push(input);
                }
            }
            Err(what) => {
                let until = elapsed() + SHRINK;
                let fails = |input: &[u8]| {
                    // It is at work, and does not hang.
                    current.lock().unwrap().0 += 1;
                    elapsed() < until && try_one(check, input).is_err()
                };
                let least = shrink(&input, fails);
                let what = try_one(check, &least).err().unwrap_or(what);
                return Err(describe(target.name, number, &what, &least));
            }
        }
        number += 1;
        let is_done = match deadline {
            Some(deadline) => elapsed() >= deadline,
            None => number >= u64::from(target.inputs),
        };
        if is_done {
            return Ok(format!("{number} inputs, {} outcomes, 0 failures", outcomes.len()));
        }
    }
}

/// Checks one input; what is wrong, if something is.
fn try_one(check: &impl Fn(&[u8]) -> String, input: &[u8]) -> Result<String, String> {
    let before = cpu_time();
    MESSAGE.with_borrow_mut(|message| *message = Some(String::new()));
    let checked = panic::catch_unwind(AssertUnwindSafe(|| check(input)));
    let message = MESSAGE.with_borrow_mut(Option::take);
    let took = cpu_time().saturating_sub(before);
    match checked {
        Err(_) => Err(message.unwrap_or_default()),
        Ok(_) if took > SLOW => Err(format!("it took {took:?} of CPU time")),
        Ok(outcome) => Ok(outcome),
    }
}

thread_local! {
    /// Of the last panic, where panics are expected.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the messages of panics in [`try_one`] from standard error: shrinking causes many.
fn catch_messages() {
    let other = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_expected = MESSAGE.with_borrow_mut(|message| match message {
            Some(message) => {
                *message = info.to_string();
                true
            }
            None => false,
        });
        if !is_expected {
            other(info);
        }
    }));
}

/// The kind of an outcome: numbers and quoted texts are of no importance.
fn kind(outcome: &str) -> String {
    let mut parts = outcome.split('`');
    let mut kind = String::new();
    while let Some(outside) = parts.next() {
        kind.extend(outside.chars().filter(|c| !c.is_ascii_digit()).take(200));
        parts.next();
    }
    kind
}

fn describe(name: &str, number: u64, what: &str, input: &[u8]) -> String {
    let seed = seed();
    let (length, shown) = (input.len(), input.escape_ascii());
    format!(
        "fuzz {name}: {what}\ninput {number} of FUZZ_SEED={seed}, made smaller to {length} bytes:\nb\"{shown}\""
    )
}

fn seed() -> u64 {
    variable("FUZZ_SEED").and_then(|text| text.parse().ok()).unwrap_or(SEED)
}

#[expect(clippy::disallowed_methods, reason = "the variables are this test's only input")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn cpu_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

fn elapsed() -> Duration {
    time(ClockId::Monotonic)
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}
