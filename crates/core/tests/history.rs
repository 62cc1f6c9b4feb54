//! What podnudge remembers of the recent changes, from what the core reports.

use std::path::Path;
use std::time::Duration;

use podnudge_core::clock::{Moment, UnixTime};
use podnudge_core::command::{Act, Command, Extent};
use podnudge_core::event::{Absence, Acted, RuleId, Targets, VolumeId};
use podnudge_core::evidence::Evidence;
use podnudge_core::fact::{AfterFresh, Attempt, Basis, Fact, Occasion};
use podnudge_core::history::{History, MOST_BYTES, MOST_CHANGES};
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{Changes, Digest, Key};
use podnudge_core::status::{Change, Outcome, State, StepName};

use crate::scenarios::{files_below, played};
use crate::support::random::Random;

const RULE: RuleId = RuleId(0);
const ATTEMPT: Attempt = Attempt { number: 1, most: 3, next: Duration::ZERO, is_unproven: true };

/// A history, and its clock in milliseconds.
#[derive(Default)]
struct Played {
    history: History,
    millis: u64,
}

impl Played {
    fn at(&mut self, millis: u64) -> &mut Self {
        self.millis = millis;
        self
    }

    fn now(&self) -> UnixTime {
        UnixTime(Duration::from_millis(self.millis))
    }

    fn command(&mut self, command: &Command) -> &mut Self {
        self.history.commanded(self.now(), command);
        self
    }

    fn fact(&mut self, fact: Fact) -> &mut Self {
        self.command(&Command::Report(RULE, fact))
    }

    fn keys_change(&mut self, committed: u64, names: &[&str]) -> &mut Self {
        self.history.read(RULE, UnixTime(Duration::from_millis(committed)));
        self.fact(Fact::KeysChanged(VolumeId(0), changes(names)))
    }

    /// One line for each change, the oldest first.
    fn lines(&self) -> Vec<String> {
        self.history.changes(RULE, State::Waiting).iter().rev().map(line).collect()
    }
}

fn changes(names: &[&str]) -> Changes {
    let changed = names.iter().map(|name| Key(name.as_bytes().to_vec())).collect();
    Changes { changed, ..Changes::default() }
}

fn line(change: &Change) -> String {
    let digest = change.digest.map_or("?".to_owned(), |digest| digest.0[0].to_string());
    let steps = change.steps.iter();
    let steps: Vec<String> =
        steps.map(|step| format!("{} {}", step.began_at.0.as_millis(), step.step.name())).collect();
    let end = change.ended_at.map_or("-".to_owned(), |end| end.0.as_millis().to_string());
    let keys = change.keys.clone().unwrap_or_default();
    let because = change.reason.as_ref().map_or("", |reason| &reason.message);
    let name = change.outcome.name();
    format!("{digest} [{}] {}, {end} {name} {because}", keys.changed.join(" "), steps.join(", "))
        .trim_end()
        .to_owned()
}

fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

fn why() -> Reason {
    Reason::new("why")
}

fn publish(number: u8) -> Command {
    Command::Publish(RULE, digest(number))
}

#[test]
fn a_change_has_its_steps_from_the_commit_to_the_proof() {
    let mut played = Played::default();
    played.at(1500).keys_change(1000, &["a.conf"]).command(&Command::Check(RULE, digest(2)));
    played.at(1600).fact(Fact::Passed(digest(2))).fact(Fact::Scheduled(
        digest(2),
        Duration::ZERO,
        Occasion::New,
    ));
    played.at(4600).fact(Fact::Held(why(), None));
    played.at(9000).command(&publish(2));
    played.at(9100).fact(Fact::Published(digest(2))).fact(Fact::Sent(digest(2), targets("")));
    assert_eq!(
        played.lines(),
        ["2 [a.conf] 1000 settle, 1500 check, 1600 wait, 9000 act, 9100 verify, - in-progress why"]
    );
    let took = Duration::from_secs(9);
    played.at(10_000).fact(Fact::Applied(digest(2), Evidence::Verified, took));
    assert_eq!(
        played.lines(),
        ["2 [a.conf] 1000 settle, 1500 check, 1600 wait, 9000 act, 9100 verify, 10000 applied why"]
    );
}

