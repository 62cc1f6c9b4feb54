//! Runs the scenarios of `tests/scenarios` on the core, and compares its traces line by line.
//!
//! A scenario is a text file: its name is a sentence, its folder is a subject, and its comments say
//! what it guards. Each line is a time and an event; `expect` lines are assertions.
//!
//! ```text
//! rule settle=200ms jitter=30s          differences from a rule without delays
//! before act absent not there           the state when podnudge starts
//! 10s  commit a=2                       new content in volume 0, with a hint
//! 10s  silently v1 a=2 b=3              new content in volume 1, without one
//! 12s  trigger                          an operator triggers the action
//! 12s  expect state=idle acts=1 in-sync=yes
//! ```
//!
//! The trace of a scenario is in the `.snap` file beside it: what operators and applications see.
//! It consists of the facts that podnudge reports, of the publications (`publish`) and of the
//! actions (`act`, `restart`). Internal commands (scans, checks, inspections of the target, stored
//! state) and the events of the scenario are not in it. Each line is a time and everything that
//! happened then:
//!
//! ```text
//!    10.000s  volume 0: changed a; scheduled digest-2 in 0s; act for digest-2, attempt 1
//! 20.000s..40.000s  unchanged digest-2 (3 times)
//!    70.000s  act for digest-2 in any case, attempt 1; target absent: not there; and again
//! ```
//!
//! - Digests are numbered in the order of their first appearance.
//! - `in any case`: even if the target started after the content was in place.
//! - Consecutive equal lines are one line, with their number and the first and the last time.
//! - `and again`: the same action is repeated until something new is reported, which has a line of
//!   its own. The number and the times of the repetitions are not in the trace.
//!
//! `UPDATE=1` writes the traces instead of comparing them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::policies;
use crate::support::shelf::Shelving;
use crate::support::trace;
use crate::support::world::{self, EPOCH, Pod, World};
use podnudge_core::clock::{Moment, UnixTime};
use podnudge_core::command::Command;
use podnudge_core::event::{
    Absence, Acted, Alive, ApiServer, Checked, Event, Expected, Inspection, PodLook, Proof, Reads,
    RuleId, SlotState, Standing, VolumeId, Watch,
};
use podnudge_core::jitter::JitterBy;
use podnudge_core::jitter::Replica;
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::week::{self, Window};
use podnudge_core::{Actions, Policy, SlotPolicy, Turns};
use podnudge_core::{DrainBefore, OnStart};

#[test]
fn every_scenario_matches_its_trace() {
    let files = files_below(Path::new("tests/scenarios"));
    let (scenarios, traces): (BTreeSet<_>, BTreeSet<_>) =
        files.into_iter().partition(|file| file.extension().is_some_and(|ending| ending == "txt"));
    assert!(scenarios.len() >= 220, "only {} scenarios were found", scenarios.len());
    let expected: BTreeSet<_> =
        scenarios.iter().map(|scenario| scenario.with_extension("snap")).collect();
    let strays: Vec<_> = traces.difference(&expected).collect();
    assert!(strays.is_empty(), "traces without a scenario: {strays:?}");
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for scenario in scenarios {
        // The other scenarios still run, so that one run lists all that differ.
        let Ok(trace) = std::panic::catch_unwind(|| play(&scenario)) else {
            wrong.push(format!("{}: panicked, see above", scenario.display()));
            continue;
        };
        let file = scenario.with_extension("snap");
        if update {
            fs::write(&file, trace).expect("the trace can be written");
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if trace != expected {
            wrong.push(format!("{}:\n{}", file.display(), difference(&expected, &trace)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nscenarios that differ: {}; `UPDATE=1` rewrites their traces",
        wrong.join("\n"),
        wrong.len()
    );
}

pub(crate) fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folders of scenarios can be listed");
    let paths = entries.map(|entry| entry.expect("they can be listed").path());
    paths
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { BTreeSet::from([path]) })
        .collect()
}

/// The lines from the first to the last difference, and two lines before them.
fn difference(expected: &str, seen: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), seen.lines().collect());
    let equal = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(old, new)| old == new).count()
    };
    let head = equal(&mut old.iter().zip(&new));
    let tail = equal(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let mark = |sign: &str, lines: &[&str]| -> Vec<String> {
        lines.iter().map(|line| format!("{sign} {line}")).collect()
    };
    [
        mark(" ", &old[head.saturating_sub(2)..head]),
        mark("-", &old[head..old.len() - tail]),
        mark("+", &new[head..new.len() - tail]),
    ]
    .concat()
    .join("\n")
}

