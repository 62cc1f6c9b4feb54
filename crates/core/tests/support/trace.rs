//! The observable behaviour of a rule as text: the facts that podnudge reports, the publications
//! and the actions. Internal commands (scans, checks, inspections of the target) are left out, so
//! that another way to the same result gives the same trace.
//!
//! The texts are written here and not derived from the names in `src`, so that renaming a variant
//! changes no trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use podnudge_core::command::{Act, Command, Intent, RollBack};
use podnudge_core::event::VolumeId;
use podnudge_core::evidence::Evidence;
use podnudge_core::fact::{Attempt, Basis, Fact, Occasion};
use podnudge_core::kubelet::StartDelay;
use podnudge_core::snapshot::{Changes, Digest, Key};

/// Renders the observable part of these commands, one line per instant. `restarts` are the
/// positions in the log where podnudge restarted.
///
/// - Digests are numbered in the order of their first appearance.
/// - Consecutive equal lines are one line with their number and the time of the first and the last.
/// - If such lines contain an action, their number and the time of the last are left out: the line
///   has the time of the first, and `and again`.
/// - An action that did not reach its target (absent, or not attempted) is repeated until that
///   changes. This is also `and again`. Its final outcome is a fact with a line of its own.
pub(crate) fn render(log: &[(Duration, Command)], restarts: &[usize]) -> String {
    let mut trace = Trace::default();
    for (place, (at, command)) in log.iter().enumerate() {
        if restarts.contains(&place) {
            (trace.unreached, trace.claimed) = (None, None);
            trace.push(Entry::new(*at, "podnudge restarts".to_owned()));
        }
        trace.add(*at, command);
    }
    folded(&trace.entries)
}

#[derive(Default)]
struct Trace {
    entries: Vec<Entry>,
    unreached: Option<Unreached>,
    digests: BTreeMap<Digest, usize>,
    /// The digest that the slot was asked for.
    claimed: Option<Digest>,
}

struct Entry {
    at: Duration,
    words: String,
    /// The attempt, for an action.
    attempt: Option<u32>,
    times: usize,
    /// Whether the action is repeated after this entry.
    again: bool,
}

/// The last action, while it is unknown whether it reached its target.
struct Unreached {
    action: Action,
    /// The entry that reports that it did not.
    reported: Option<usize>,
}

/// An action without its attempt and its time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Action {
    digest: Digest,
    is_restart: bool,
    in_any_case: bool,
}

impl Trace {
    fn add(&mut self, at: Duration, command: &Command) {
        let claimed = self.claimed;
        match command {
            Command::Claim(_, digest, _) => self.claimed = Some(*digest),
            Command::Release(_) => self.claimed = None,
            _ => {}
        }
        let words = match command {
            Command::Act(act) if act.is_preparation() => return,
            Command::Act(act) => return self.act(at, act),
            Command::Report(_, fact) => self.fact(fact),
            Command::Publish(_, digest) => format!("publish {}", self.name(*digest)),
            Command::RollBack(_, RollBack { to, failed, reason }) => {
                let (bad, to) = (self.name(*failed), self.name(*to));
                format!("publish {to} again and quarantine {bad}: {reason}")
            }
            Command::Claim(_, digest, Intent::Act) => {
                format!("asks for a slot for {}", self.name(*digest))
            }
            // The slot that was got to act.
            Command::Claim(_, digest, Intent::Keep) if claimed == Some(*digest) => return,
            Command::Claim(_, digest, Intent::Keep) => {
                format!("asks for a slot to recover from {}", self.name(*digest))
            }
            Command::Release(_) => "gives its slot back".to_owned(),
            Command::Halt(_, digest, reason) => {
                format!("tells the others that {} failed: {reason}", self.name(*digest))
            }
            Command::TryHalted(_, digest) => {
                format!("tries {} in spite of its failure", self.name(*digest))
            }
            Command::ClearHalt(_, digest) => {
                format!("tells the others that {} works", self.name(*digest))
            }
            Command::Scan(..)
            | Command::LookAtPod(..)
            | Command::Resync(_)
            | Command::RenewWatches
            | Command::Inspect(_)
            | Command::Preflight(_)
            | Command::Check(..)
            | Command::Remember(..)
            | Command::Expiry(..)
            | Command::Probe(..)
            | Command::ReadPublished(_)
            | Command::Approve(..)
            | Command::Verify(_)
            | Command::EndPod(..)
            | Command::Persist(..) => return,
        };
        self.push(Entry::new(at, words));
        match reach(command) {
            Reach::Open => {}
            Reach::Settled => self.unreached = None,
            Reach::Missed => {
                let last = self.entries.len() - 1;
                if let Some(unreached) = &mut self.unreached {
                    unreached.reported = unreached.reported.or(Some(last));
                }
            }
        }
    }

