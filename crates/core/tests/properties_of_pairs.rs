//! Properties that hold for every sequence of events and times when two rules publish for one
//! application.

use std::time::Duration;

use crate::support::pair::{self, Pair};
use crate::support::policies;
use podnudge_core::backoff::Retry;
use podnudge_core::budget::RestartBudget;
use podnudge_core::evidence::InSync;
use podnudge_core::jitter::{Jitter, JitterBy};
use podnudge_core::status::State;
use podnudge_core::{Policy, TargetName};
use proptest::prelude::*;

/// Contents from this number on crash the application.
const FIRST_DEADLY: u8 = 4;
/// Targets that may be the same.
const ANY: [TargetName; 2] = [TargetName::Any, TargetName::Any];

/// One event for the two rules and their application.
#[derive(Debug, Clone)]
enum Step {
    Commit {
        rule: usize,
        number: u8,
    },
    Trigger {
        rule: Option<usize>,
    },
    Away {
        millis: u64,
    },
    Wait {
        millis: u64,
    },
    /// podnudge is killed and restarts.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..2usize, 0..FIRST_DEADLY + 2).prop_map(|(rule, number)| Step::Commit { rule, number }),
        1 => prop::option::of(0..2usize).prop_map(|rule| Step::Trigger { rule }),
        1 => (0..120_000u64).prop_map(|millis| Step::Away { millis }),
        1 => Just(Step::Restart),
        4 => (0..2_000u64).prop_map(|millis| Step::Wait { millis }),
        4 => (0..40_000u64).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// The settings that differ between the rules; times are in milliseconds.
#[derive(Debug, Clone)]
struct Settings {
    settle: u64,
    jitter: u64,
    min_interval: u64,
    alive_for: u64,
    target_wait: u64,
    attempts: u32,
    retries_first: bool,
    restarts_last: bool,
    is_restart: bool,
}

/// Both rules, how long the application survives deadly content, and how long its restart takes.
#[derive(Debug, Clone)]
struct Setting {
    rules: [Settings; 2],
    ends_after: u64,
    starts_after: u64,
}

fn settings() -> impl Strategy<Value = Settings> {
    let times = (0..500u64, 0..3u64, 0..10u64, 1..4u64, 60..400u64);
    let ladder = (1..5u32, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (times, ladder).prop_map(
        |(
            (settle, jitter, interval, alive, wait),
            (attempts, retries_first, restarts_last, is_restart),
        )| {
            Settings {
                settle,
                jitter: jitter * 10_000,
                min_interval: interval * 1000,
                alive_for: alive * 1000,
                target_wait: wait * 1000,
                attempts,
                retries_first,
                restarts_last,
                is_restart,
            }
        },
    )
}

fn setting() -> impl Strategy<Value = Setting> {
    let rules = (settings(), settings()).prop_map(|(one, other)| [one, other]);
    (rules, 0..900u64, 100..20_000u64).prop_map(|(rules, ends_after, starts_after)| Setting {
        rules,
        ends_after,
        starts_after,
    })
}

/// The model has one process, so each rule would see the restarts by the other one.
fn without_restarts(mut setting: Setting) -> Setting {
    for rule in &mut setting.rules {
        (rule.restarts_last, rule.is_restart) = (false, false);
    }
    setting
}

fn policy(settings: &Settings) -> Policy {
    policies::changed(policies::policy(), |policy| {
        policy.intake.settle = Duration::from_millis(settings.settle);
        policy.intake.settle_max = Duration::from_secs(2);
        policy.intake.settles_commits = settings.settle.is_multiple_of(2);
        policy.gate.jitter =
            Jitter { window: Duration::from_millis(settings.jitter), by: JitterBy::Random };
        policy.gate.min_interval = Duration::from_millis(settings.min_interval);
        policy.rollout.alive_for = Duration::from_millis(settings.alive_for);
        policy.rollout.target_wait = Duration::from_millis(settings.target_wait);
        policy.rollout.retry =
            Retry { attempts: settings.attempts, ..policies::policy().rollout.retry };
        policy.rollout.retries_first = settings.retries_first;
        policy.rollout.restarts_last = settings.restarts_last;
        policy.rollout.is_restart = settings.is_restart;
        policy.application.restarts = RestartBudget { most: 2, within: Duration::from_mins(1) };
    })
}

fn pair(setting: &Setting, targets: [TargetName; 2]) -> Pair {
    let [one, other] = &setting.rules;
    let mut policies = pair::publishing([policy(one), policy(other)]);
    for (policy, target) in policies.iter_mut().zip(targets) {
        policy.target = target;
    }
    let mut pair = Pair::new(policies);
    pair.ends_after = Duration::from_millis(setting.ends_after);
    pair.starts_after = Duration::from_millis(setting.starts_after);
    pair
}

fn apply(pair: &mut Pair, step: &Step) {
    match step {
        Step::Commit { rule, number } => pair.commit(*rule, *number, *number >= FIRST_DEADLY),
        Step::Trigger { rule } => pair.trigger(*rule),
        Step::Away { millis } => pair.application_is_away_for(Duration::from_millis(*millis)),
        Step::Wait { millis } => pair.run_for(Duration::from_millis(*millis)),
        Step::Restart => pair.restart(),
    }
}

/// Whether podnudge can tell which content crashes the application. It cannot if a process starts
/// with new content of both rules: after a time without the application, or after a trigger that
/// overrides the usual order.
fn is_clear(pair: &Pair, step: &Step, is_triggered: bool) -> bool {
    match step {
        Step::Commit { rule, .. } => !is_triggered && (*rule == 0 || !pair.is_away()),
        Step::Trigger { .. } | Step::Away { .. } => pair.is_at_rest() && !pair.is_away(),
        Step::Wait { .. } => true,
        // A restarted podnudge does not know which content the application ran before.
        Step::Restart => false,
    }
}

/// In the end each rule has content with which the application runs, and the newest content if the
/// application runs with it.
fn assert_at_rest(pair: &Pair) -> Result<(), TestCaseError> {
    for (rule, shelf) in pair.shelves.iter().enumerate() {
        let (disk, status) = (pair.digest_on_disk(rule), pair.rule(rule));
        let published = status.digest_published.expect("something is published");
        prop_assert!(!pair.deadly.contains(&published), "rule {}", rule);
        prop_assert_eq!(pair.runs(rule), Some(published));
        prop_assert_eq!(status.state == State::Idle, status.in_sync != InSync::No);
        prop_assert!(matches!(status.state, State::Idle | State::RolledBack), "{:?}", status);
        prop_assert_eq!(status.state == State::Idle, published == disk);
        prop_assert!(shelf.violations.is_empty(), "{:?}", shelf.violations);
    }
    prop_assert!(!pair.overlapped);
    Ok(())
}

/// Two rules publish for one application, and the content of the second crashes it. That content is
/// rolled back, and the content of the first, published just before, stays.
#[test]
fn only_the_crashing_content_of_two_rules_is_quarantined() {
    let policies = pair::publishing([policies::policy(), policies::policy()]);
    let mut pair = Pair::new(policies);
    pair.run_for(Duration::from_secs(10));
    pair.commit(0, 1, false);
    pair.commit(1, FIRST_DEADLY, true);
    pair.run_for(Duration::from_mins(20));
    let quarantined: Vec<_> = pair.quarantined().map(|(_, digest)| digest).collect();
    assert_eq!(quarantined, [pair.digest_on_disk(1)]);
    assert_eq!(pair.runs(0), Some(pair.digest_on_disk(0)));
    assert_eq!([pair.rule(0).state, pair.rule(1).state], [State::Idle, State::RolledBack]);
}

/// The first rule restarts the application, and the second one signals it.
fn restart_and_signal(settle: u64, ends_after: u64, starts_after: u64) -> Setting {
    let signals = Settings {
        settle: 0,
        jitter: 0,
        min_interval: 0,
        alive_for: 1000,
        target_wait: 60_000,
        attempts: 1,
        retries_first: false,
        restarts_last: false,
        is_restart: false,
    };
    let restarts = Settings { settle, is_restart: true, ..signals.clone() };
    Setting { rules: [restarts, signals], ends_after, starts_after }
}

/// One rule restarts the application while the other rule's content crashes it at each start. The
/// first rule does not give up: its content is not at fault, and the application runs it once the
/// other content is rolled back.
#[test]
fn a_restart_does_not_fail_because_of_the_content_of_another_rule() {
    // Between two polls of podnudge, the process starts and crashes.
    let setting = restart_and_signal(18, 100, 3610);
    let mut pair = pair(&setting, ANY);
    pair.commit(0, 0, false);
    pair.trigger(None);
    pair.application_is_away_for(Duration::from_millis(113_695));
    pair.run_for(Duration::from_millis(42_760));
    pair.commit(1, FIRST_DEADLY, true);
    pair.run_for(Duration::from_millis(42_848));
    pair.trigger(Some(0));
    pair.run_for(Duration::from_hours(2));
    let states = [0, 1].map(|rule| pair.rule(rule).state);
    assert_eq!(states, [State::Idle, State::RolledBack]);
    assert_eq!(pair.runs(0), Some(pair.digest_on_disk(0)));
}

/// Both rules publish new content after a trigger while the target restarts, and the content of the
/// second rule crashes it. A change of the first rule waits until that is rolled back.
#[test]
fn a_change_waits_for_the_proof_of_content_that_was_published_later() {
    let mut pair = pair(&restart_and_signal(0, 0, 1743), ANY);
    pair.run_for(Duration::from_millis(10));
    pair.commit(1, FIRST_DEADLY, true);
    pair.run_for(Duration::from_millis(2761));
    pair.trigger(None);
    pair.run_for(Duration::from_millis(10));
    pair.commit(0, 3, false);
    pair.run_for(Duration::from_millis(995));
    pair.commit(0, 1, false);
    pair.run_for(Duration::from_hours(2));
    for (at, digest) in pair.quarantined() {
        assert!(pair.deadly.contains(&digest), "{digest} at {at:?}");
    }
    assert_eq!(pair.runs(0), Some(pair.digest_on_disk(0)));
}

/// The process that follows a restart starts just before the time limit.
#[test]
fn a_process_that_starts_late_gets_the_time_to_prove_its_content() {
    let mut pair = pair(&restart_and_signal(0, 0, 14_112), ANY);
    pair.trigger(None);
    pair.run_for(Duration::from_millis(1003));
    pair.application_is_away_for(Duration::from_millis(58_001));
    pair.run_for(Duration::from_hours(2));
    assert_eq!(pair.rule(0).state, State::Idle);
}

/// The process starts and reads between the look for a process and the look whether one has read the content.
#[test]
fn a_process_that_starts_during_the_last_poll_gets_the_time_to_prove_its_content() {
    let mut setting = restart_and_signal(0, 0, 13_111);
    setting.rules.swap(0, 1);
    setting.rules[1].alive_for = 2000;
    let mut pair = pair(&setting, ANY);
    pair.trigger(None);
    pair.run_for(Duration::from_millis(3007));
    pair.application_is_away_for(Duration::from_secs(58));
    pair.run_for(Duration::from_hours(2));
    assert_eq!(pair.rule(1).state, State::Idle);
}

/// podnudge ends for one rule only when the other one is not in the middle of an action.
#[test]
fn the_end_of_podnudge_waits_for_the_other_rule_and_the_status_says_so() {
    let named = |name: &str| TargetName::Exact("process", name.to_owned());
    let other = policies::changed(policies::policy(), |policy| {
        policy.target = named("other");
        policy.rollout.alive_for = Duration::from_mins(1);
    });
    let ends = policies::changed(policies::policy(), |policy| {
        policy.target = named("ends");
        policy.rollout.is_restart = true;
        policy.rollout.pod_exit_code = Some(88);
    });
    let mut pair = Pair::new(pair::publishing([ends, other]));
    pair.run_for(Duration::from_secs(1));
    pair.commit(1, 1, false);
    pair.run_for(Duration::from_secs(1));
    pair.commit(0, 1, false);
    pair.run_for(Duration::from_secs(10));
    let waits = pair.rule(0);
    let reason = waits.reason.map(|reason| reason.message);
    let wanted = "waits for rule `rule-2`, which has not finished";
    assert_eq!((waits.state, reason.as_deref()), (State::Waiting, Some(wanted)));
    pair.run_for(Duration::from_mins(2));
    assert_eq!((pair.rule(0).state, pair.rule(0).reason), (State::Acting, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// An exit of the application is attributed to the content that caused it, and to no content of
    /// the other rule.
    #[test]
    fn only_content_that_crashes_the_application_is_quarantined(
        setting in setting(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut pair = pair(&setting, ANY);
        let mut is_triggered = false;
        for step in &steps {
            is_triggered &= !pair.is_at_rest();
            if is_clear(&pair, step, is_triggered) {
                is_triggered |= matches!(step, Step::Trigger { .. });
                apply(&mut pair, step);
            }
            if matches!(step, Step::Trigger { .. }) {
                // The trigger is for the content that is on disk now.
                pair.run_for(Duration::from_millis(10));
            }
        }
        pair.run_for(Duration::from_hours(2));
        for (at, digest) in pair.quarantined() {
            prop_assert!(pair.deadly.contains(&digest), "{} at {:?}", digest, at);
        }
        for rule in 0..2 {
            let is_deadly = pair.deadly.contains(&pair.digest_on_disk(rule));
            prop_assert_eq!(pair.rule(rule).state == State::RolledBack, is_deadly);
        }
        assert_at_rest(&pair)?;
    }

    /// Whatever happens, and whichever content podnudge quarantines: in the end the application
    /// runs, and the rules never act on it at the same time.
    #[test]
    fn no_content_that_crashes_the_application_stays_published(
        setting in setting(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut pair = pair(&setting, ANY);
        for step in &steps {
            apply(&mut pair, step);
        }
        pair.run_for(Duration::from_hours(2));
        assert_at_rest(&pair)?;
    }

    /// Rules whose targets cannot be the same do not wait for each other: each acts at the same
    /// times as if nothing happened to the other one.
    #[test]
    fn rules_with_different_targets_do_not_wait_for_each_other(
        setting in setting().prop_map(without_restarts),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let name = |name: &str| TargetName::Exact("process", name.to_owned());
        let targets = || [name("app"), name("exporter")];
        let (mut both, mut alone) = (pair(&setting, targets()), pair(&setting, targets()));
        for step in &steps {
            match step {
                Step::Commit { number: FIRST_DEADLY.., .. }
                | Step::Trigger { rule: None }
                | Step::Away { .. }
                | Step::Restart => {}
                Step::Commit { rule: 1, .. } | Step::Trigger { rule: Some(1) } => {
                    apply(&mut both, step);
                }
                step => {
                    apply(&mut both, step);
                    apply(&mut alone, step);
                }
            }
        }
        prop_assert_eq!(both.did(0), alone.did(0));
    }
}
