//! The alerts by themselves: their samples, their texts, and the form of the manifests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use podnudge_config as config;
use serde_json::{Value, json};

use super::{FOLDER, manifest, rules, text};
use crate::support::command;

const SEVEN: [&str; 7] = [
    "PodnudgeNotApplied",
    "PodnudgeRejected",
    "PodnudgeFailed",
    "PodnudgePreflightProblem",
    "PodnudgeCertificateExpires",
    "PodnudgeWatchDegraded",
    "PodnudgeHalfOutOfSync",
];

fn promtool(folder: &Path, arguments: &[&str]) -> Output {
    let mut promtool = command("promtool");
    promtool.current_dir(folder).args(arguments);
    promtool.output().expect("promtool is installed (package prometheus)")
}

fn said(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    parts.concat()
}

/// The rules without the descriptions: `live.rs` has Prometheus expand those.
fn write_rules(folder: &Path, edit: impl Fn(&mut Value)) {
    let (mut spec, _) = rules();
    for group in spec["groups"].as_array_mut().unwrap() {
        for alert in group["rules"].as_array_mut().unwrap() {
            alert["annotations"].as_object_mut().unwrap().remove("description");
            edit(alert);
        }
    }
    fs::write(folder.join("rules.yaml"), spec.to_string()).unwrap();
}

const TESTS: &str = include_str!("alerts.test.yaml");

#[test]
fn each_alert_fires_when_it_should_and_not_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    write_rules(folder.path(), |_| {});
    fs::write(folder.path().join("alerts.test.yaml"), TESTS).unwrap();
    let output = promtool(folder.path(), &["test", "rules", "alerts.test.yaml"]);
    assert!(output.status.success(), "{}", said(&output));
    let tests = crate::support::yaml::documents(TESTS).remove(0);
    for alert in SEVEN {
        let tests = tests["tests"].as_array().unwrap().iter();
        let cases = tests.flat_map(|test| test["alert_rule_test"].as_array().unwrap().clone());
        let cases: Vec<Value> = cases.filter(|case| text(case, "alertname") == alert).collect();
        let fires = |case: &&Value| case["exp_alerts"].as_array().is_some_and(|a| !a.is_empty());
        let firing = cases.iter().filter(fires).count();
        println!("{alert}: fires in {firing} of {} moments", cases.len());
        assert!(firing >= 1 && cases.len() > firing, "{alert}");
    }
}

/// Otherwise promtool would also accept alerts that never fire.
#[test]
fn the_samples_find_alerts_that_never_fire() {
    let folder = tempfile::tempdir().unwrap();
    write_rules(folder.path(), |rule| rule["expr"] = "up == 2".into());
    fs::write(folder.path().join("alerts.test.yaml"), TESTS).unwrap();
    let output = promtool(folder.path(), &["test", "rules", "alerts.test.yaml"]);
    assert!(!output.status.success());
    for alert in SEVEN {
        assert!(said(&output).contains(&format!("alertname: {alert}, ")), "{}", said(&output));
    }
}

#[test]
fn there_are_seven_alerts_which_promtool_accepts() {
    let (_, alerts) = rules();
    let names: Vec<&str> = alerts.iter().map(|alert| text(alert, "alert")).collect();
    assert_eq!(names, SEVEN);
    let page = include_str!("../../docs/monitoring.md");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is missing in docs/monitoring.md");
    }
    let folder = tempfile::tempdir().unwrap();
    write_rules(folder.path(), |_| {});
    let output = promtool(folder.path(), &["check", "rules", "--lint-fatal", "rules.yaml"]);
    assert!(output.status.success() && said(&output).contains("7 rules"), "{}", said(&output));
}

#[test]
fn problems_that_may_be_wanted_fire_no_alert() {
    let schema: Value = serde_json::from_str(&config::schema(config::FILE)).unwrap();
    let accept = &schema["properties"]["rule"]["items"]["properties"]["accept"];
    let words = accept["anyOf"][0]["enum"].as_array().unwrap().iter();
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    let (_, alerts) = rules();
    let alert = alerts.iter().find(|alert| alert["alert"] == "PodnudgePreflightProblem").unwrap();
    let excluded = format!("{{problem!~\"{}\"}}", words.join("|"));
    assert!(text(alert, "expr").contains(&excluded), "{excluded}: {alert}");
}