    fn act(&mut self, at: Duration, act: &Act) {
        let action = Action {
            digest: act.digest,
            is_restart: act.restart,
            in_any_case: act.fresh_after.is_none(),
        };
        let before = self.unreached.as_ref().filter(|before| before.action == action);
        if let Some(reported) = before.and_then(|before| before.reported) {
            self.entries[reported].again = true;
            return;
        }
        self.unreached = Some(Unreached { action, reported: None });
        let verb = if action.is_restart { "restart" } else { "act" };
        let in_any_case = if action.in_any_case { " in any case" } else { "" };
        let words = format!("{verb} for {}{in_any_case}", self.name(act.digest));
        self.push(Entry { attempt: Some(act.attempt), ..Entry::new(at, words) });
    }

    fn push(&mut self, entry: Entry) {
        let key = |entry: &Entry| (entry.at, entry.words.clone(), entry.attempt, entry.again);
        match self.entries.last_mut() {
            Some(last) if key(last) == key(&entry) => last.times += 1,
            _ => self.entries.push(entry),
        }
    }

    fn name(&mut self, digest: Digest) -> String {
        let next = self.digests.len() + 1;
        format!("digest-{}", self.digests.entry(digest).or_insert(next))
    }

    fn fact(&mut self, fact: &Fact) -> String {
        match fact {
            Fact::Baseline(digest, basis) => {
                format!("baseline {}: {}", self.name(*digest), because(*basis))
            }
            Fact::VolumeMissing(volume) => format!("{} is missing", path(*volume)),
            Fact::VolumeUnmounted(volume) => format!("{} is not mounted any more", path(*volume)),
            Fact::VolumeBack(volume) => format!("{} is present again", path(*volume)),
            Fact::Polling(volume, reason) => format!("{} is polled: {reason}", path(*volume)),
            Fact::WatchedAgain(volume) => format!("{} is watched again", path(*volume)),
            Fact::MissedByWatch(volume) => {
                format!("{} has a commit that the watch missed", path(*volume))
            }
            Fact::Unreadable(volume, reason) => {
                format!("{} is unreadable: {reason}", path(*volume))
            }
            Fact::KeysChanged(volume, changes) => format!("{}: {}", path(*volume), keys(changes)),
            Fact::Unchanged(digest) => format!("unchanged {}", self.name(*digest)),
            Fact::CheckedAgain(digest, times) => {
                format!("{} is checked again, after {times} interrupted checks", self.name(*digest))
            }
            Fact::Passed(digest) => format!("{} passed the checks", self.name(*digest)),
            Fact::Rejected(digest, reason) => {
                format!("rejected {}: {reason}", self.name(*digest))
            }
            Fact::CheckFailed(reason, wait) => {
                format!("check not possible, again in {}: {reason}", time(*wait))
            }
            Fact::Scheduled(digest, wait, occasion) => {
                format!("scheduled {} in {}{}", self.name(*digest), time(*wait), why(*occasion))
            }
            Fact::Cancelled(digest) => {
                format!("cancelled, the content is {} again", self.name(*digest))
            }
            Fact::Triggered => "triggered".to_owned(),
            Fact::Paused(wait) => format!("paused for {}", time(*wait)),
            Fact::Resumed => "resumed".to_owned(),
            Fact::Published(digest) => format!("published {}", self.name(*digest)),
            Fact::PublicationLost(_) => "the publication is lost".to_owned(),
            Fact::RollingBack(bad, good, reason) => {
                let (bad, good) = (self.name(*bad), self.name(*good));
                format!("rolling back {bad} to {good}: {reason}")
            }
            Fact::RolledBack(digest) => format!("rolled back to {}", self.name(*digest)),
            Fact::SlotHeld(slot) => format!("has slot {slot}"),
            Fact::WithoutSlot(reason) => format!("acts without a slot: {reason}"),
            Fact::ReadinessUnknown(reason) => format!("readiness unknown: {reason}"),
            Fact::SlotLost(reason) => format!("slot lost: {reason}"),
            Fact::Draining(digest, wait) => {
                format!("draining for {} before {}", time(*wait), self.name(*digest))
            }
            Fact::Sent(digest, target) => {
                format!("signalled {} for {}", target.text, self.name(*digest))
            }
            Fact::Accepted(digest, answer) => format!("accepted {}: {answer}", self.name(*digest)),
            Fact::Restarted(digest, target, delay) => {
                let kubelet = |delay: &StartDelay| {
                    format!(", which the kubelet starts after {}", time(delay.delay))
                };
                let kubelet = delay.as_ref().map_or_else(String::new, kubelet);
                format!("restarted {} for {}{kubelet}", target.text, self.name(*digest))
            }
            Fact::EndingForPod(digest, code) => {
                format!("podnudge ends with {code} for {}", self.name(*digest))
            }
            Fact::Evicted(digest) => format!("pod evicted for {}", self.name(*digest)),
            Fact::PodNotRestarted(digest, reason) => {
                format!("pod not restarted for {}: {reason}", self.name(*digest))
            }
            Fact::Escalating(digest, reason) => {
                format!("escalating to a restart for {}: {reason}", self.name(*digest))
            }
            Fact::Held(reason, None) => format!("held: {reason}"),
            Fact::Held(reason, Some(wait)) => format!("held for {}: {reason}", time(*wait)),
            Fact::Fresh(digest, target, _) => {
                format!("{} was read at start by {}", self.name(*digest), target.text)
            }
            Fact::TargetAbsent(reason) => format!("target absent: {reason}"),
            Fact::Retrying(_, Attempt { number, next, .. }, reason) => {
                format!("attempt {number} failed, next in {}: {reason}", time(*next))
            }
            Fact::Refused(reason) => format!("not attempted: {reason}"),
            Fact::GaveUp(digest, reason, attempts) => {
                format!("gave up {} after attempt {attempts}: {reason}", self.name(*digest))
            }
            Fact::Tripped(digest, reason) => format!("tripped by {}: {reason}", self.name(*digest)),
            Fact::KeepsEnding(digest, reason) => format!("with {}, {reason}", self.name(*digest)),
            Fact::Applied(digest, evidence, after) => {
                let (name, evidence) = (self.name(*digest), evidence.name());
                format!("applied {name} after {} ({evidence})", time(*after))
            }
            Fact::Delivered(digest, evidence, after) => {
                let (name, how) = (self.name(*digest), without_proof(*evidence));
                format!("delivered {name} after {}, {how}", time(*after))
            }
            Fact::Preflight(problem) => {
                format!("problem {}: {}", problem.kind.name(), problem.reason)
            }
            Fact::PreflightSolved(kind) => format!("solved {}", kind.name()),
            Fact::Superseded(digest) => format!("superseded {}", self.name(*digest)),
        }
    }
}

