//! Properties that hold for every sequence of events and times, and not only for the scenarios in
//! `tests/scenarios`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use crate::support::policies;
use crate::support::shelf::Shelving;
use crate::support::world::{self, World};
use podnudge_core::budget::RestartBudget;
use podnudge_core::clock::UnixTime;
use podnudge_core::command::Command;
use podnudge_core::event::{Absence, Acted, Alive, Checked, Event, Proof, Standing, VolumeId};
use podnudge_core::evidence::InSync;
use podnudge_core::fact::Fact;
use podnudge_core::jitter::Replica;
use podnudge_core::jitter::{Jitter, JitterBy};
use podnudge_core::reason::Reason;
use podnudge_core::status::State;
use podnudge_core::{Policy, PolicyVolume};
use proptest::prelude::*;

const BUDGET: RestartBudget = RestartBudget { most: 2, within: Duration::from_mins(1) };

/// One event for a rule with two volumes.
#[derive(Debug, Clone)]
enum Step {
    /// A volume gets one of four contents; its hint arrives, is duplicated, or is lost.
    Commit {
        volume: usize,
        content: u8,
        hints: u8,
    },
    Touch {
        volume: usize,
    },
    Remove {
        volume: usize,
    },
    Unreadable {
        volume: usize,
    },
    Readable {
        volume: usize,
    },
    Application(Behaviour),
    /// The result of checks from now on.
    Checks(CheckResult),
    /// How the publish directory behaves from now on.
    Publishing(Shelving),
    /// The application restarts and reads the current content.
    ApplicationRestarts,
    Trigger,
    /// The pause file is created or removed.
    Pause {
        is_there: bool,
    },
    Wait {
        millis: u64,
    },
}

/// The result of the checks.
#[derive(Debug, Clone, Copy)]
enum CheckResult {
    Passed,
    Rejected,
    TooEarly,
}

/// How the application answers from now on.
#[derive(Debug, Clone, Copy)]
enum Behaviour {
    Applies,
    AnswersLate,
    Fails,
    Declines,
    Refuses,
    IsAbsent,
    IsGoneAfterReading,
    Dies,
    IsNotRestarted,
    GivesNoProof,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    prop_oneof![
        3 => Just(Behaviour::Applies),
        1 => Just(Behaviour::AnswersLate),
        1 => Just(Behaviour::Fails),
        1 => Just(Behaviour::Declines),
        1 => Just(Behaviour::Refuses),
        1 => Just(Behaviour::IsAbsent),
        1 => Just(Behaviour::IsGoneAfterReading),
        1 => Just(Behaviour::Dies),
        1 => Just(Behaviour::IsNotRestarted),
        1 => Just(Behaviour::GivesNoProof),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2usize, 0..4u8, 0..3u8)
            .prop_map(|(volume, content, hints)| Step::Commit { volume, content, hints }),
        2 => (0..2usize).prop_map(|volume| Step::Touch { volume }),
        1 => (0..2usize).prop_map(|volume| Step::Remove { volume }),
        1 => (0..2usize).prop_map(|volume| Step::Unreadable { volume }),
        2 => (0..2usize).prop_map(|volume| Step::Readable { volume }),
        3 => behaviour().prop_map(Step::Application),
        2 => Just(Step::ApplicationRestarts),
        2 => check_result().prop_map(Step::Checks),
        1 => shelving().prop_map(Step::Publishing),
        1 => Just(Step::Trigger),
        1 => any::<bool>().prop_map(|is_there| Step::Pause { is_there }),
        8 => (0..20_000u64).prop_map(|millis| Step::Wait { millis }),
    ]
}

fn steps_of(count: Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), count)
}

/// An event for an application that works with no new content, and whether podnudge restarts after
/// the event.
fn hostile_step() -> impl Strategy<Value = (Step, bool)> {
    let one = prop_oneof![
        6 => (0..2usize, 0..4u8, 0..3u8)
            .prop_map(|(volume, content, hints)| Step::Commit { volume, content, hints }),
        1 => (0..2usize).prop_map(|volume| Step::Remove { volume }),
        1 => (0..2usize).prop_map(|volume| Step::Unreadable { volume }),
        1 => (0..2usize).prop_map(|volume| Step::Readable { volume }),
        2 => check_result().prop_map(Step::Checks),
        1 => shelving().prop_map(Step::Publishing),
        1 => any::<bool>().prop_map(|is_there| Step::Pause { is_there }),
        1 => Just(Step::Trigger),
        8 => (0..20_000u64).prop_map(|millis| Step::Wait { millis }),
    ];
    (one, prop::bool::weighted(0.1))
}

