//! `podnudge plan`: its model against closed forms and against what was observed on a cluster, and its
//! output.

use std::time::Duration;

use podnudge_core::DrainBefore;
use podnudge_core::SlotPolicy;
use podnudge_core::jitter::{Jitter, JitterBy};
use podnudge_tools::plan::{self, Outcome, Run, Scenario, Slots};
use podnudge_tools::plan_options::Restarts;
use serde_json::Value;

use crate::support::podnudge;
use crate::support::policies;

const SECOND: Duration = Duration::from_secs(1);

/// A rule that reloads, on replicas whose kubelets write the volumes at once.
fn reload(replicas: u32) -> Scenario {
    Scenario {
        policy: policies::policy_settling(),
        slots: None,
        replicas,
        downtime: Duration::ZERO,
        start_time: 2 * SECOND,
        sync_period: Duration::ZERO,
        endpoint_delay: SECOND,
        restarts: Restarts::Kubelet,
        min_available: 1,
        changes: 1,
        every: Duration::from_mins(1),
        runs: 1,
        seed: 1,
    }
}

/// The same with restarts, and kubelets that synchronize each pod at its own time.
fn restart(replicas: u32) -> Scenario {
    let mut scenario = Scenario { sync_period: Duration::from_mins(1), ..reload(replicas) };
    scenario.policy.rollout.is_restart = true;
    scenario.policy.application.restarts.most = 5;
    scenario
}

fn jittered(mut scenario: Scenario, window: Duration) -> Scenario {
    scenario.policy.gate.jitter = Jitter { window, by: JitterBy::Pod };
    scenario
}

fn with_slots(mut scenario: Scenario, count: u32) -> Scenario {
    let (acts_when_unreachable, awaits_readiness) = (false, scenario.policy.rollout.is_restart);
    let (patience, bake) = (Duration::ZERO, Duration::ZERO);
    scenario.policy.permit.slot =
        Some(SlotPolicy { acts_when_unreachable, awaits_readiness, patience, bake });
    scenario.slots = Some(Slots { count, duration: 15 * SECOND, cover: 15 * SECOND });
    scenario
}

fn drained(mut scenario: Scenario) -> Scenario {
    scenario.policy.permit.drain = Some(policies::drain(5 * SECOND, DrainBefore::Restart));
    scenario
}