#[test]
fn a_rollback_belongs_to_the_change_that_failed() {
    let mut played = Played::default();
    played.at(1000).keys_change(1000, &["a"]).command(&publish(2));
    played.at(1100).fact(Fact::Accepted(digest(2), String::new()));
    played.at(2000).fact(Fact::RollingBack(digest(2), digest(1), why()));
    played.at(2100).command(&Command::Publish(RULE, digest(1)));
    played.at(2200).fact(Fact::Accepted(digest(1), String::new()));
    played.at(3000).fact(Fact::RolledBack(digest(1)));
    assert_eq!(
        played.lines(),
        ["2 [a] 1000 act, 1100 verify, 2000 act, 2200 verify, 3000 rolled-back why"]
    );
    // The good content may be rolled out again later, as a change of its own.
    played.at(5000).keys_change(4900, &["a"]).command(&publish(1));
    assert_eq!(played.lines()[1..], ["1 [a] 4900 settle, 5000 act, - in-progress"]);
}

/// The action of an attempt, as the core commands it.
fn attempt(number: u32) -> Command {
    Command::Act(Act {
        rule: RULE,
        digest: digest(2),
        fresh_after: None,
        extent: Extent::Send,
        lenient: false,
        at: Moment::default(),
        before: None,
        attempt: number,
        restart: false,
        changed: Vec::new(),
    })
}

#[test]
fn content_that_was_read_at_the_start_is_applied_with_its_proof() {
    let mut played = Played::default();
    played.at(1000).keys_change(1000, &["a"]).command(&publish(2)).command(&attempt(1));
    played.at(2000).fact(Fact::Fresh(digest(2), targets(""), AfterFresh::Verifies));
    assert_eq!(played.lines(), ["2 [a] 1000 act, 2000 verify, - in-progress"]);
    played.at(3000).fact(Fact::TargetAbsent(why()));
    assert_eq!(played.lines(), ["2 [a] 1000 act, 2000 verify, 3000 wait, - in-progress why"]);
    played.at(4000).command(&attempt(1));
    played.at(5000).fact(Fact::Fresh(digest(2), targets(""), AfterFresh::Ends));
    let end = "3000 wait, 4000 act, 5000 applied why";
    assert_eq!(played.lines(), [format!("2 [a] 1000 act, 2000 verify, {end}")]);
}

/// A refusal is reported once only, and podnudge tries again for minutes.
#[test]
fn a_port_that_refuses_connections_is_waited_for() {
    let mut played = Played::default();
    played.at(1000).keys_change(1000, &["a"]);
    for n in 0..3 {
        played.at(2000 + 1000 * n).command(&attempt(1));
        played.at(2100 + 1000 * n);
        if n == 0 {
            played.fact(Fact::Refused(why()));
        }
        played.history.acted(played.now(), RULE, &Acted::Refused(why()));
    }
    let end = "3000 act, 3100 wait, 4000 act, 4100 wait, - in-progress why";
    let first = "2 [a] 1000 settle, 2000 act, 2100 wait, ";
    assert_eq!(played.lines(), [format!("{first}{end}")]);
}

/// Of many attempts some are left out, and nobody is told that podnudge acted meanwhile.
#[test]
fn a_long_wait_for_a_port_is_shown_as_a_wait() {
    for is_checked in [false, true] {
        let mut played = Played::default();
        played.at(1000).keys_change(1000, &["a"]);
        if is_checked {
            played.at(1500).command(&Command::Check(RULE, digest(2)));
        }
        for n in 0..300 {
            played.at(2000 + 1000 * n).command(&attempt(1)).at(2100 + 1000 * n);
            let absent = Acted::Absent(Absence::unread(why()));
            played.history.acted(played.now(), RULE, &absent);
        }
        let change = played.history.changes(RULE, State::Waiting).remove(0);
        let ends = change.steps.iter().skip(1).map(|next| next.began_at).chain([played.now()]);
        let acts = change.steps.iter().zip(ends).filter(|(step, _)| step.step == StepName::Act);
        let longest = acts.map(|(step, end)| end.since(step.began_at)).max();
        assert_eq!(longest, Some(Duration::from_millis(100)), "{}", line(&change));
    }
}