/// Runs one scenario and returns its trace.
fn play(file: &Path) -> String {
    let world = played(file);
    world.map(|world| trace::render(&world.log, &world.restarts)).unwrap_or_default()
}

/// The state after a scenario, with what has happened.
pub(crate) fn played(file: &Path) -> Option<World> {
    let text = fs::read_to_string(file).expect("the scenario can be read");
    let mut stage =
        Stage { world: None, policy: policies::policy(), published: Some(Standing::Good) };
    for (number, line) in text.lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
        if !line.is_empty() {
            let place = format!("{}:{}: {line}", file.display(), number + 1);
            stage.line(line, &place);
        }
    }
    stage.world
}

struct Stage {
    world: Option<World>,
    policy: Policy,
    /// The content of the publish directory when the scenario begins.
    published: Option<Standing>,
}

impl Stage {
    fn line(&mut self, line: &str, place: &str) {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if first == "rule" {
            for (key, value) in pairs(rest) {
                if key == "published" {
                    self.published = standing(&value, place);
                    continue;
                }
                configure(&mut self.policy, &key, &value, place);
            }
            return;
        }
        if first == "before" {
            let (verb, rest) = rest.trim().split_once(' ').expect(place);
            happen(
                self.world.get_or_insert_with(|| start(self.policy.clone(), self.published)),
                verb,
                rest,
                place,
            );
            return;
        }
        let at = duration(first, place);
        let rest = rest.trim();
        let (verb, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let world = self.world.get_or_insert_with(|| start(self.policy.clone(), self.published));
        world.run_until(at);
        happen(world, verb, rest.trim(), place);
    }
}

fn start(policy: Policy, published: Option<Standing>) -> World {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    World::publishing(policy, &replica, None, published)
}

fn standing(text: &str, place: &str) -> Option<Standing> {
    match text {
        "nothing" => None,
        "for-start" => Some(Standing::ForStart),
        "on-trial" => Some(Standing::Unproven),
        _ => panic!("{place}: unknown published state"),
    }
}

/// Sets one setting that differs from [`world::policy`].
fn configure(policy: &mut Policy, key: &str, value: &str, place: &str) {
    let time = || duration(value, place);
    match key {
        "action" if value == "unknown" => policy.action = Actions::unknown(),
        "action" => {
            policy.rollout.is_restart = value.starts_with("restart");
            policy.rollout.pod_exit_code = (value == "restart-pod").then_some(88);
            policy.rollout.evict_wait = (value == "evict").then_some(Duration::from_mins(5));
        }
        "on-failure" => {
            policy.rollout.retries_first = value.contains("retry");
            policy.rollout.restarts_last = value.contains("restart");
        }
        "restarts" => policy.application.restarts.most = value.parse().expect(place),
        "within" => policy.application.restarts.within = time(),
        "pause-file" => policy.gate.hold.pause_file = value == "yes",
        "pause-key" => policy.gate.hold.pause_key = Some(value.to_owned()),
        "approve-before" => {
            assert!(["rollout", "check"].contains(&value), "{place}: not `rollout` or `check`");
            policy.intake.needs_approval_to_check = value == "check";
            policy.gate.hold.approval = true;
        }
        "window" => {
            // 1970-01-01T00:00Z + EPOCH is a Tuesday, 22:13:20 UTC.
            let utc = week::zone("UTC", &|_| None).expect(place);
            policy.gate.hold.window =
                Some(Window::new(&value.replace('_', " "), utc).expect(place));
        }
        "drain" => policy.permit.drain = Some(policies::drain(time(), DrainBefore::Restart)),
        "drain-always" => policy.permit.drain = Some(policies::drain(time(), DrainBefore::Action)),
        // After `drain` and `slot`.
        "leaves-within" => {
            let drain = policy.permit.drain.as_mut().expect(place);
            (drain.services, drain.timeout) = (vec!["web".to_owned()], time());
            policy.permit.slot.iter_mut().for_each(|slot| slot.patience = time());
        }
        "slot" | "bake" => {
            let bake = if key == "bake" { time() } else { Duration::ZERO };
            policy.permit.slot = Some(SlotPolicy {
                acts_when_unreachable: value == "act-when-unreachable",
                awaits_readiness: policy.rollout.is_restart,
                patience: Duration::ZERO,
                bake,
            });
        }
        "turns" => {
            let (every, of) = value.split_once('x').expect(place);
            policy.permit.turns =
                Some(Turns { every: duration(every, place), of: of.parse().expect(place) });
        }
        "checks" => policy.intake.has_checks = value == "yes",
        "expand" => policy.application.reads_at_start = false,
        "publish" => {
            policy.application.publishes = true;
            policy.application.rolls_back = value == "with-rollback";
            policy.rollout.retries_first = !policy.application.rolls_back;
        }
        "settle" if value == "default" => {
            policy.intake.settle = Duration::from_millis(200);
            policy.intake.settles_commits = false;
        }
        "settle" => policy.intake.settle = time(),
        "settle-max" => policy.intake.settle_max = time(),
        "jitter" => policy.gate.jitter.window = time(),
        "by" => {
            policy.gate.jitter.by = match value {
                "pod" => JitterBy::Pod,
                "ordinal" => JitterBy::Ordinal,
                "random" => JitterBy::Random,
                _ => panic!("{place}: unknown kind of jitter"),
            }
        }
        "min-interval" if value == "default" => policy.gate.is_min_interval_set = false,
        "min-interval" => policy.gate.min_interval = time(),
        "attempts" => policy.rollout.retry.attempts = value.parse().expect(place),
        "retry" => (policy.rollout.retry.first, policy.rollout.retry.max) = (time(), time()),
        "on-start" => {
            policy.application.on_start = match value {
                "never" => OnStart::Never,
                "always" => OnStart::Always,
                _ => panic!("{place}: unknown value of on-start"),
            }
        }
        "target-wait" => policy.rollout.target_wait = time(),
        "alive-for" => policy.rollout.alive_for = time(),
        "proof" => policy.rollout.proof = value == "yes",
        "verify-timeout" => policy.rollout.verify_timeout = time(),
        "volumes" => {
            let count: usize = value.parse().expect(place);
            let first = policy.intake.volumes[0].clone();
            policy.intake.volumes = (0..count)
                .map(|n| {
                    let mut volume = first.clone();
                    volume.id = VolumeId(n);
                    volume
                })
                .collect();
        }
        _ => panic!("{place}: unknown setting `{key}`"),
    }
}

/// Applies one event to the world, or checks an expectation.
fn shelving(rest: &str, place: &str) -> Shelving {
    match rest {
        "works" => Shelving::Works,
        "fails-before" => Shelving::FailsBefore,
        "fails-after" => Shelving::FailsAfter,
        _ => panic!("{place}: unknown result of publishing"),
    }
}

fn happen(world: &mut World, verb: &str, rest: &str, place: &str) {
    let words = rest;
    let (volume, rest) = volume_of(rest);
    let reason = || Reason::new(rest);
    match verb {
        "start" => {}
        "restart" => restart(world, rest),
        "commit" | "silently" => {
            world.put(volume, Some(pairs(rest).into_iter().collect()));
            if verb == "commit" {
                world.tell(Event::Hint(VolumeId(volume), 1));
            }
        }
        "resync" => {
            world.put(volume, world.disks[volume].content.clone());
            world.tell(Event::Hint(VolumeId(volume), 1));
        }
        "touch" => world.tell(Event::Hint(VolumeId(volume), 0)),
        "touch-all" => world.tell(Event::HintsLost),
        "mounts-change" => world.tell(Event::MountsChanged),
        "remove" => {
            world.put(volume, None);
            world.tell(Event::Hint(VolumeId(volume), 1));
        }
        "missing" => world.put(volume, None),
        "unreadable" => world.disks[volume].unreadable = Some(reason()),
        "readable" => world.disks[volume].unreadable = None,
        "inotify" => world.tell(Event::Watched(VolumeId(volume), Watch::Inotify)),
        "polled-as-configured" => world.tell(Event::Watched(VolumeId(volume), Watch::Polled)),
        "polling" => world.tell(Event::Watched(VolumeId(volume), Watch::Polling(reason()))),
        "pod" => {
            world.pod = match rest {
                "restarts" => Pod::Restarts,
                "restarts-unseen" => Pod::RestartsUnseen,
                "has-no-rule" => Pod::HasNoRule,
                "unsaved" => Pod::Unsaved,
                "is-stopped" => Pod::Stopped,
                _ => panic!("{place}: unknown pod"),
            }
        }
        "pod-is-replaced" => world.replace_pod(),
        "target-ends" => world.tell(Event::Ended(RuleId(0))),
        "application-restarts" => world.application_restarts(),
        "application-touches-its-volume" => world.application.touches = true,
        "blind" => world.application.inspected = Some(Inspection::Blind),
        "resyncs-hang" | "resyncs-answer" => world.resyncs_hang = verb == "resyncs-hang",
        "slots" => slots(world, rest, place),
        "api-server" => api_server(world, rest, place),
        "kubelet-writes" => world.tell(Event::Expected(Some(expected(words, place)))),
        "kubelet-writes-unknown" => world.tell(Event::Expected(None)),
        "trigger" => world.tell(Event::Trigger(None)),
        "person-pauses" => world.tell(Event::Pause(None, Some(duration(rest, place)))),
        "person-resumes" => world.tell(Event::Pause(None, None)),
        "problem" => world.problems = vec![problem(rest)],
        "no-problem" => world.problems = Vec::new(),
        "preflight-takes" => world.preflight_takes = duration(rest, place),
        "checks-appear" => checks_appear(world, rest == "accepted"),
        "stop" => world.tell(Event::Stop),
        "publish-takes" => world.publish_takes = duration(rest, place),
        "publish" => world.shelf.behaves = shelving(rest, place),
        "empty-the-publish-directory" => world.shelf.empty(),
        "pause" => world.is_paused = true,
        "go-on" => world.is_paused = false,
        "container" => world.is_container = true,
        "check-takes" => world.check_takes = duration(rest, place),
        "act-takes" => world.act_takes = duration(rest, place),
        "verify-takes" => world.verify_takes = duration(rest, place),
        "scan-takes" => world.scan_takes = duration(rest, place),
        "target" => {
            world.application.started = match rest {
                "unknown" => None,
                "2h-ago" => Some(Moment(world::UPTIME - Duration::from_hours(2))),
                time => Some(world::moment(duration(time, place))),
            }
        }
        "check" => {
            let (how, why) = rest.split_once(' ').unwrap_or((rest, ""));
            world.application.checks = match how {
                "passes" => Checked::Passed,
                "refuses" => Checked::Rejected(Reason::new(why)),
                "fails" => Checked::Failed(Reason::new(why)),
                "refuses-until" => {
                    let (time, why) = why.split_once(' ').unwrap_or((why, ""));
                    Checked::NotBefore(UnixTime(EPOCH + duration(time, place)), Reason::new(why))
                }
                _ => panic!("{place}: unknown check result"),
            };
        }
        "act" => act(world, rest, place),
        // `deadly a=2`: this content ends the application.
        "services" => services(world, rest, place),
        "deadly" => world.deadly = world.digest_of(pairs(rest).into_iter().collect()),
        "verify" => verify(world, rest, place),
        "expect" => expect(world, rest, place),
        _ => panic!("{place}: unknown event `{verb}`"),
    }
}

fn problem(what: &str) -> Problem {
    let kind = match what {
        _ if what.starts_with("not mounted") => ProblemKind::NotMounted,
        _ if what.starts_with("proof") => ProblemKind::ProofFails,
        _ => ProblemKind::TargetNotFound,
    };
    Problem { kind, reason: Reason::new(what) }
}

/// The rule has got checks, which have accepted what is on disk or were not made.
fn checks_appear(world: &mut World, have_accepted: bool) {
    let mut policy = world.policy().clone();
    policy.intake.has_checks = true;
    let accepted = have_accepted.then(|| world.digest_on_disk()).flatten();
    world.tell(Event::PolicyChanged(RuleId(0), Box::new(policy), accepted));
}

/// Sets what a verification finds from now on.
fn verify(world: &mut World, rest: &str, place: &str) {
    let (how, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let verifies = &mut world.application.verifies;
    match how {
        "alive" => verifies.alive = Alive::Yes,
        "replaced" => verifies.alive = Alive::Replaced,
        "absent" => verifies.alive = Alive::Absent(Absence::unread(Reason::new(why))),
        "gone" => verifies.alive = Alive::Gone(Reason::new(why)),
        "pending" => verifies.proof = Proof::Pending(Reason::new(why)),
        "given" => verifies.proof = Proof::Given,
        // What was opened since the action.
        "nothing-read" => verifies.reads = Reads::Nothing,
        "key-read" => verifies.reads = Reads::Key,
        _ => panic!("{place}: unknown verification result"),
    }
}

/// Sets the answer to actions from now on.
fn act(world: &mut World, rest: &str, place: &str) {
    let (how, why) = rest.split_once(' ').unwrap_or((rest, ""));
    world.application.vanishes = how == "vanishes";
    world.application.acts = match how {
        "sent" => Acted::Sent(world::app(41)),
        "restarted" => Acted::Restarted(world::app(41)),
        "accepted" => Acted::Accepted("200 OK".to_owned()),
        "fresh" => Acted::Fresh(world::app(41)),
        "absent" | "vanishes" => Acted::Absent(Absence::unread(Reason::new(why))),
        "absent-after-reading" => {
            Acted::Absent(Absence { reason: Reason::new(why), was_read: true })
        }
        "fails" => Acted::Failed(Reason::new(why)),
        "declined" => Acted::Declined(Reason::new(why)),
        "refused" => Acted::Refused(Reason::new(why)),
        "evicted" => Acted::Evicted,
        "postponed" | "unanswered" => {
            let (pause, why) = why.split_once(' ').expect(place);
            let (why, pause) = (Reason::new(why), duration(pause, place));
            if how == "postponed" {
                Acted::Postponed(why, pause)
            } else {
                Acted::Unanswered(why, pause)
            }
        }
        _ => panic!("{place}: unknown action result"),
    };
}

/// Sets what podnudge is told about the Services of the pod from now on.
fn services(world: &mut World, rest: &str, place: &str) {
    let (how, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let reason = Reason::new(why);
    let both = |look: PodLook| (Some(look.clone()), Some(look));
    world.services = match how {
        "follow" => (None, None),
        "keep" => (None, Some(PodLook::No(reason))),
        "unlisted" => both(PodLook::Unlisted(reason)),
        "unreachable" => both(PodLook::Unknown(reason, None)),
        "unreadable" => both(PodLook::Refused(reason)),
        _ => panic!("{place}: unknown answer about Services"),
    };
}

/// What an answer says of the API server.
fn api_server(world: &mut World, rest: &str, place: &str) {
    world.tell(Event::ApiServer(match rest {
        "answers" => ApiServer::Answers,
        "away" => ApiServer::Away,
        _ => panic!("{place}: unknown state of the API server"),
    }));
}

/// `v0` for a volume, `other` for one that is not known; nothing for none.
fn expected(rest: &str, place: &str) -> Expected {
    let mut expected = Expected::default();
    for word in rest.split_whitespace() {
        match word.strip_prefix('v').map(str::parse) {
            Some(Ok(volume)) => expected.volumes.push(VolumeId(volume)),
            None if word == "other" => expected.others += 1,
            _ => panic!("{place}: unknown volume"),
        }
    }
    expected
}

/// Sets what podnudge is told about its slot, now and from now on.
fn slots(world: &mut World, rest: &str, place: &str) {
    let (what, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let reason = Reason::new(why);
    let state = match what {
        "free" => world::slot("web-0"),
        "held-until" => {
            SlotState::Held { slot: "web-0".to_owned(), until: world::moment(duration(why, place)) }
        }
        "taken" => SlotState::Waiting(reason),
        "unreachable" => SlotState::Unreachable(reason),
        "lost" => SlotState::Lost(reason),
        "halted" => {
            let digest = world.digest_on_disk().expect(place);
            world.slots.halted.push(digest);
            SlotState::Halted(digest, reason)
        }
        "halt-takes" => return world.halt_takes = duration(why, place),
        "ready" => return world.slots.readiness = None,
        "not-ready" => return world.slots.readiness = Some(PodLook::No(reason)),
        "unlisted" => return world.slots.readiness = Some(PodLook::Unlisted(reason)),
        "pod-unreachable" => {
            return world.slots.readiness = Some(PodLook::Unknown(reason, None));
        }
        "pod-unreadable" => return world.slots.readiness = Some(PodLook::Refused(reason)),
        _ => panic!("{place}: unknown state of the slots"),
    };
    if !matches!(state, SlotState::Halted(..)) {
        world.slots.answer = Some(state.clone());
    }
    if world.slots.claimed.is_some() {
        world.tell(Event::Slot(RuleId(0), state));
    }
}

/// Restarts podnudge, with or without its state directory; disk and application stay as they are.
fn restart(world: &mut World, rest: &str) {
    let remembered = world.persisted.clone().filter(|_| rest == "with-state-dir");
    world.restart(remembered);
}

/// The word for a value in `/status`.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

fn expect(world: &World, rest: &str, place: &str) {
    let status = world.status();
    let rule = &status.rules[0];
    for (key, wanted) in pairs(rest) {
        let seen = match key.as_str() {
            "state" => word(rule.state),
            "in-sync" => word(rule.in_sync),
            "ready" => yes(status.ready),
            "serving" => yes(status.serving),
            "healthy" => yes(status.unhealthy.is_none()),
            "on-disk-applied" => {
                yes(rule.digest_on_disk.is_some() && rule.digest_on_disk == rule.digest_applied)
            }
            "disk-seen" => yes(rule.digest_on_disk == world.digest_on_disk()),
            "evidence" => rule.evidence.name().to_owned(),
            "reason-says" => {
                let reason = rule.reason.as_ref().map(|reason| reason.message.as_str());
                let mut words = reason.unwrap_or_default().split_whitespace();
                words.find(|word| *word == wanted).unwrap_or("something else").to_owned()
            }
            "reason" => rule.reason.as_ref().map_or("none", |_| "given").to_owned(),
            "next-action" => rule.next_action_at.map_or("none".to_owned(), |at| {
                humantime::format_duration(at.0 - EPOCH).to_string().replace(' ', "")
            }),
            "acts" => world.acts().count().to_string(),
            "scans" => scans(world).to_string(),
            "checks" => checks(world).to_string(),
            "delivered" => rule.counters.actions_delivered.to_string(),
            "unchanged" => rule.counters.unchanged.to_string(),
            "fresh" => rule.counters.fresh.to_string(),
            "cancelled" => rule.counters.cancelled.to_string(),
            "commits" => rule.counters.commits.to_string(),
            "missed" => rule.counters.missed_by_watch.to_string(),
            "retried" => rule.counters.actions_retried.to_string(),
            "failed" => rule.counters.actions_failed.to_string(),
            "refused" => rule.counters.actions_refused.to_string(),
            "tripped" => rule.counters.actions_tripped.to_string(),
            "passed" => rule.counters.checks_passed.to_string(),
            "rejected" => rule.counters.checks_rejected.to_string(),
            "restarts" => rule.counters.restarts.to_string(),
            "rollbacks" => rule.counters.rollbacks.to_string(),
            "published" => {
                yes(rule.digest_published.is_some() && rule.digest_published == rule.digest_on_disk)
            }
            "applied" => rule.counters.actions_applied.to_string(),
            "timed" => {
                let values = rule.counters.commit_to_applied.buckets;
                values.iter().sum::<u64>().to_string()
            }
            "start-delay" => {
                rule.start_delay_seconds.map_or("none".to_owned(), |delay| format!("{delay}s"))
            }
            "stopped" => yes(world.core.is_stopped()),
            "claimed" => yes(world.slots.claimed.is_some()),
            "halts" => world.slots.halted.len().to_string(),
            "backend" => rule.volumes[0].backend.to_owned(),
            _ => panic!("{place}: unknown expectation `{key}`"),
        };
        assert_eq!(seen, wanted, "{place}: {key}");
    }
    assert!(world.shelf.violations.is_empty(), "{place}: {:?}", world.shelf.violations);
}

fn scans(world: &World) -> usize {
    world.log.iter().filter(|(_, command)| matches!(command, Command::Scan(..))).count()
}

fn checks(world: &World) -> usize {
    world.log.iter().filter(|(_, command)| matches!(command, Command::Check(..))).count()
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// Parses `v1 rest`; without the prefix, the volume is 0.
fn volume_of(rest: &str) -> (usize, &str) {
    let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
    match first.strip_prefix('v').and_then(|number| number.parse().ok()) {
        Some(volume) => (volume, after.trim()),
        None => (0, rest),
    }
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=').expect("words are key=value");
        (key.to_owned(), value.to_owned())
    };
    text.split_whitespace().map(pair).collect()
}

fn duration(text: &str, place: &str) -> Duration {
    humantime::parse_duration(text).unwrap_or_else(|error| panic!("{place}: {text}: {error}"))
}
