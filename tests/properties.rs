//! What must hold for every sequence of events and times, and not only for the stories in
//! `tests/scenarios`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::shelf::Shelving;
use crate::support::world::{self, World};
use podnudge::clock::UnixTime;
use podnudge::config::{Budget, Jitter, JitterBy};
use podnudge::core::command::Command;
use podnudge::core::event::{Absence, Acted, Alive, Checked, Event, Proof, Standing, VolumeId};
use podnudge::core::fact::Fact;
use podnudge::core::jitter::Replica;
use podnudge::core::status::State;
use podnudge::core::{Policy, PolicyVolume};
use podnudge::reason::Reason;
use proptest::prelude::*;

const BUDGET: Budget = Budget { most: 2, within: Duration::from_mins(1) };

/// One thing that can happen to a rule with two volumes.
#[derive(Debug, Clone)]
enum Step {
    /// A volume gets one of four contents; the hint comes, is doubled, or is lost.
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
    /// What the checks say of new content from now on.
    Checks(Says),
    /// How the publish directory behaves from now on.
    Publishing(Shelving),
    /// The application starts anew and reads what it can.
    ApplicationRestarts,
    Trigger,
    /// The file that pauses the rule comes or goes.
    Pause {
        is_there: bool,
    },
    Wait {
        millis: u64,
    },
}

/// What the checks say.
#[derive(Debug, Clone, Copy)]
enum Says {
    Passed,
    Refused,
    TooEarly,
}

/// How the application answers from now on.
#[derive(Debug, Clone, Copy)]
enum Behaviour {
    Takes,
    AnswersLate,
    Fails,
    Declines,
    Refuses,
    IsAbsent,
    IsGoneAfterReading,
    Dies,
    IsNotStartedAnew,
    GivesNoProof,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    prop_oneof![
        3 => Just(Behaviour::Takes),
        1 => Just(Behaviour::AnswersLate),
        1 => Just(Behaviour::Fails),
        1 => Just(Behaviour::Declines),
        1 => Just(Behaviour::Refuses),
        1 => Just(Behaviour::IsAbsent),
        1 => Just(Behaviour::IsGoneAfterReading),
        1 => Just(Behaviour::Dies),
        1 => Just(Behaviour::IsNotStartedAnew),
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
        2 => says().prop_map(Step::Checks),
        1 => shelving().prop_map(Step::Publishing),
        1 => Just(Step::Trigger),
        1 => any::<bool>().prop_map(|is_there| Step::Pause { is_there }),
        8 => (0..20_000u64).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// What can happen beside an application that does not work with anything new, and whether
/// podnudge is started anew behind it.
fn hostile_step() -> impl Strategy<Value = (Step, bool)> {
    let one = prop_oneof![
        6 => (0..2usize, 0..4u8, 0..3u8)
            .prop_map(|(volume, content, hints)| Step::Commit { volume, content, hints }),
        1 => (0..2usize).prop_map(|volume| Step::Remove { volume }),
        1 => (0..2usize).prop_map(|volume| Step::Unreadable { volume }),
        1 => (0..2usize).prop_map(|volume| Step::Readable { volume }),
        2 => says().prop_map(Step::Checks),
        1 => shelving().prop_map(Step::Publishing),
        1 => any::<bool>().prop_map(|is_there| Step::Pause { is_there }),
        1 => Just(Step::Trigger),
        8 => (0..20_000u64).prop_map(|millis| Step::Wait { millis }),
    ];
    (one, prop::bool::weighted(0.1))
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![2 => Just(Says::Passed), 1 => Just(Says::Refused), 1 => Just(Says::TooEarly)]
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
                let mut policy = world::policy();
                let volume = |n| PolicyVolume { id: VolumeId(n), path: format!("/etc/{n}") };
                policy.volumes = (0..2).map(volume).collect();
                policy.settle = Duration::from_millis(settle);
                policy.settle_max = Duration::from_secs(2);
                policy.jitter =
                    Jitter { window: Duration::from_secs(jitter * 10), by: JitterBy::Random };
                policy.min_interval = Duration::from_secs(interval);
                policy.alive_for = Duration::from_secs(alive);
                policy.proof = proof;
                policy.retry.attempts = attempts;
                policy.has_checks = has_checks;
                (policy.publishes, policy.rolls_back) = publishes;
                let pauses;
                (policy.retries_first, policy.restarts_last, policy.is_restart, pauses) = ladder;
                policy.restarts = BUDGET;
                policy.hold.pause_file = pauses.then(|| "/pause".into());
                policy
            },
        )
}