/// The hint says how to end the hold: not what to do any more. A pause also ends by itself.
#[test]
fn the_hint_of_a_hold_ends_with_the_trigger_or_the_pause() {
    for ends in [Fact::Triggered, Fact::Resumed] {
        let mut played = Played::default();
        let held = Reason::new("waits for a person").hint("tell it");
        played.at(1000).keys_change(1000, &["a"]).fact(Fact::Held(held.clone(), None));
        let reason = |played: &Played| played.history.changes(RULE, State::Held).remove(0).reason;
        assert_eq!(reason(&played), Some(held.clone()));
        played.at(2000).fact(ends);
        assert_eq!(reason(&played), Some(Reason { hint: None, ..held }));
    }
}

/// What is only checked at the start is no change.
#[test]
fn the_check_of_a_baseline_is_no_change() {
    let mut played = Played::default();
    played.at(1000).command(&Command::Check(RULE, digest(1))).fact(Fact::Passed(digest(1)));
    assert_eq!(played.history.changes(RULE, State::Checking).len(), 1);
    played.fact(Fact::Baseline(digest(1), Basis::TargetIsYounger));
    assert!(played.history.changes(RULE, State::Idle).is_empty());
}

/// A change whose attempts begin every ten seconds, and all fail.
fn failed_attempts(most: u32) -> Change {
    let mut played = Played::default();
    played.at(1000).keys_change(1000, &["a"]).fact(Fact::Passed(digest(2)));
    for n in 1..=most {
        played.at(u64::from(n) * 10_000).command(&attempt(n));
        played.at(u64::from(n) * 10_000 + 100).fact(Fact::Sent(digest(2), targets("")));
        if n < most {
            let failed = Attempt { number: n, most, ..ATTEMPT };
            played.at(u64::from(n) * 10_000 + 5000).fact(Fact::Retrying(digest(2), failed, why()));
        }
    }
    played.at(u64::from(most) * 10_000 + 5000).fact(Fact::GaveUp(digest(2), why(), most));
    let [change] = <[Change; 1]>::try_from(played.history.changes(RULE, State::Failed)).unwrap();
    assert_eq!((change.attempts, change.attempts_allowed), (most, Some(most)));
    change
}

#[test]
fn each_of_the_default_number_of_attempts_is_remembered() {
    let change = failed_attempts(10);
    let names: Vec<&str> = change.steps.iter().map(|step| step.step.name()).collect();
    assert_eq!(names, ["wait", "act", "verify"].repeat(10));
}

/// All steps have their own times, whatever was left out between them.
#[test]
fn of_very_many_attempts_those_in_the_middle_are_one_step() {
    let change = failed_attempts(30);
    let line = line(&change);
    let first = "2 [a] 1000 wait, 10000 act, 10100 verify, 15000 wait, 20000 act, 20100 verify, 25000 repeat, ";
    assert!(line.starts_with(first), "{line}");
    assert_eq!(line.matches("repeat").count(), 1, "{line}");
    let last = "285000 wait, 290000 act, 290100 verify, 295000 wait, 300000 act, 300100 verify, 305000 failed why";
    assert!(line.ends_with(last), "{line}");
    // The step for those in the middle ends where the first of the last attempts begins.
    assert_eq!(change.steps[7].step, StepName::Wait, "{line}");
}

/// What was not sent was no attempt: the same attempt is made again.
#[test]
fn a_refusal_is_no_attempt() {
    let mut played = Played::default();
    played.at(1000).keys_change(1000, &["a"]);
    for n in 0..3 {
        played.at(2000 + 1000 * n).command(&attempt(1)).at(2100 + 1000 * n);
        played.history.acted(played.now(), RULE, &Acted::Refused(why()));
    }
    assert_eq!(played.history.changes(RULE, State::Refused)[0].attempts, 1);
}