fn check_result() -> impl Strategy<Value = CheckResult> {
    prop_oneof![
        2 => Just(CheckResult::Passed),
        1 => Just(CheckResult::Rejected),
        1 => Just(CheckResult::TooEarly),
    ]
}

fn shelving() -> impl Strategy<Value = Shelving> {
    prop_oneof![Just(Shelving::Works), Just(Shelving::FailsBefore), Just(Shelving::FailsAfter)]
}

fn policy_strategy() -> impl Strategy<Value = Policy> {
    let publishes = (any::<bool>(), any::<bool>());
    let ladder = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), any::<bool>());
    (
        0..500u64,
        0..2u64,
        0..10u64,
        0..5u64,
        any::<bool>(),
        1..5u32,
        any::<bool>(),
        publishes,
        ladder,
    )
        .prop_map(
            |(settle, jitter, interval, alive, proof, attempts, has_checks, publishes, ladder)| {
                let mut policy = policies::policy();
                let volume = |n| PolicyVolume { id: VolumeId(n), path: format!("/etc/{n}") };
                policy.intake.volumes = (0..2).map(volume).collect();
                policy.intake.settle = Duration::from_millis(settle);
                policy.intake.settle_max = Duration::from_secs(2);
                policy.intake.settles_commits = settle.is_multiple_of(2);
                policy.gate.jitter =
                    Jitter { window: Duration::from_secs(jitter * 10), by: JitterBy::Random };
                policy.gate.min_interval = Duration::from_secs(interval);
                policy.rollout.alive_for = Duration::from_secs(alive);
                policy.rollout.proof = proof;
                policy.rollout.retry.attempts = attempts;
                policy.intake.has_checks = has_checks;
                (policy.application.publishes, policy.application.rolls_back) = publishes;
                let pauses;
                (
                    policy.rollout.retries_first,
                    policy.rollout.restarts_last,
                    policy.rollout.is_restart,
                    pauses,
                ) = ladder;
                policy.application.restarts = BUDGET;
                policy.gate.hold.pause_file = pauses;
                policy
            },
        )
}

fn behave(world: &mut World, behaviour: Behaviour) {
    let reason = Reason::new("simulated");
    world.application.is_honest = true;
    if matches!(world.application.acts, Acted::Absent(_)) {
        world.application_restarts();
    }
    world.act_takes = Duration::from_millis(1);
    let (acts, alive, proof) = match behaviour {
        Behaviour::Applies => (sent(), Alive::Yes, Proof::Given),
        Behaviour::AnswersLate => {
            world.act_takes = Duration::from_secs(3);
            (sent(), Alive::Yes, Proof::Given)
        }
        Behaviour::Fails => (Acted::Failed(reason), Alive::Yes, Proof::Given),
        Behaviour::Declines => (Acted::Declined(reason), Alive::Yes, Proof::Given),
        Behaviour::Refuses => (Acted::Refused(reason), Alive::Yes, Proof::Given),
        Behaviour::IsAbsent => (Acted::Absent(Absence::unread(reason)), Alive::Yes, Proof::Given),
        Behaviour::IsGoneAfterReading => {
            (Acted::Absent(Absence { reason, was_read: true }), Alive::Yes, Proof::Given)
        }
        Behaviour::IsNotRestarted => (sent(), Alive::Absent(Absence::unread(reason)), Proof::Given),
        Behaviour::Dies => (sent(), Alive::Gone(reason), Proof::Given),
        Behaviour::GivesNoProof => (sent(), Alive::Yes, Proof::Pending(reason)),
    };
    world.application.acts = acts;
    world.application.verifies.alive = alive;
    world.application.verifies.proof = proof;
}

