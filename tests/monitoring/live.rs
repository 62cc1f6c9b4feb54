//! What each alert and each panel shows of three real podnudges, by a real Prometheus: through content that a
//! check rejects, content that the application rejects, and good content.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::scene::{Answer, MAPS, Prometheus, Replica, certificate, content};
use super::{queries, rules, text};
use crate::support::wait::LIMIT;
use crate::support::{ApiServer, in_network, is_within, payload, wait_until};

const DAY: f64 = 86_400.0;

/// The expressions of all alerts and panels, and which of them a test has looked at.
struct Screen {
    _prometheus: Prometheus,
    expressions: BTreeMap<String, String>,
    seen: RefCell<BTreeSet<String>>,
}

impl Screen {
    fn new(prometheus: Prometheus) -> Self {
        let (_, alerts) = rules();
        let alerts = alerts.iter();
        let alerts =
            alerts.map(|rule| (text(rule, "alert").to_owned(), text(rule, "expr").to_owned()));
        let panels = queries().into_iter();
        let panels =
            panels.map(|query| (format!("{} {}", query.panel, query.reference), query.expression));
        let expressions: BTreeMap<_, _> = alerts.chain(panels).collect();
        assert_eq!(expressions.len(), rules().1.len() + queries().len(), "a title is used twice");
        Self { _prometheus: prometheus, expressions, seen: RefCell::default() }
    }

    /// Waits until what this alert or panel returns is as described, and returns it.
    fn wait_for(&self, name: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        self.seen.borrow_mut().insert(name.to_owned());
        let mut answer = Answer::new();
        let is_within_limit = is_within(LIMIT, || {
            answer = Prometheus::query(&self.expressions[name]);
            is_so(&answer)
        });
        assert!(is_within_limit, "{name} returns {answer:?}");
        answer
    }

    /// Waits until it returns exactly this.
    fn shows(&self, name: &str, wanted: &[(&str, f64)]) {
        let wanted: Answer =
            wanted.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        self.seen.borrow_mut().insert(name.to_owned());
        let mut answer = Answer::new();
        let is_shown = is_within(LIMIT, || {
            answer = Prometheus::query(&self.expressions[name]);
            answer == wanted
        });
        assert!(is_shown, "{name} returns {answer:?} and not {wanted:?}");
    }

    /// Waits until the expressions of exactly these alerts return something.
    fn only(&self, alerts: &[&str]) {
        for name in self.expressions.keys().filter(|name| name.starts_with("Podnudge")) {
            let is_expected = alerts.contains(&name.as_str());
            self.wait_for(name, |answer| answer.is_empty() != is_expected);
        }
    }
}

/// The number that the timeline has for a state.
fn number(state: &str) -> f64 {
    let dashboard = super::dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let panel = panels.iter().find(|panel| panel["title"] == "States").unwrap();
    let names = panel["fieldConfig"]["defaults"]["mappings"][0]["options"].as_object().unwrap();
    let (number, _) = names.iter().find(|(_, shown)| shown["text"] == state).unwrap();
    number.parse().unwrap()
}

fn write(replicas: &mut [Replica], json: &str) {
    for replica in replicas {
        replica.volume.write(&content(json));
    }
}

fn wait_for_all(replicas: &[Replica], event: &str, wanted: usize) {
    for replica in replicas {
        replica.agent.wait_for(event, wanted);
    }
}

const WEB: [&str; 3] = ["web-0 web", "web-1 web", "web-2 web"];

fn all(keys: [&str; 3], after: &str, value: f64) -> Answer {
    keys.iter().map(|key| (format!("{key}{after}"), value)).collect()
}

/// Whether the answer has all of this; it may have more.
fn has(answer: &Answer, part: &Answer) -> bool {
    part.iter().all(|(key, value)| answer.get(key) == Some(value))
}