fn seconds(run: &Run) -> Vec<f64> {
    let mut all: Vec<f64> =
        run.has_last.iter().map(|has| has.expect("it has the change").as_secs_f64()).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// The distribution function of the waits is a line (Kolmogorov and Smirnov: above 1.95/√n once in 1000).
#[test]
fn jitter_spreads_reloads_uniformly_over_its_window() {
    let replicas = 1000;
    let run = plan::run(&jittered(reload(replicas), Duration::from_mins(10)), 0);
    let times = seconds(&run);
    assert_eq!(plan::greatest(&run.downs), 0, "a reload interrupts nothing");
    let count = f64::from(replicas);
    for (n, time) in (1..).zip(&times) {
        let distance = (time / 600.0 - f64::from(n) / count).abs();
        assert!(distance < 1.95 / count.sqrt(), "{distance} at {time} s");
    }
}

/// For starts that are uniform in a window, and interruptions of `x` times the window, the probabilities of
/// the greatest overlap are known: none overlaps with (1-(n-1)x)^n, and three do with 3x²-2x³.
#[test]
fn the_overlap_of_interruptions_is_that_of_uniform_intervals() {
    let (runs, window, x) = (400, Duration::from_mins(2), 0.2_f64);
    let two = 2.0 - (1.0 - x).powi(2);
    let none_of_three = (1.0 - 2.0 * x).powi(3);
    let all_three = 3.0 * x.powi(2) - 2.0 * x.powi(3);
    let three = none_of_three + 2.0 * (1.0 - none_of_three - all_three) + 3.0 * all_three;
    for (replicas, expected) in [(2, two), (3, three)] {
        // The grid is coarse.
        let enumerated = enumerated(replicas, x);
        assert!((enumerated - expected).abs() < 0.08, "{enumerated}, not {expected}");
        let downtime = window.mul_f64(x);
        let scenario = Scenario { downtime, runs, ..reload(replicas) };
        let mean = plan::simulate(&jittered(scenario, window)).down_at_once.mean;
        // Four standard errors; the standard deviation is below 0.6.
        assert!((mean - expected).abs() < 0.12, "{replicas} replicas: {mean}, not {expected}");
    }
}

/// The mean of the greatest overlap of intervals that begin at any points of a grid.
fn enumerated(count: u32, x: f64) -> f64 {
    const GRID: u32 = 30;
    let length = Duration::from_secs_f64(x * f64::from(GRID));
    let cases = GRID.pow(count);
    let greatest = |case: u32| {
        let begins = (0..count).map(|n| SECOND * (case / GRID.pow(n) % GRID));
        let spans: Vec<plan::Span> = begins.map(|at| (at, at + length)).collect();
        plan::greatest(&spans)
    };
    f64::from((0..cases).map(greatest).sum::<u32>()) / f64::from(cases)
}

#[test]
fn without_jitter_replicas_that_get_the_change_at_once_are_down_at_once() {
    let restarting = Scenario { sync_period: Duration::ZERO, ..restart(20) };
    let reloading = Scenario { downtime: SECOND, ..reload(20) };
    for scenario in [restarting, reloading] {
        assert_eq!(plan::greatest(&plan::run(&scenario, 0).downs), 20);
    }
}

#[test]
fn with_slots_never_more_replicas_are_down_than_there_are_slots() {
    for slots in 1..=3 {
        for sync_period in [Duration::ZERO, Duration::from_mins(1)] {
            let many =
                Scenario { changes: 3, runs: 8, sync_period, ..with_slots(restart(6), slots) };
            for scenario in [many.clone(), drained(many)] {
                let outcome = plan::simulate(&scenario);
                assert!(outcome.down_at_once.worst <= f64::from(slots), "{outcome:?}");
                assert!(outcome.api_requests_per_second > 0 && outcome.unfinished == 0);
            }
        }
    }
}

/// Without slots there is no request, and the replicas do not depend on each other.
#[test]
fn without_slots_no_request_is_sent() {
    let outcome = plan::simulate(&Scenario { runs: 3, ..jittered(restart(5), 20 * SECOND) });
    assert_eq!((outcome.api_requests_per_second, outcome.api_requests), (0, 0.0));
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let outcome = |seed| plan::simulate(&Scenario { seed, runs: 4, ..with_slots(restart(4), 1) });
    assert_eq!(outcome(7), outcome(7));
    assert_ne!(outcome(7), outcome(8));
}

/// Three replicas on a cluster, four edits (`k8s/e2e/run`): without slots, 0 of 3 were ready at times and the
/// last edit did not run everywhere within a minute; with a drain and a slot, no request failed and at least 2 of 3
/// were ready.
#[test]
fn the_plan_agrees_with_what_was_observed_on_a_cluster() {
    let edits =
        |scenario: Scenario| Scenario { changes: 4, runs: 40, min_available: 2, ..scenario };
    let jitter = plan::simulate(&edits(jittered(restart(3), 20 * SECOND)));
    let within =
        |figures: plan::Figures, observed: f64| (figures.p5..=figures.worst).contains(&observed);
    assert!(within(jitter.down_at_once, 3.0), "{:?}", jitter.down_at_once);
    assert!(jitter.seconds_until_all_have_it.unwrap().median > 60.0);
    assert!(jitter.failing_seconds_per_replica > 1.0);

    let safe = drained(with_slots(restart(3), 1));
    let by_kubelet = Scenario { every: 150 * SECOND, ..safe.clone() };
    let supervised = Scenario { restarts: Restarts::Supervised, ..safe };
    for scenario in [by_kubelet, supervised] {
        let Outcome { outages, unfinished, failing_seconds_per_replica, down_at_once, .. } =
            plan::simulate(&edits(scenario));
        assert_eq!((outages, unfinished), (0, 0));
        assert!(down_at_once.worst <= 1.0 && failing_seconds_per_replica <= 0.0);
    }
}

/// `cargo run --release --example fleet`, twelve real podnudges below `podnudge supervise`. Observed: with a slot
/// and a drain, at most 1 was down, and all had the change after 40.0 s; with a jitter of 2 s, at most 5 were down,
/// and all had it after 2.6 s.
#[test]
fn the_plan_agrees_with_what_the_example_of_a_fleet_shows() {
    let millis = Duration::from_millis;
    let mut fleet = Scenario {
        sync_period: Duration::ZERO,
        start_time: millis(400),
        endpoint_delay: millis(100),
        restarts: Restarts::Supervised,
        runs: 40,
        ..restart(12)
    };
    (fleet.policy.rollout.alive_for, fleet.policy.rollout.proof) = (millis(100), true);
    let mut slot = with_slots(fleet.clone(), 1);
    slot.policy.permit.drain = Some(policies::drain(millis(400), DrainBefore::Restart));
    for (scenario, down, seconds) in [(slot, 1.0, 26.5), (jittered(fleet, 2 * SECOND), 5.0, 2.6)] {
        let outcome = plan::simulate(&scenario);
        let until = outcome.seconds_until_all_have_it.unwrap();
        let is_within = |figures: plan::Figures, observed: f64| {
            // The model has no time for what twelve podnudges do on one machine: some 50 ms each.
            (figures.p5 - 0.1..=figures.worst + 0.6).contains(&observed)
        };
        assert!(is_within(outcome.down_at_once, down), "{:?}", outcome.down_at_once);
        assert!(is_within(until, seconds), "{until:?}");
    }
}

/// The standard output of `podnudge plan`, or its exit code and standard error.
fn planned(arguments: &[&str]) -> Result<String, (i32, String)> {
    let output = podnudge().arg("plan").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match output.status.code().unwrap() {
        0 => Ok(text(output.stdout)),
        code => Err((code, text(output.stderr))),
    }
}

/// `UPDATE=1` writes the output into the page.
#[test]
fn the_page_about_replicas_shows_a_real_plan() {
    const PAGE: &str = "docs/fleet.md";
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("$ podnudge plan ").expect("the page has a plan");
    let (arguments, rest) = rest.split_once('\n').unwrap();
    let (_, after) = rest.split_once("\n```\n").unwrap();
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = planned(&arguments).unwrap();
    let now = format!("{before}$ podnudge plan {}\n{output}```\n{after}", arguments.join(" "));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &now).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert_eq!(now, page, "run `UPDATE=1 cargo test --test all the_page_about_replicas`");
}