/// Whoever gets an alert finds out what to do first, and where there is more.
#[test]
fn each_alert_says_what_to_do_first_and_links_to_an_existing_section() {
    let page = fs::read_to_string("docs/troubleshooting.md").unwrap();
    let titles = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title.replace(' ', "-").replace([',', '.'], "")
    };
    let anchors: BTreeSet<String> = titles.map(anchor).collect();
    let (_, alerts) = rules();
    for alert in &alerts {
        let annotations = &alert["annotations"];
        assert!(["warning", "critical"].contains(&text(&alert["labels"], "severity")), "{alert}");
        assert!(text(annotations, "summary").contains("{{ $labels.rule }}"), "{alert}");
        let description = text(annotations, "description");
        assert!(description.contains(" First "), "{description}");
        let link = text(annotations, "runbook_url");
        let link = link.strip_prefix("docs/troubleshooting.md").expect("a link to that page");
        // The template of one link is expanded by the samples.
        let part = link.strip_prefix('#').unwrap_or_default();
        assert!(part.contains("{{") || anchors.contains(part), "{link}");
    }
    for line in TESTS.lines().filter(|line| line.contains("runbook_url")) {
        let (_, part) = line.split_once("troubleshooting.md").unwrap();
        let part = part.trim_end_matches('"').trim_start_matches('#');
        assert!(anchors.contains(part), "{line}");
    }
}

/// The API server rejects or drops a key that the custom resources do not have.
#[test]
fn the_manifests_have_only_keys_of_the_custom_resources() {
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let known = |of: &Value, known: &[&str]| {
        let unknown: Vec<_> =
            keys(of).into_iter().filter(|key| !known.contains(&key.as_str())).collect();
        assert_eq!(unknown, Vec::<String>::new(), "{of}");
    };
    for (name, kind) in
        [("podmonitor.yaml", "PodMonitor"), ("prometheusrule.yaml", "PrometheusRule")]
    {
        let manifest = manifest(name);
        known(&manifest, &["apiVersion", "kind", "metadata", "spec"]);
        let version = json!("monitoring.coreos.com/v1");
        assert_eq!((&manifest["apiVersion"], text(&manifest, "kind")), (&version, kind));
    }
    let monitor = manifest("podmonitor.yaml");
    let spec = &monitor["spec"];
    known(spec, &["namespaceSelector", "selector", "podMetricsEndpoints"]);
    let endpoint = &spec["podMetricsEndpoints"][0];
    known(endpoint, &["port", "path", "interval", "relabelings"]);
    for step in endpoint["relabelings"].as_array().unwrap() {
        known(step, &["sourceLabels", "regex", "targetLabel"]);
    }
    let (spec, alerts) = rules();
    known(&spec, &["groups"]);
    known(&spec["groups"][0], &["name", "rules"]);
    for alert in &alerts {
        known(alert, &["alert", "expr", "for", "labels", "annotations"]);
    }
    let kustomization = manifest("kustomization.yaml");
    known(&kustomization, &["apiVersion", "kind", "resources", "configMapGenerator"]);
    let generated = &kustomization["configMapGenerator"][0]["files"];
    let (_, dashboard) = generated[0].as_str().unwrap().split_once('=').unwrap();
    let resources = kustomization["resources"].as_array().unwrap().iter();
    let files: Vec<&str> =
        resources.map(|file| file.as_str().unwrap()).chain([dashboard]).collect();
    assert_eq!(files, ["podmonitor.yaml", "prometheusrule.yaml", "dashboard.json"]);
    for file in files {
        assert!(Path::new(FOLDER).join(file).is_file(), "{file}");
    }
}

/// The port of podnudge's container in each manifest is the one that is scraped.
#[test]
fn the_manifests_of_podnudge_name_the_port_that_is_scraped() {
    let monitor = manifest("podmonitor.yaml");
    let port = text(&monitor["spec"]["podMetricsEndpoints"][0], "port").to_owned();
    let mut count = 0;
    for entry in fs::read_dir("k8s").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let manifest = fs::read_to_string(&path).unwrap();
            if !manifest.contains("containers:") {
                continue;
            }
            let wanted = format!("{{name: {port}, containerPort: 9533}}");
            assert!(manifest.contains(&wanted), "{}: {wanted}", path.display());
            count += 1;
        }
    }
    assert!(count >= 6, "only {count} manifests");
}