fn checks(world: &mut World, result: CheckResult) {
    let reason = Reason::new("simulated");
    world.check_takes = Duration::from_millis(1);
    world.application.checks = match result {
        CheckResult::Passed => Checked::Passed,
        CheckResult::Rejected => Checked::Rejected(reason),
        CheckResult::TooEarly => {
            let soon = world.now.wall.0 + Duration::from_secs(5);
            Checked::NotBefore(UnixTime(soon), reason)
        }
    };
}

fn sent() -> Acted {
    Acted::Sent(world::app(41))
}

fn apply(world: &mut World, step: &Step) {
    match step {
        Step::Commit { volume, content, hints } => {
            let content = BTreeMap::from([("key".to_owned(), content.to_string())]);
            world.put(*volume, Some(content));
            // The kernel reports each commit once; other hints may be repeated.
            for n in 0..*hints {
                world.tell(Event::Hint(VolumeId(*volume), u32::from(n == 0)));
            }
        }
        Step::Touch { volume } => world.tell(Event::Hint(VolumeId(*volume), 0)),
        Step::Remove { volume } => {
            world.put(*volume, None);
            world.tell(Event::Hint(VolumeId(*volume), 1));
        }
        Step::Unreadable { volume } => {
            world.disks[*volume].unreadable = Some(Reason::new("permission denied"));
        }
        Step::Readable { volume } => world.disks[*volume].unreadable = None,
        Step::Application(behaviour) => behave(world, *behaviour),
        Step::ApplicationRestarts => world.application_restarts(),
        Step::Publishing(behaves) => {
            world.shelf.behaves = *behaves;
            world.publish_takes = Duration::from_millis(5);
        }
        Step::Checks(result) => checks(world, *result),
        Step::Pause { is_there } => world.is_paused = *is_there,
        Step::Trigger => world.tell(Event::Trigger(None)),
        Step::Wait { millis } => world.run_for(Duration::from_millis(*millis)),
    }
}

fn apply_all(world: &mut World, steps: &[Step]) {
    for step in steps {
        apply(world, step);
    }
}

fn play(policy: Policy, steps: &[Step]) -> World {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let mut world = World::new(policy, &replica, None);
    behave(&mut world, Behaviour::Applies);
    apply_all(&mut world, steps);
    world
}

/// Plays the steps, followed by [`calm_down`].
fn play_to_the_end(policy: Policy, steps: &[Step]) -> World {
    let mut world = play(policy, steps);
    calm_down(&mut world);
    world
}

/// A world whose publish directory is filled or empty when podnudge starts.
fn publishing(policy: Policy, is_filled: bool) -> World {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let published = is_filled.then_some(Standing::Good);
    let mut world = World::publishing(policy, &replica, None, published);
    behave(&mut world, Behaviour::Applies);
    world
}

/// Removes all faults and lets time pass: enough for a resync, the settle time, the jitter and the
/// slowest retry.
fn calm_down(world: &mut World) {
    behave(world, Behaviour::Applies);
    checks(world, CheckResult::Passed);
    world.shelf.behaves = Shelving::Works;
    world.is_paused = false;
    for volume in 0..world.disks.len() {
        world.disks[volume].unreadable = None;
        if world.disks[volume].content.is_none() {
            let content = BTreeMap::from([("key".to_owned(), "back".to_owned())]);
            world.put(volume, Some(content));
        }
    }
    world.run_for(Duration::from_mins(3));
    // Content that was rejected or rolled back stays so until a trigger.
    if matches!(world.status().rules[0].state, State::Rejected | State::RolledBack) {
        world.tell(Event::Trigger(None));
        world.run_for(Duration::from_mins(3));
    }
}

/// The number of checks, publications and actions.
fn work(world: &World) -> usize {
    world.log.iter().filter(|(_, command)| world::is_work(command)).count()
}