#[test]
fn a_plan_is_also_written_as_json_and_as_a_drawing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.svg");
    let arguments = ["--watch=/etc/app", "--restart", "--replicas=3", "--runs=2", "--json"];
    let svg = format!("--svg={}", file.display());
    let json = planned(&[&arguments[..], &[&svg]].concat()).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["replicas"], &json["runs"]), (&3.into(), &2.into()));
    assert_eq!(json["chart"].as_array().unwrap().len(), 64);
    assert!(json["advice"][0].is_string() && json["down_at_once"]["worst"].is_number());

    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("prefers-color-scheme:dark"));
    // Nothing is loaded from elsewhere.
    assert!(!svg.contains("href") && !svg.contains("url(") && svg.matches("http").count() == 1);

    let nowhere = format!("--svg={}/missing/plan.svg", folder.path().display());
    let (code, text) = planned(&[&arguments[..], &[&nowhere]].concat()).unwrap_err();
    assert!(code == 74 && text.contains("cannot write"), "{code} {text}");
}

#[test]
fn a_plan_recommends_slots_where_jitter_does_not_help() {
    let jitter = ["--watch=/etc/app", "--restart", "--jitter=20s", "--replicas=3", "--runs=9"];
    let text = planned(&[&jitter[..], &["--min-available=2"]].concat()).unwrap();
    assert!(text.contains("jitter alone does not help"), "{text}");
    assert!(text.contains("max-concurrent = 1"), "{text}");
    assert!(text.contains("[rule.drain]"), "{text}");
    let text = planned(&[&jitter[..], &["--min-available=3"]].concat()).unwrap();
    assert!(text.contains("run at least 4 replicas"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("podnudge.toml");
    let rule =
        "[[rule]]\nwatch = \"/etc/app\"\nrestart = {}\ndrain = {}\nlimit = { lease = \"web\" }\n";
    std::fs::write(&file, rule).unwrap();
    let file = file.to_str().unwrap();
    let slots = ["--config", file, "--replicas=3", "--min-available=2", "--runs=9"];
    let text = planned(&slots).unwrap();
    assert!(text.contains("no outage: at most 1 of 3"), "{text}");
    assert!(text.contains("max-concurrent 1"), "{text}");
    let text = planned(&[&slots[..], &["--endpoint-delay=6s"]].concat()).unwrap();
    assert!(text.contains("the drain's wait is shorter than the endpoints take"), "{text}");
    assert!(text.contains("requests fail, per replica         for 1.0s"), "{text}");
    let text = planned(&[&slots[..], &["--changes=8", "--supervised"]].concat()).unwrap();
    assert!(text.contains("the restart budget, 5 in 1h, delays"), "{text}");
}

/// The disruption controller rounds a percentage up.
#[test]
fn an_outage_is_what_a_usual_disruption_budget_would_not_allow() {
    for (replicas, least) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (9, 6), (100, 75)] {
        let replicas = format!("--replicas={replicas}");
        let arguments = ["--watch=/etc/app", "--restart", "--runs=1", "--json", &replicas];
        let plan: Value = serde_json::from_str(&planned(&arguments).unwrap()).unwrap();
        assert_eq!(plan["min_available"], least, "{replicas}");
    }
}

#[test]
fn a_plan_that_cannot_be_made_is_a_wrong_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("podnudge.toml");
    let rule =
        |name| format!("[[rule]]\nname = \"{name}\"\nwatch = \"/etc/{name}\"\nrestart = {{}}\n");
    std::fs::write(&file, rule("a") + &rule("b")).unwrap();
    let two = ["--replicas=3", "--runs=1", "--config", file.to_str().unwrap()];
    let preset = ["--watch=/etc/app", "--replicas=3"];
    let cases: [(&[&str], &[&str], &str); 6] = [
        (&two, &[], "add `--rule NAME`\n  hint: one of `a`, `b`"),
        (&two, &["--rule=c"], "no rule is named `c`"),
        (&preset, &[], "the rule has no action"),
        (&two, &["--rule=a", "--min-available=4"], "4 is more than all replicas, 3"),
        (
            &two,
            &["--rule=a", "--changes=0"],
            "--changes: must be a whole number from 1 to 100, not `0`",
        ),
        (&two, &["--rule=a", "--every=5"], "--every: "),
    ];
    for (arguments, more, expected) in cases {
        let (code, text) = planned(&[arguments, more].concat()).unwrap_err();
        assert!(code == 64 && text.contains(expected), "{code} {text}");
    }
    assert!(
        planned(&[&two[..], &["--rule=b"]].concat()).unwrap().starts_with("3 replicas, restart")
    );
}