#[test]
fn newer_content_ends_the_changes_that_wait() {
    let mut played = Played::default();
    let scheduled = |number| Fact::Scheduled(digest(number), Duration::from_secs(9), Occasion::New);
    played.at(1000).keys_change(1000, &["a"]).fact(scheduled(2));
    played.at(2000).keys_change(2000, &["b"]).fact(scheduled(3));
    played.at(3000).keys_change(3000, &["c"]).fact(scheduled(4));
    played.at(4000).fact(Fact::Cancelled(digest(1)));
    assert_eq!(
        played.lines(),
        [
            "2 [a] 1000 wait, 2000 superseded",
            "3 [b] 2000 wait, 3000 superseded",
            "4 [c] 3000 wait, 4000 cancelled"
        ]
    );
}

#[test]
fn content_that_went_back_before_it_was_looked_at_is_no_change() {
    let mut played = Played::default();
    played.at(1000).keys_change(900, &["a"]).fact(Fact::Unchanged(digest(1)));
    assert_eq!(played.lines(), Vec::<String>::new());
}

#[test]
fn a_trigger_is_a_change_of_its_own_unless_one_goes_on() {
    let mut played = Played::default();
    played.at(1000).fact(Fact::Triggered).command(&publish(1));
    played.at(1500).fact(Fact::Delivered(digest(1), Evidence::Delivered, Duration::ZERO));
    played.at(2000).keys_change(2000, &["a"]).fact(Fact::Rejected(digest(2), why()));
    played.at(3000).fact(Fact::Triggered).command(&Command::Check(RULE, digest(2)));
    played.at(4000).fact(Fact::Triggered);
    let changes = played.history.changes(RULE, State::Checking);
    let triggered: Vec<bool> = changes.iter().rev().map(|change| change.triggered).collect();
    assert_eq!(triggered, [true, false, true], "{:?}", played.lines());
    assert_eq!(
        played.lines()[1..],
        ["2 [a] 2000 settle, 2000 rejected why", "2 [] 3000 check, - in-progress"]
    );
}

#[test]
fn names_of_keys_and_reasons_are_cut() {
    let mut played = Played::default();
    let names: Vec<String> = (0..100).map(|n| format!("{n}{}", "ü".repeat(1000))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let long = Reason::new("x".repeat(100_000)).hint("y".repeat(100_000));
    played.at(1000).keys_change(1000, &names).fact(Fact::Rejected(digest(2), long));
    let change = played.history.changes(RULE, State::Rejected).remove(0);
    let (keys, reason) = (change.keys.unwrap(), change.reason.unwrap());
    assert_eq!((keys.changed.len(), keys.more), (12, 88));
    assert!(keys.changed.iter().all(|name| name.chars().count() == 81), "{keys:?}");
    assert_eq!((reason.message.chars().count(), reason.hint.unwrap().chars().count()), (401, 401));
}

/// A fact or a command, with any of a few digests.
fn any(random: &mut Random, long: &Reason) -> Command {
    let some = digest(u8::try_from(random.number() % 6).unwrap());
    let other = digest(u8::try_from(random.number() % 6).unwrap());
    let rule = RuleId(usize::try_from(random.number() % 9).unwrap());
    let fact = match random.number() % 17 {
        0 => return Command::Check(rule, some),
        1 => return Command::Publish(rule, some),
        2 => Fact::Triggered,
        3 => Fact::Passed(some),
        4 => Fact::Held(long.clone(), None),
        5 => Fact::Sent(some, targets(&"x".repeat(1000))),
        6 => Fact::Retrying(some, ATTEMPT, long.clone()),
        7 => Fact::RollingBack(some, other, long.clone()),
        8 => Fact::RolledBack(some),
        9 => Fact::GaveUp(some, long.clone(), 3),
        10 => Fact::Tripped(some, long.clone()),
        11 => Fact::Applied(some, Evidence::Verified, Duration::ZERO),
        12 => Fact::Rejected(some, long.clone()),
        13 => Fact::Cancelled(some),
        14 => Fact::Unchanged(some),
        15 => Fact::Superseded(some),
        _ => Fact::KeysChanged(VolumeId(0), changes(&["a", &"b".repeat(500), "c"])),
    };
    Command::Report(rule, fact)
}

#[test]
fn the_number_of_changes_and_their_bytes_are_limited_whatever_happens() {
    let long = Reason::new("x".repeat(10_000)).hint("y".repeat(10_000));
    let mut most = (0, 0);
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut played = Played::default();
        for n in 0..3000 {
            played.at(n * 7).command(&any(&mut random, &long));
        }
        let all: Vec<Vec<Change>> =
            (0..9).map(|rule| played.history.changes(RuleId(rule), State::Waiting)).collect();
        let json: usize = all.iter().map(|one| serde_json::to_string(one).unwrap().len()).sum();
        let longest = all.iter().map(Vec::len).max().unwrap();
        most = (most.0.max(longest), most.1.max(json));
        for change in all.iter().flatten() {
            let times: Vec<UnixTime> = change.steps.iter().map(|step| step.began_at).collect();
            let end = change.ended_at.unwrap_or_else(|| played.now());
            assert!(times.is_sorted() && times.last() <= Some(&end), "{}", line(change));
            assert_eq!(change.ended_at.is_none(), change.outcome == Outcome::InProgress);
            assert!((1..=40).contains(&change.steps.len()), "{}", line(change));
        }
    }
    assert!(most.0 <= MOST_CHANGES && most.0 > 3, "{most:?}");
    // As text each step takes more than in memory.
    assert!(most.1 <= 2 * MOST_BYTES && most.1 > MOST_BYTES / 4, "{most:?}");
}