fn behave(world: &mut World, behaviour: Behaviour) {
    let reason = Reason::new("as told");
    world.application.is_honest = true;
    if matches!(world.application.acts, Acted::Absent(_)) {
        world.application_restarts();
    }
    world.act_takes = Duration::from_millis(1);
    let (acts, alive, proof) = match behaviour {
        Behaviour::Takes => (sent(), Alive::Yes, Proof::Given),
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
        Behaviour::IsNotStartedAnew => {
            (sent(), Alive::Absent(Absence::unread(reason)), Proof::Given)
        }
        Behaviour::Dies => (sent(), Alive::Gone(reason), Proof::Given),
        Behaviour::GivesNoProof => (sent(), Alive::Yes, Proof::Pending(reason)),
    };
    world.application.acts = acts;
    world.application.verifies.alive = alive;
    world.application.verifies.proof = proof;
}

fn checks(world: &mut World, say: Says) {
    let reason = Reason::new("as told");
    world.check_takes = Duration::from_millis(1);
    world.application.checks = match say {
        Says::Passed => Checked::Passed,
        Says::Refused => Checked::Rejected(reason),
        Says::TooEarly => {
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
            // The kernel tells of each commit once; other hints may come again and again.
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
        Step::Checks(say) => checks(world, *say),
        Step::Pause { is_there } => world.is_paused = *is_there,
        Step::Trigger => world.tell(Event::Trigger(None)),
        Step::Wait { millis } => world.run_for(Duration::from_millis(*millis)),
    }
}

fn play(policy: Policy, steps: &[Step]) -> World {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let mut world = World::new(policy, &replica, None);
    behave(&mut world, Behaviour::Takes);
    for step in steps {
        apply(&mut world, step);
    }
    world
}

/// A world in which podnudge may find something published, or nothing.
fn publishing(policy: Policy, is_filled: bool) -> World {
    let replica = Replica { identity: "web-1".to_owned(), ordinal: Some(1), seed: 7 };
    let published = is_filled.then_some(Standing::Good);
    let mut world = World::publishing(policy, &replica, None, published);
    behave(&mut world, Behaviour::Takes);
    world
}

/// Everything is well again, and time passes: long enough for a resync, a settle, a jitter and
/// the slowest retry.
fn calm_down(world: &mut World) {
    behave(world, Behaviour::Takes);
    checks(world, Says::Passed);
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
    // What was refused or rolled back stays so until a person asks again.
    if matches!(world.status().rules[0].state, State::Rejected | State::RolledBack) {
        world.tell(Event::Trigger(None));
        world.run_for(Duration::from_mins(3));
    }
}

/// How much was checked, published or done.
fn work(world: &World) -> usize {
    world.log.iter().filter(|(_, command)| world::is_work(command)).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Level-triggered: whatever happened, once things are well the final content is applied,
    /// with or without hints. A rule that gave up or tripped on exactly this content stays so
    /// until a newer one or a trigger.
    #[test]
    fn the_final_content_is_applied_after_quiet(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = play(policy, &steps);
        calm_down(&mut world);
        let status = world.status();
        let rule = &status.rules[0];
        prop_assert_eq!(rule.digest_on_disk, world.digest_on_disk());
        let all_told = !steps.iter().any(|step| matches!(step, Step::Commit { hints: 0, .. }));
        if rule.in_sync && (all_told || rule.digest_published.is_some()) {
            prop_assert_eq!(world.application.runs, world.digest_on_disk());
        }
        match rule.state {
            State::Idle => prop_assert!(rule.in_sync),
            State::Tripped | State::Failed => {
                prop_assert!(!rule.in_sync);
                world.tell(Event::Trigger(None));
                world.run_for(Duration::from_mins(1));
                prop_assert!(world.status().rules[0].in_sync);
            }
            state => prop_assert!(false, "{:?} is no place to rest", state),
        }
    }

    /// Nothing that the checks have not let pass, when they were asked last, is acted on.
    #[test]
    fn never_an_action_on_what_did_not_pass(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = play(Policy { has_checks: true, ..policy }, &steps);
        calm_down(&mut world);
        prop_assert!(!world.acted_unchecked);
    }

    /// What was rolled back is neither published nor acted on again without a trigger, not even by a
    /// podnudge that was started anew; and only what was verified is gone back to.
    #[test]
    fn what_was_taken_back_is_never_tried_again(
        policy in policy_strategy(),
        before in prop::collection::vec(step(), 0..40),
        after in prop::collection::vec(step(), 0..20),
    ) {
        let mut world = play(Policy { publishes: true, rolls_back: true, ..policy }, &before);
        world.restart(None);
        for step in &after {
            apply(&mut world, step);
        }
        calm_down(&mut world);
        prop_assert!(world.shelf.violations.is_empty(), "{:?}", world.shelf.violations);
        let rule = &world.status().rules[0];
        prop_assert!(rule.digest_published.is_some());
    }

    /// No generation is left published that crashes the application, or that it never proves,
    /// whatever else happens meanwhile.
    #[test]
    fn what_does_not_work_is_taken_back_in_the_end(
        policy in policy_strategy(),
        dies in any::<bool>(),
        steps in prop::collection::vec(hostile_step(), 0..30),
    ) {
        let policy = Policy { publishes: true, rolls_back: true, ..policy };
        let behaviour =
            if dies || !policy.proof { Behaviour::Dies } else { Behaviour::GivesNoProof };
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

    /// The target is not restarted more often than the budget allows, and once more for each of
    /// them to roll back what it has brought.
    #[test]
    fn restarts_keep_to_their_budget(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let steps: Vec<Step> =
            steps.into_iter().filter(|step| !matches!(step, Step::Trigger)).collect();
        let mut world = play(Policy { is_restart: true, ..policy }, &steps);
        behave(&mut world, Behaviour::Takes);
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

    /// The next action begins only after the answers to the one before.
    #[test]
    fn never_two_actions_in_flight(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = play(policy, &steps);
        calm_down(&mut world);
        prop_assert!(!world.actions_overlapped);
    }

    /// A digest that was applied is not acted on again before another one, unless a person asks
    /// for it, or there was a swap meanwhile, or one that nobody told of. (An application that
    /// reads while the disk changes unseen may have read something else.)
    #[test]
    fn no_action_for_what_the_application_runs(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let is_seen = |step: &Step| {
            !matches!(step, Step::Commit { hints: 0, .. } | Step::Unreadable { .. })
        };
        let steps: Vec<Step> = steps.into_iter().filter(is_seen).collect();
        let mut world = play(policy, &steps);
        calm_down(&mut world);
        let (mut applied, mut last_act) = (None, Duration::ZERO);
        for (at, command) in &world.log {
            match command {
                Command::Persist(_, memory) if memory.running.is_some() => {
                    applied = memory.running;
                }
                Command::Approve(_, digest) => applied = Some(*digest),
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

    /// An application that takes everything is acted on at most once per commit, where none goes
    /// unseen.
    #[test]
    fn never_more_actions_than_commits(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..60),
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
        let mut world = play(policy, &steps);
        calm_down(&mut world);
        prop_assert!(world.acts().count() <= commits);
    }

    /// Hints decide when, not what: with all of them doubled or lost, the same content ends up
    /// applied.
    #[test]
    fn hints_do_not_change_where_it_ends(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..40),
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
        prop_assert!(one.rules[0].in_sync && other.rules[0].in_sync);
        prop_assert_eq!(one.rules[0].digest_on_disk, other.rules[0].digest_on_disk);
    }

    /// After a stop nothing new begins, and podnudge ends as soon as nothing runs.
    #[test]
    fn a_stopped_core_rests(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = play(policy, &steps);
        let before = world.acts().count();
        let state = world.status().rules[0].state;
        let is_publishing = matches!(state, State::Publishing | State::RollingBack);
        world.tell(Event::Stop);
        calm_down(&mut world);
        prop_assert!(world.core.is_stopped());
        prop_assert_eq!(world.core.next_wakeup(), None);
        // What was about to be published then is brought to its end.
        prop_assert!(world.acts().count() <= before + usize::from(is_publishing));
    }

    /// Killed at any time and started again, with and without a memory of what was applied: the
    /// final content is applied all the same.
    #[test]
    fn a_restart_at_any_time_loses_nothing(
        policy in policy_strategy(),
        before in prop::collection::vec(step(), 0..20),
        down in prop::collection::vec(step(), 0..5),
        with_state_dir in any::<bool>(),
    ) {
        let mut world = play(policy, &before);
        let remembered = world.persisted.filter(|_| with_state_dir);
        for step in &down {
            if let Step::Commit { volume, content, .. } = step {
                let content = BTreeMap::from([("key".to_owned(), content.to_string())]);
                world.put(*volume, Some(content));
            }
        }
        behave(&mut world, Behaviour::Takes);
        world.restart(remembered);
        calm_down(&mut world);
        let status = world.status();
        let rule = &status.rules[0];
        prop_assert!(rule.in_sync, "{:?}", rule);
        prop_assert_eq!(rule.digest_on_disk, world.digest_on_disk());
        let all_told = !before.iter().any(|step| matches!(step, Step::Commit { hints: 0, .. }));
        if all_told {
            prop_assert_eq!(world.application.runs, world.digest_on_disk());
        }
    }

    /// Newer content that may be used is tried in the end, wherever an older one has come to rest.
    #[test]
    fn newer_content_is_tried_in_the_end(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        wait in 1..400u64,
        steps in prop::collection::vec(step(), 0..30),
        last in behaviour(),
        restarts in any::<bool>(),
    ) {
        let target_wait = Duration::from_secs(wait);
        let mut world = publishing(Policy { publishes: true, target_wait, ..policy }, is_filled);
        for step in &steps {
            apply(&mut world, step);
        }
        behave(&mut world, last);
        checks(&mut world, Says::Passed);
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

    /// Nothing is published or asked in circles while nothing changes.
    #[test]
    fn a_core_that_is_left_alone_does_little(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        wait in 1..400u64,
        steps in prop::collection::vec(step(), 0..40),
        restarts in any::<bool>(),
    ) {
        let mut world =
            publishing(Policy { target_wait: Duration::from_secs(wait), ..policy }, is_filled);
        for step in &steps {
            apply(&mut world, step);
        }
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

    /// Content whose gate is open is on its way in that instant, whatever older content waits for.
    /// The same for what a person asks for, which waits for the application to survive an action
    /// that was just done, and for a roll-back of that content, but for no time of its own.
    #[test]
    fn what_may_begin_begins_at_once(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut policy = policy;
        (policy.settle, policy.jitter.window) = (Duration::ZERO, Duration::ZERO);
        (policy.is_restart, policy.hold.pause_file) = (false, None);
        let mut world = publishing(policy, is_filled);
        for step in &steps {
            apply(&mut world, step);
        }
        calm_down(&mut world);
        prop_assert!(world.overdue.is_empty(), "{:?}", world.overdue);
    }

    /// Calls in between, when nothing is due, change nothing: the next wake-up is not too late for
    /// anything, and no question changes what is decided.
    #[test]
    fn nothing_is_due_before_the_next_wakeup(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in prop::collection::vec(step(), 0..30),
        every in 10..2_000u64,
    ) {
        let (mut world, mut nudged) =
            (publishing(policy.clone(), is_filled), publishing(policy, is_filled));
        nudged.nudges = Some(Duration::from_millis(every));
        for world in [&mut world, &mut nudged] {
            for step in &steps {
                apply(world, step);
            }
            calm_down(world);
        }
        prop_assert_eq!(&world.log, &nudged.log);
    }

    /// What is told to people comes true: where nothing else happens, the next thing that podnudge
    /// publishes or does comes when it was told.
    #[test]
    fn the_next_action_comes_when_it_was_told(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in prop::collection::vec(step(), 0..30),
    ) {
        let mut policy = policy;
        policy.hold.pause_file = None;
        let mut world = publishing(policy, is_filled);
        for step in &steps {
            apply(&mut world, step);
        }
        world.tell(Event::HintsLost);
        world.run_for(Duration::from_secs(3));
        for _ in 0..20 {
            let rule = world.status().rules.swap_remove(0);
            // What becomes of a rollout that is being verified cannot be told.
            let is_waiting = matches!(
                rule.state,
                State::Waiting
                    | State::Held
                    | State::WaitingForTarget
                    | State::Backoff
                    | State::Failed
            );
            let told = rule.next_action_at.filter(|_| is_waiting && world.is_at_rest());
            let Some(told) = told else {
                world.run_for(Duration::from_secs(1));
                continue;
            };
            let before = work(&world);
            let wait = told.0.saturating_sub(world.now.wall.0);
            world.run_for(wait.saturating_sub(Duration::from_nanos(1)));
            prop_assert_eq!(work(&world), before, "{:?} at {:?}", rule, world.now);
            world.run_for(wait.min(Duration::from_nanos(1)));
            prop_assert!(work(&world) > before, "{:?} at {:?}", rule, world.now);
        }
    }

    /// Whoever asks in the instant in which something is due hears that it is due, and not of what
    /// comes after it.
    #[test]
    fn what_is_due_is_told(
        policy in policy_strategy(),
        is_filled in any::<bool>(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = publishing(policy, is_filled);
        for step in &steps {
            apply(&mut world, step);
        }
        calm_down(&mut world);
        prop_assert!(world.told_too_late.is_empty(), "{:?}", world.told_too_late);
    }

    /// Content is quarantined on evidence only: since it was published, a process that could have read
    /// it has ended, an action failed or was declined, or a process gave no proof.
    #[test]
    fn nothing_is_quarantined_without_evidence(
        policy in policy_strategy(),
        steps in prop::collection::vec(step(), 0..60),
        restarts in any::<bool>(),
    ) {
        let policy = Policy { publishes: true, rolls_back: true, ..policy };
        let mut world = play(policy, &steps);
        if restarts {
            world.restart(None);
        }
        world.run_for(Duration::from_mins(10));
        prop_assert!(world.record.unfounded.is_empty(), "{:?}", world.record.unfounded);
    }
}
