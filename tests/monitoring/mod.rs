//! What k8s/monitoring gives to the Prometheus operator and to Grafana: what each alert and each panel shows.

mod alerts;
mod dashboard;
mod live;
mod scene;

use std::fs;

use serde_json::Value;

use crate::support::yaml::documents;

const FOLDER: &str = "k8s/monitoring";

/// The only document of this manifest.
fn manifest(name: &str) -> Value {
    let mut documents = documents(&fs::read_to_string(format!("{FOLDER}/{name}")).unwrap());
    assert_eq!(documents.len(), 1, "{name}");
    documents.remove(0)
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(format!("{FOLDER}/dashboard.json")).unwrap()).unwrap()
}

/// The alerts: their `groups` as Prometheus reads them, and each alert.
fn rules() -> (Value, Vec<Value>) {
    let spec = manifest("prometheusrule.yaml")["spec"].take();
    let groups = spec["groups"].as_array().unwrap();
    let alerts = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone());
    let alerts = alerts.collect();
    (spec, alerts)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_else(|| panic!("no `{key}` in {of}"))
}

/// A query of a panel, with the variables replaced by what selects everything.
struct Query {
    panel: String,
    reference: String,
    expression: String,
}

fn queries() -> Vec<Query> {
    let dashboard = dashboard();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = text(target, "expr")
                .replace("$__rate_interval", "1h")
                .replace("$namespace", ".*")
                .replace("$workload", ".*")
                .replace("$rule", ".*");
            assert!(!expression.contains('$'), "another variable: {expression}");
            queries.push(Query {
                panel: text(panel, "title").to_owned(),
                reference: text(target, "refId").to_owned(),
                expression,
            });
        }
    }
    queries
}