/// A volume is missing when a trigger makes the application reload, and it is back with the same
/// content before the reload ends. The application reloads again: it has read nothing.
#[test]
fn a_volume_that_was_missing_during_a_reload_is_delivered_again() {
    let mut policy = policies::policy();
    let volume = |n| PolicyVolume { id: VolumeId(n), path: format!("/etc/{n}") };
    policy.intake.volumes = (0..2).map(volume).collect();
    (policy.intake.settle, policy.rollout.alive_for) = (Duration::ZERO, Duration::ZERO);
    let commit = || Step::Commit { volume: 0, content: 2, hints: 1 };
    let remove = Step::Remove { volume: 0 };
    let steps = [commit(), remove, Step::Wait { millis: 1 }, Step::Trigger, commit()];
    let world = play_to_the_end(policy, &steps);
    assert_eq!(world.status().rules[0].in_sync, InSync::Yes);
    assert_eq!(world.application.runs, world.digest_on_disk());
}

/// The application restarts while a volume is missing, and the checks reject the content with which
/// it comes back. podnudge does not know what the application runs.
#[test]
fn a_volume_that_comes_back_rejected_is_not_in_sync() {
    let policy = policies::changed(policies::policy(), |policy| policy.intake.has_checks = true);
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let mut world = World::new(policy, &replica, None);
    behave(&mut world, Behaviour::Applies);
    let commit = Step::Commit { volume: 0, content: 3, hints: 1 };
    let rejected = Step::Checks(CheckResult::Rejected);
    let restarts = Step::ApplicationRestarts;
    for step in
        [commit.clone(), rejected, Step::Remove { volume: 0 }, Step::Trigger, restarts, commit]
    {
        apply(&mut world, &step);
        world.run_for(Duration::from_mins(1));
    }
    let rule = &world.status().rules[0];
    assert_eq!((rule.state, rule.in_sync), (State::Rejected, InSync::Unknown));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// An application that keeps its old configuration on every signal, and gives no proof, is never
    /// reported as in sync with content that it has not read.
    #[test]
    fn content_that_was_only_delivered_is_never_in_sync(
        policy in policy_strategy(),
        steps in steps_of(0..40),
    ) {
        let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
        let mut world = World::new(policy, &replica, None);
        behave(&mut world, Behaviour::Applies);
        world.application.is_honest = false;
        world.application.verifies.proof = Proof::NotConfigured;
        let mut all_hinted = true;
        let is_other = |step: &&Step| !matches!(step, Step::Application(_));
        for step in steps.iter().filter(is_other) {
            apply(&mut world, step);
            world.run_for(Duration::from_mins(1));
            let rule = &world.status().rules[0];
            // After a change that the watch missed, podnudge cannot know what was there meanwhile.
            all_hinted &= !matches!(step, Step::Commit { hints: 0, .. });
            if rule.in_sync == InSync::Yes && all_hinted {
                prop_assert!(rule.evidence.is_proof());
                prop_assert_eq!(world.application.runs, world.digest_on_disk());
            }
        }
    }

    /// Level-triggered: whatever happened, the final content is applied once all faults are gone,
    /// with or without hints. A rule that gave up or tripped on exactly this content stays so
    /// until newer content or a trigger.
    #[test]
    fn the_final_content_is_applied_after_quiet(
        policy in policy_strategy(),
        steps in steps_of(0..40),
    ) {
        let mut world = play_to_the_end(policy, &steps);
        let status = world.status();
        let rule = &status.rules[0];
        prop_assert_eq!(rule.digest_on_disk, world.digest_on_disk());
        let all_hinted = !steps.iter().any(|step| matches!(step, Step::Commit { hints: 0, .. }));
        if rule.in_sync != InSync::No && (all_hinted || rule.digest_published.is_some()) {
            prop_assert_eq!(world.application.runs, world.digest_on_disk());
        }
        match rule.state {
            State::Idle => prop_assert_ne!(rule.in_sync, InSync::No),
            State::Tripped | State::Refused | State::Failed => {
                prop_assert_eq!(rule.in_sync, InSync::No);
                world.tell(Event::Trigger(None));
                world.run_for(Duration::from_mins(1));
                prop_assert_ne!(world.status().rules[0].in_sync, InSync::No);
            }
            state => prop_assert!(false, "{:?} is not a final state", state),
        }
    }

    /// No action follows unless the last checks of that content passed.
    #[test]
    fn no_action_on_content_that_has_not_passed_the_checks(
        policy in policy_strategy(),
        steps in steps_of(0..60),
    ) {
        let world = play_to_the_end(policies::changed(policy, |policy| policy.intake.has_checks = true), &steps);
        prop_assert!(!world.acted_unchecked);
    }

    /// A checker gets at most one new content for each approval.
    #[test]
    fn nothing_is_checked_before_its_approval(
        policy in policy_strategy(),
        steps in steps_of(0..60),
    ) {
        let mut policy = policies::changed(policy, |policy| { policy.intake.has_checks = true; policy.intake.needs_approval_to_check = true; });
        policy.gate.hold.approval = true;
        let first = play(policy.clone(), &[]).digest_on_disk();
        let mut world = play(policy, &steps);
        world.run_for(Duration::from_mins(3));
        let check = |(_, command): &(Duration, Command)| match command {
            Command::Check(_, digest) => Some(*digest),
            _ => None,
        };
        let mut checked: BTreeSet<_> = world.log.iter().filter_map(check).collect();
        // Where it was published when podnudge started, it is good.
        checked.remove(&first.expect("there is content"));
        let approvals = steps.iter().filter(|step| matches!(step, Step::Trigger)).count();
        prop_assert!(checked.len() <= approvals, "{} > {approvals}", checked.len());
    }

    /// Rolled back content is neither published nor acted on again without a trigger, not even by a
    /// restarted podnudge; and podnudge rolls back only to verified content.
    #[test]
    fn rolled_back_content_is_never_tried_again_without_a_trigger(
        policy in policy_strategy(),
        before in steps_of(0..40),
        after in steps_of(0..20),
    ) {
        let mut world = play(world::publishing(policy), &before);
        world.restart(None);
        apply_all(&mut world, &after);
        calm_down(&mut world);
        prop_assert!(world.shelf.violations.is_empty(), "{:?}", world.shelf.violations);
        let rule = &world.status().rules[0];
        prop_assert!(rule.digest_published.is_some());
    }

    /// No generation stays published that crashes the application or for which it never gives a
    /// proof, whatever else happens meanwhile.
    #[test]
    fn content_that_crashes_or_gives_no_proof_is_rolled_back(
        policy in policy_strategy(),
        dies in any::<bool>(),
        steps in prop::collection::vec(hostile_step(), 0..30),
    ) {
        let policy = world::publishing(policy);
        let behaviour =
            if dies || !policy.rollout.proof { Behaviour::Dies } else { Behaviour::GivesNoProof };
        let mut world = play(policy, &[]);
        let good = world.shelf.current.map(|(digest, _)| digest);
        behave(&mut world, behaviour);
        for (step, restarts) in &steps {
            apply(&mut world, step);
            if *restarts {
                world.restart(None);
            }
        }
        world.shelf.behaves = Shelving::Works;
        world.run_for(Duration::from_mins(40));
        let now = world.shelf.current.map(|(digest, _)| digest);
        prop_assert_eq!(now, good);
    }

    /// The target is not restarted more often than the budget allows, plus once for the roll-back
    /// of each of these restarts.
    #[test]
    fn restarts_stay_within_the_budget(
        policy in policy_strategy(),
        steps in steps_of(0..80),
    ) {
        let steps: Vec<Step> =
            steps.into_iter().filter(|step| !matches!(step, Step::Trigger)).collect();
        let mut world = play(world::restarting(policy), &steps);
        behave(&mut world, Behaviour::Applies);
        world.run_for(Duration::from_mins(3));
        let is_restart =
            |command: &Command| matches!(command, Command::Report(_, Fact::Restarted(..)));
        let restarts = world.log.iter().filter(|(_, command)| is_restart(command));
        let restarts: Vec<Duration> = restarts.map(|(at, _)| *at).collect();
        for (n, at) in restarts.iter().enumerate() {
            let last = restarts.iter().skip(n).take_while(|other| **other < *at + BUDGET.within);
            prop_assert!(last.count() <= 2 * BUDGET.most as usize + 1, "{:?}", restarts);
        }
    }

    /// The next action begins only after the previous one has ended.
    #[test]
    fn never_two_actions_in_flight(
        policy in policy_strategy(),
        steps in steps_of(0..60),
    ) {
        let world = play_to_the_end(policy, &steps);
        prop_assert!(!world.actions_overlapped);
    }

    /// An applied digest is not acted on again before another one, unless there was a trigger or a
    /// swap meanwhile, or a swap without a hint. (An application that reads while the disk changes
    /// unseen may have read something else.)
    #[test]
    fn no_action_for_content_that_is_already_applied(
        policy in policy_strategy(),
        steps in steps_of(0..60),
    ) {
        let is_seen = |step: &Step| {
            !matches!(step, Step::Commit { hints: 0, .. } | Step::Unreadable { .. })
        };
        let steps: Vec<Step> = steps.into_iter().filter(is_seen).collect();
        let world = play_to_the_end(policy, &steps);
        let (mut applied, mut last_act) = (None, Duration::ZERO);
        for (at, command) in &world.log {
            match command {
                Command::Persist(_, memory) if memory.known.running.is_some() => {
                    applied = memory.known.running;
                }
                Command::Approve(_, digest, _) => applied = Some(*digest),
                Command::Act(act) => {
                    let is_triggered = act.fresh_after.is_none();
                    let swapped = world.swaps.iter().any(|swap| *swap >= last_act);
                    prop_assert!(is_triggered || swapped || Some(act.digest) != applied);
                    (applied, last_act) = (None, *at);
                }
                _ => {}
            }
        }
    }

    /// An application that applies everything is acted on at most once per commit, if every commit
    /// has a hint.
    #[test]
    fn at_most_one_action_per_commit(
        policy in policy_strategy(),
        steps in steps_of(0..60),
    ) {
        let quiet = |step: &&Step| {
            !matches!(
                step,
                Step::Application(_)
                    | Step::ApplicationRestarts
                    | Step::Trigger
                    | Step::Remove { .. }
                    | Step::Unreadable { .. }
                    | Step::Commit { hints: 0, .. }
            )
        };
        let steps: Vec<Step> = steps.iter().filter(quiet).cloned().collect();
        let commits = steps.iter().filter(|step| matches!(step, Step::Commit { .. })).count();
        let world = play_to_the_end(policy, &steps);
        // What was rejected at the start, before any commit, is triggered in the end.
        let first = world.log.iter().find_map(|(_, command)| match command {
            Command::Report(_, Fact::KeysChanged(..)) => Some(false),
            Command::Report(_, Fact::Rejected(..)) => Some(true),
            _ => None,
        });
        prop_assert!(world.acts().count() <= commits + usize::from(first == Some(true)));
    }

    /// Hints decide when content is applied, not which: with all of them duplicated or lost, the
    /// same content is applied in the end.
    #[test]
    fn hints_do_not_change_the_final_state(
        policy in policy_strategy(),
        steps in steps_of(0..40),
        hints in 0..3u8,
    ) {
        let mut steps: Vec<Step> = steps
            .into_iter()
            .filter(|step| !matches!(step, Step::Application(_) | Step::Trigger))
            .collect();
        let mut as_drawn = play(policy.clone(), &steps);
        for step in &mut steps {
            if let Step::Commit { hints: drawn, .. } = step {
                *drawn = hints;
            }
        }
        let mut otherwise = play(policy, &steps);
        calm_down(&mut as_drawn);
        calm_down(&mut otherwise);
        let (one, other) = (as_drawn.status(), otherwise.status());
        prop_assert_ne!(one.rules[0].in_sync, InSync::No);
        prop_assert_ne!(other.rules[0].in_sync, InSync::No);
        prop_assert_eq!(one.rules[0].digest_on_disk, other.rules[0].digest_on_disk);
    }

    /// After a stop nothing new begins, and podnudge ends as soon as nothing is in progress.
    #[test]
    fn a_stopped_core_begins_nothing_new(
        policy in policy_strategy(),
        steps in steps_of(0..40),
    ) {
        let mut world = play(policy, &steps);
        let before = world.acts().count();
        let state = world.status().rules[0].state;
        let is_publishing = matches!(state, State::Publishing | State::RollingBack);
        world.tell(Event::Stop);
        calm_down(&mut world);
        prop_assert!(world.core.is_stopped());
        prop_assert_eq!(world.core.next_wakeup(), None);
        // A publication in progress is finished.
        prop_assert!(world.acts().count() <= before + usize::from(is_publishing));
    }

    /// A podnudge that is killed at any time and restarted, with or without a record of the applied
    /// content, still applies the final content. Content that it gave up, or that ended the target, needs a
    /// trigger.
    #[test]
    fn a_restart_at_any_time_loses_no_change(
        policy in policy_strategy(),
        before in steps_of(0..20),
        down in steps_of(0..5),
        with_state_dir in any::<bool>(),
    ) {
        let mut world = play(policy, &before);
        let remembered = world.persisted.clone().filter(|_| with_state_dir);
        for step in &down {
            if let Step::Commit { volume, content, .. } = step {
                let content = BTreeMap::from([("key".to_owned(), content.to_string())]);
                world.put(*volume, Some(content));
            }
        }
        behave(&mut world, Behaviour::Applies);
        let is_remembered_as_failed = remembered.as_ref().is_some_and(|memory| {
            let is_tripped = memory.rollout.as_ref().is_some_and(|one| one.tripped.is_some());
            memory.failed.is_some() || is_tripped
        });
        world.restart(remembered);
        calm_down(&mut world);
        if is_remembered_as_failed {
            // A trigger ends if the checks reject the content: so not before they pass it.
            world.tell(Event::Trigger(None));
            calm_down(&mut world);
        }
        let status = world.status();
        let rule = &status.rules[0];
        prop_assert_ne!(rule.in_sync, InSync::No, "{:?}", rule);
        prop_assert_eq!(rule.digest_on_disk, world.digest_on_disk());
        let all_hinted = !before.iter().any(|step| matches!(step, Step::Commit { hints: 0, .. }));
        if all_hinted {
            prop_assert_eq!(world.application.runs, world.digest_on_disk());
        }
    }

    /// Newer content that passes the checks is tried eventually, whatever state the older content
    /// is in.
    #[test]
    fn newer_content_is_eventually_tried(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        wait in 1..400u64,
        steps in steps_of(0..30),
        last in behaviour(),
        restarts in any::<bool>(),
    ) {
        let target_wait = Duration::from_secs(wait);
        let mut world = publishing(policies::changed(policy, |policy| { policy.application.publishes = true; policy.rollout.target_wait = target_wait; }), is_filled);
        apply_all(&mut world, &steps);
        behave(&mut world, last);
        checks(&mut world, CheckResult::Passed);
        world.shelf.behaves = Shelving::Works;
        world.is_paused = false;
        if restarts {
            world.restart(None);
        }
        for volume in 0..world.disks.len() {
            world.disks[volume].unreadable = None;
            let content = BTreeMap::from([("key".to_owned(), "the fix".to_owned())]);
            world.put(volume, Some(content));
            world.tell(Event::Hint(VolumeId(volume), 1));
        }
        let fix = world.digest_on_disk();
        world.run_for(Duration::from_hours(1));
        let is_tried =
            |command: &Command| matches!(command, Command::Act(act) if Some(act.digest) == fix);
        let status = world.status();
        prop_assert!(world.log.iter().any(|(_, it)| is_tried(it)), "{:?}", status.rules[0].state);
    }

    /// podnudge does not publish or inspect in a loop while nothing changes.
    #[test]
    fn an_undisturbed_core_does_not_loop(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        wait in 1..400u64,
        steps in steps_of(0..40),
        restarts in any::<bool>(),
    ) {
        let mut world =
            publishing(policies::changed(policy, |policy| policy.rollout.target_wait = Duration::from_secs(wait)), is_filled);
        apply_all(&mut world, &steps);
        if restarts {
            world.restart(None);
        }
        let before = world.log.len();
        world.run_for(Duration::from_mins(10));
        let is_work = |command: &Command| {
            matches!(command, Command::Publish(..) | Command::RollBack(..) | Command::Inspect(..))
        };
        let work = world.log.iter().skip(before).filter(|(_, command)| is_work(command)).count();
        prop_assert!(work < 150, "{} in ten minutes: {:?}", work, world.status().rules[0].state);
    }

    /// A rollout begins in the instant in which the gate opens, whatever older content waits for.
    /// The same holds for triggered content. It waits for the application to survive the last
    /// action, and for a roll-back of that content in progress, but for no other delay.
    #[test]
    fn a_rollout_that_may_begin_begins_at_once(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in steps_of(0..40),
    ) {
        let mut policy = policy;
        (policy.intake.settle, policy.gate.jitter.window) = (Duration::ZERO, Duration::ZERO);
        (policy.rollout.is_restart, policy.gate.hold.pause_file) = (false, false);
        let mut world = publishing(policy, is_filled);
        apply_all(&mut world, &steps);
        calm_down(&mut world);
        prop_assert!(world.overdue.is_empty(), "{:?}", world.overdue);
    }

    /// Calls in between, when nothing is due, change nothing: the next wake-up is never too late,
    /// and reading the status has no effect on decisions.
    #[test]
    fn nothing_is_due_before_the_next_wakeup(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in steps_of(0..30),
        every in 10..2_000u64,
    ) {
        let (mut world, mut nudged) =
            (publishing(policy.clone(), is_filled), publishing(policy, is_filled));
        nudged.nudges = Some(Duration::from_millis(every));
        for world in [&mut world, &mut nudged] {
            apply_all(world, &steps);
            calm_down(world);
        }
        prop_assert_eq!(&world.log, &nudged.log);
    }

    /// If nothing else happens, the next publication or action comes at the time that the status
    /// reports.
    #[test]
    fn the_next_action_happens_at_its_reported_time(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in steps_of(0..30),
    ) {
        let mut policy = policy;
        policy.gate.hold.pause_file = false;
        let mut world = publishing(policy, is_filled);
        apply_all(&mut world, &steps);
        world.tell(Event::HintsLost);
        world.run_for(Duration::from_secs(3));
        for _ in 0..20 {
            let rule = world.status().rules.swap_remove(0);
            // The outcome of a rollout in verification is unknown.
            let is_waiting = matches!(
                rule.state,
                State::Waiting
                    | State::Held
                    | State::WaitingForTarget
                    | State::Backoff
                    | State::Refused
            );
            let reported = rule.next_action_at.filter(|_| is_waiting && world.is_at_rest());
            let Some(reported) = reported else {
                world.run_for(Duration::from_secs(1));
                continue;
            };
            let before = work(&world);
            let wait = reported.0.saturating_sub(world.now.wall.0);
            world.run_for(wait.saturating_sub(Duration::from_nanos(1)));
            // The outcome of a trial is unknown, too: an application that ends meanwhile has its content rolled back.
            let rollbacks = world.status().rules.swap_remove(0).counters.rollbacks;
            if rollbacks > rule.counters.rollbacks {
                continue;
            }
            prop_assert_eq!(work(&world), before, "{:?} at {:?}", rule, world.now);
            world.run_for(wait.min(Duration::from_nanos(1)));
            prop_assert!(work(&world) > before, "{:?} at {:?}", rule, world.now);
        }
    }

    /// A status that is read in the instant in which an action is due reports that action, and not
    /// the one after it.
    #[test]
    fn a_due_action_is_reported_as_due(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in steps_of(0..40),
    ) {
        let mut world = publishing(policy, is_filled);
        apply_all(&mut world, &steps);
        calm_down(&mut world);
        prop_assert!(world.reported_too_late.is_empty(), "{:?}", world.reported_too_late);
    }

    /// Content is quarantined on evidence only: since its publication, a process that could have
    /// read it has exited, an action failed or was rejected by the application, or a process gave
    /// no proof.
    #[test]
    fn nothing_is_quarantined_without_evidence(
        policy in policy_strategy(),
        steps in steps_of(0..60),
        restarts in any::<bool>(),
    ) {
        let policy = world::publishing(policy);
        let mut world = play(policy, &steps);
        if restarts {
            world.restart(None);
        }
        world.run_for(Duration::from_mins(10));
        prop_assert!(world.record.unfounded.is_empty(), "{:?}", world.record.unfounded);
    }
}