impl Entry {
    fn new(at: Duration, words: String) -> Self {
        Self { at, words, attempt: None, times: 1, again: false }
    }
}

/// Renders the lines: the entries of one instant share a line, and equal lines are folded.
fn folded(entries: &[Entry]) -> String {
    let instants: Vec<&[Entry]> = entries.chunk_by(|one, next| one.at == next.at).collect();
    let mut text = String::new();
    for equal in instants.chunk_by(|one, next| line(one, false) == line(next, false)) {
        let (first, last) = (equal[0], equal[equal.len() - 1]);
        let acts = first.iter().any(|entry| entry.attempt.is_some());
        let from = seconds(first[0].at);
        let (time, repetition) = match equal.len() {
            1 => (from, String::new()),
            _ if acts => (from, "; and again".to_owned()),
            times => (format!("{from}..{}", seconds(last[0].at)), format!(" ({times} times)")),
        };
        let line = line(first, true);
        writeln!(text, "{time:>10}  {line}{repetition}").expect("a write to a String succeeds");
    }
    text
}

/// Renders one instant. Without attempts, actions that differ only in their attempt are equal.
fn line(entries: &[Entry], with_attempts: bool) -> String {
    let words = entries.iter().map(|Entry { words, attempt, times, again, .. }| {
        let attempt = attempt.filter(|_| with_attempts);
        let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
        let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        let again = if *again { "; and again" } else { "" };
        format!("{words}{attempt}{times}{again}")
    });
    words.collect::<Vec<_>>().join("; ")
}