#[test]
fn each_alert_and_each_panel_shows_what_three_replicas_do() {
    in_network!();
    let folder = tempfile::tempdir().unwrap();
    let api = ApiServer::start();
    let certificate = certificate();
    let start = |number| Replica::start(folder.path(), number, &certificate, &api);
    let mut replicas: Vec<Replica> = (0..3).map(start).collect();
    wait_for_all(&replicas, "applied", 1);
    let screen = Screen::new(Prometheus::start(folder.path(), &replicas));
    relabelled();
    // What is always so: a certificate that expires soon, a volume that is polled, a port where nothing
    // listens.
    let always =
        ["PodnudgeCertificateExpires", "PodnudgePreflightProblem", "PodnudgeWatchDegraded"];
    screen.only(&always);
    at_rest(&screen);

    // Content that a check rejects.
    write(&mut replicas, "{");
    wait_for_all(&replicas, "rejected", 1);
    let rejected: Vec<String> = WEB.iter().map(|key| format!("{key} rejected")).collect();
    let wanted: Vec<(&str, f64)> = rejected.iter().map(|key| (key.as_str(), 1.0)).collect();
    screen.shows("PodnudgeRejected", &wanted);
    screen.only(&[&["PodnudgeRejected"], always.as_slice()].concat());
    screen.wait_for("Sync by replica A", |answer| has(answer, &all(WEB, "", 0.0)));
    screen.wait_for("States A", |answer| has(answer, &all(WEB, "", number("rejected"))));
    screen.shows("Replicas B", &[("", 3.0)]);
    screen.wait_for("Outcomes A", |answer| answer["rejected"] > 2.5 && answer["failed"] == 0.0);
    let alerts = screen.wait_for("Alerts A", |answer| {
        WEB.iter().all(|key| {
            answer.keys().any(|shown| shown.starts_with("PodnudgeRejected") && shown.contains(key))
        })
    });
    assert!(alerts.keys().all(|shown| !shown.starts_with("PodnudgeFailed")), "{alerts:?}");
    texts();
    println!("rejected: {alerts:?}");

    // Content that passes the check, and is rolled back as the application does not accept it.
    write(&mut replicas, "\"not accepted\"");
    wait_for_all(&replicas, "rolled-back", 1);
    let failed: Vec<String> = WEB.iter().map(|key| format!("{key} rolled-back")).collect();
    let wanted: Vec<(&str, f64)> = failed.iter().map(|key| (key.as_str(), 1.0)).collect();
    screen.shows("PodnudgeFailed", &wanted);
    screen.only(&[&["PodnudgeFailed"], always.as_slice()].concat());
    screen.wait_for("States A", |answer| has(answer, &all(WEB, "", number("rolled-back"))));
    screen.wait_for("Outcomes C", |answer| answer[""] > 2.5);
    screen.wait_for("Outcomes B", |answer| answer["failed"] > 2.5);
    screen.shows("Different contents A", &[("", 1.0)]);

    // Good content, in one replica first, whose podnudge sees the edit.
    let runs = |answer: &Answer| {
        let of_all = answer.iter().find(|(_, replicas)| **replicas > 2.5);
        of_all.map(|(digest, _)| digest.clone())
    };
    let first = screen.wait_for("Replicas by digest A", |answer| runs(answer).is_some());
    let first = runs(&first).unwrap();
    let edited = json!({"data": {"app.json": "\"good\""}});
    api.with_store(|store| store.patch(&format!("{MAPS}/app"), &edited).unwrap());
    replicas[0].agent.wait_for("edited", 1);
    replicas[0].volume.write(&content("\"good\""));
    replicas[0].agent.wait_for("applied", 2);
    screen.shows("Different contents A", &[("", 2.0)]);
    screen.wait_for("Replicas by digest A", |answer| answer.get(&first) == Some(&2.0));
    write(&mut replicas[1..], "\"good\"");
    wait_for_all(&replicas, "applied", 2);
    screen.only(&always);
    screen.wait_for("Replicas by digest A", |answer| {
        !answer.contains_key(&first) && runs(answer).is_some()
    });
    screen.shows("Different contents A", &[("", 1.0)]);
    screen.wait_for("Sync by replica A", |answer| has(answer, &all(WEB, "", 1.0)));
    screen.wait_for("Outcomes B", |answer| answer["applied"] > 2.5);
    for panel in ["Commit to applied", "Edit to commit"] {
        let percentiles = ["A", "B", "C"].map(|reference| {
            let name = format!("{panel} {reference}");
            screen.wait_for(&name, |answer| answer.get("").is_some_and(|took| *took > 0.0))[""]
        });
        assert!(percentiles.is_sorted() && percentiles[2] < 900.0, "{percentiles:?}");
        println!("{panel}: {percentiles:?}");
    }

    // An application that cannot reload now.
    write(&mut replicas, "\"busy\"");
    wait_for_all(&replicas, "retrying", 1);
    screen.wait_for("PodnudgeNotApplied", |answer| *answer == all(WEB, "", 0.0));
    screen.only(&[&["PodnudgeNotApplied"], always.as_slice()].concat());
    screen.wait_for("States A", |answer| has(answer, &all(WEB, "", number("backoff"))));

    // A rule that has never applied anything, and does not on any replica.
    for replica in &mut replicas {
        replica.certificates.write(&payload(&[("tls.crt", "no certificate")]));
    }
    screen.shows("PodnudgeHalfOutOfSync", &[("tls", 1.0)]);
    let unseen: Vec<&String> =
        screen.expressions.keys().filter(|name| !screen.seen.borrow().contains(*name)).collect();
    assert!(unseen.is_empty(), "not looked at: {unseen:?}");
    println!("{} alerts and queries of panels", screen.expressions.len());
}