/// What a rollout costs the API server, by the code that runs in the pods: a handful of requests for each replica, whatever
/// the numbers are, and also if the server is busy all the time: the last one.
#[test]
fn a_replica_needs_a_handful_of_requests_whatever_the_numbers_are() {
    let (short, long) = (SECOND / 5, 2 * SECOND);
    for (replicas, slots, action, most) in [
        (10, 1, long, (4.0, 5.0, 1.5)),
        (300, 15, long, (8.0, 5.0, 1.5)),
        (300, 15, short, (8.0, 5.0, 1.5)),
        (1000, 10, long, (10.0, 5.0, 1.5)),
        (1000, 100, long, (10.0, 5.0, 1.5)),
        (1000, 100, short, (8.0, 8.0, 2.3)),
    ] {
        let mut scenario = with_slots(reload(replicas), slots);
        scenario.policy.rollout.alive_for = Duration::ZERO;
        scenario.downtime = action;
        let run = plan::run(&scenario, 0);
        let requests = whole(run.requests.0) / f64::from(replicas);
        let conflicts = 100.0 * whole(run.writes.1) / whole(run.writes.0);
        let ideal = action.as_secs_f64() * f64::from(replicas.div_ceil(slots));
        let time = run.until_all().expect("all have it").as_secs_f64() / ideal;
        let what = format!(
            "{replicas} replicas, {slots} slots, {action:?}: {requests:.1} requests each, {conflicts:.1} % conflicts, {time:.2} of the ideal time",
        );
        println!("{what}");
        assert!(requests <= most.0 && conflicts <= most.1 && time <= most.2, "{what}");
        assert!(plan::greatest(&run.downs) <= slots, "{what}");
    }
}

fn whole(number: u64) -> f64 {
    f64::from(u32::try_from(number).expect("it is small"))
}