/// What a command tells about the last action.
enum Reach {
    /// Nothing.
    Open,
    /// The action did not reach its target.
    Missed,
    /// The action reached its target, or is no longer pending.
    Settled,
}

fn reach(command: &Command) -> Reach {
    let Command::Report(_, fact) = command else {
        return match command {
            Command::RollBack(..) => Reach::Settled,
            _ => Reach::Open,
        };
    };
    match fact {
        Fact::TargetAbsent(_) | Fact::Refused(_) => Reach::Missed,
        Fact::VolumeMissing(_)
        | Fact::VolumeUnmounted(_)
        | Fact::VolumeBack(_)
        | Fact::Polling(..)
        | Fact::WatchedAgain(_)
        | Fact::MissedByWatch(_)
        | Fact::Unreadable(..)
        | Fact::KeysChanged(..)
        | Fact::Unchanged(_)
        | Fact::CheckedAgain(..)
        | Fact::Passed(_)
        | Fact::Rejected(..)
        | Fact::CheckFailed(..)
        | Fact::Scheduled(..)
        | Fact::Cancelled(_)
        | Fact::Draining(..)
        | Fact::SlotHeld(_)
        | Fact::WithoutSlot(_)
        | Fact::SlotLost(_)
        | Fact::ReadinessUnknown(_)
        | Fact::Triggered
        | Fact::Paused(_)
        | Fact::Resumed
        | Fact::PublicationLost(_)
        | Fact::Held(..)
        | Fact::Preflight(_)
        | Fact::PreflightSolved(_) => Reach::Open,
        Fact::Baseline(..)
        | Fact::Published(_)
        | Fact::RollingBack(..)
        | Fact::RolledBack(_)
        | Fact::Sent(..)
        | Fact::Accepted(..)
        | Fact::Restarted(..)
        | Fact::EndingForPod(..)
        | Fact::PodNotRestarted(..)
        | Fact::Evicted(_)
        | Fact::Escalating(..)
        | Fact::Fresh(..)
        | Fact::Retrying(..)
        | Fact::GaveUp(..)
        | Fact::Tripped(..)
        | Fact::KeepsEnding(..)
        | Fact::Applied(..)
        | Fact::Delivered(..)
        | Fact::Superseded(_) => Reach::Settled,
    }
}

fn because(basis: Basis) -> &'static str {
    match basis {
        Basis::Remembered => "it is remembered as applied",
        Basis::TargetIsYounger => "the target started after its commit",
        Basis::Unchecked => "the target started after its commit, and it is being checked",
        Basis::Unknown => "the start of the target is unknown",
        Basis::Never => "on-start is never",
    }
}

fn path(volume: VolumeId) -> String {
    format!("volume {}", volume.0)
}

/// `added a, changed b c`.
fn keys(Changes { added, changed, removed }: &Changes) -> String {
    let list = |verb: &str, keys: &[Key]| {
        let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
        (!names.is_empty()).then(|| format!("{verb} {}", names.join(" ")))
    };
    let all = [list("added", added), list("changed", changed), list("removed", removed)];
    let all: Vec<_> = all.into_iter().flatten().collect();
    if all.is_empty() { "no key changed".to_owned() } else { all.join(", ") }
}

/// Why content is rolled out that is not new.
fn why(occasion: Occasion) -> &'static str {
    match occasion {
        Occasion::New => "",
        Occasion::Unknown => ": nothing shows whether it was read",
    }
}

fn time(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

fn seconds(time: Duration) -> String {
    format!("{:.3}s", time.as_secs_f64())
}

/// What is known of content that was delivered, and not proven.
fn without_proof(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Unread => "but nothing read it",
        Evidence::Read => "and it was read",
        _ => "without proof",
    }
}