/// The outcome that a fact reports, with its content.
fn reported(command: &Command) -> Option<(Digest, Outcome)> {
    let Command::Report(_, fact) = command else { return None };
    match fact {
        Fact::Applied(digest, ..) => Some((*digest, Outcome::Applied)),
        Fact::Delivered(digest, ..) => Some((*digest, Outcome::Delivered)),
        Fact::Rejected(digest, _) => Some((*digest, Outcome::Rejected)),
        Fact::Tripped(digest, _) => Some((*digest, Outcome::Tripped)),
        _ => None,
    }
}

/// The core reports enough: after each scenario, what was reported is there, and nothing goes on that has ended.
#[test]
fn the_history_of_every_scenario_agrees_with_its_status() {
    let scenarios = files_below(Path::new("tests/scenarios"));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for file in scenarios.iter().filter(|file| file.extension().is_some_and(|end| end == "txt")) {
        let Some(world) = played(file) else { continue };
        let since = world.restarts.last().copied().unwrap_or_default();
        let mut history = History::default();
        // What failed, and what it is rolled back to.
        let rolled_back = |(_, command): &(Duration, Command)| match command {
            Command::Report(_, Fact::RollingBack(failed, good, _)) => Some((*failed, *good)),
            _ => None,
        };
        let rolled_back: Vec<_> = world.log.iter().filter_map(rolled_back).collect();
        for (time, command) in world.log.iter().skip(since) {
            history.commanded(UnixTime(*time), command);
            let Some((digest, outcome)) = reported(command) else { continue };
            let changes = history.changes(RULE, State::Waiting);
            // What was rolled back to has the digest of what failed.
            let is_of = |known: Digest| known == digest || rolled_back.contains(&(known, digest));
            let is_it = |one: &Change| one.outcome == outcome && one.digest.is_some_and(is_of);
            compared += 1;
            if !changes.iter().any(is_it) {
                wrong.push(format!("{}: {outcome:?} of {digest:.2}", file.display()));
            }
        }
        let changes = history.changes(RULE, State::Waiting);
        let open: Vec<String> = changes
            .iter()
            .filter(|change| change.outcome == Outcome::InProgress)
            .map(line)
            .collect();
        let state = world.status().rules[0].state;
        let is_over = matches!(state, State::Idle | State::Tripped);
        if (is_over && !open.is_empty()) || open.len() > 2 {
            wrong.push(format!("{} ({state:?}): {}", file.display(), open.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 200, "{compared}");
}

fn targets(text: &str) -> Targets {
    Targets {
        names: Vec::new(),
        ancestors: Vec::new(),
        containers: Vec::new(),
        pid: None,
        text: text.to_owned(),
        are_containers: false,
    }
}