/// The label `workload` of all kinds of pods.
fn relabelled() {
    wait_until("all targets are scraped", || Prometheus::query("up").len() == 7);
    let up = Prometheus::data("/api/v1/query?query=up");
    let up = up["result"].as_array().unwrap().iter().map(|series| &series["metric"]);
    let workloads: BTreeMap<&str, &str> =
        up.map(|labels| (text(labels, "pod"), text(labels, "workload"))).collect();
    let wanted = [
        ("alone", "alone"),
        ("bare-1", "bare-set"),
        ("db-0", "db"),
        ("node-x7k2p", "node"),
        ("web-0", "web-front"),
        ("web-1", "web-front"),
        ("web-2", "web-front"),
    ];
    assert_eq!(workloads, BTreeMap::from(wanted));
}

/// What the panels show of replicas that are in sync.
fn at_rest(screen: &Screen) {
    screen.shows("PodnudgePreflightProblem", &[("web-2 unreachable orphan", 1.0)]);
    screen.shows("Problems A", &[("web-2 unreachable orphan", 1.0)]);
    screen.shows("PodnudgeWatchDegraded", &[("web-0 tls", 1.0), ("web-0 web", 1.0)]);
    screen.shows("Watch A", &[("", 2.0)]);
    screen.shows("Watch B", &[("", 0.0)]);
    let expire = screen.wait_for("PodnudgeCertificateExpires", |answer| answer.len() == 3);
    for (key, left) in &expire {
        assert!(key.ends_with(" tls") && (2.9 * DAY..=3.0 * DAY).contains(left), "{expire:?}");
    }
    let left = screen.wait_for("Certificates A", |answer| answer.len() == 1);
    assert!((2.9 * DAY..=3.0 * DAY).contains(&left["tls"]), "{left:?}");
    screen.wait_for("Sync by replica A", |answer| has(answer, &all(WEB, "", 1.0)));
    screen.wait_for("States A", |answer| {
        let idle = answer.keys().map(|key| (key.clone(), number("idle"))).collect();
        answer.len() == 7 && *answer == idle
    });
    // Nothing is known of the content that was there before podnudge.
    for (reference, replicas) in [("A", 3.0), ("B", 0.0), ("C", 4.0)] {
        screen.shows(&format!("Replicas {reference}"), &[("", replicas)]);
    }
    screen.shows("Outcomes C", &[("", 0.0)]);
    screen.shows("Outcomes D", &[("", 0.0)]);
}

/// The texts of the alerts that are pending or firing: their templates are expanded.
fn texts() {
    let alerts = Prometheus::data("/api/v1/alerts");
    let alerts = alerts["alerts"].as_array().unwrap();
    assert!(alerts.len() >= 9, "{alerts:?}");
    for alert in alerts {
        for key in ["summary", "description"] {
            let text = text(&alert["annotations"], key);
            assert!(!text.contains('<') && !text.contains("{{"), "{text}");
            assert!(text.contains("test/web") || key == "description", "{text}");
        }
    }
}
