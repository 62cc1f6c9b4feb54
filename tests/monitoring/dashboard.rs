//! The dashboard by itself. `.ci/run` compares it with the types of Grafana, and `live.rs` evaluates its queries.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{dashboard, text};

/// Panels of current versions of Grafana; `graph`, `singlestat`, `table-old` and others are deprecated.
const PANELS: [&str; 6] = ["bargauge", "heatmap", "stat", "state-timeline", "table", "timeseries"];

fn panels() -> Vec<Value> {
    dashboard()["panels"].as_array().unwrap().clone()
}

#[test]
fn no_panel_has_a_deprecated_type_and_each_says_what_it_shows() {
    let mut ids = BTreeSet::new();
    for panel in panels() {
        assert!(PANELS.contains(&text(&panel, "type")), "{}", panel["type"]);
        assert!(text(&panel, "description").ends_with('.'), "{panel}");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{} has an id twice", panel["title"]);
        assert_eq!(text(&panel["datasource"], "uid"), "${datasource}");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"], panel["datasource"], "{target}");
        }
    }
}

#[test]
fn the_panels_do_not_overlap() {
    let mut taken = BTreeSet::new();
    for panel in panels() {
        let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{}", panel["title"]);
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(taken.insert((x, y)), "{} overlaps at {x} {y}", panel["title"]);
            }
        }
    }
}

/// Each variable narrows each query whose metrics have the label.
#[test]
fn the_variables_select_namespaces_workloads_and_rules() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables.iter().map(|variable| text(variable, "name")).collect();
    assert_eq!(names, ["datasource", "namespace", "workload", "rule"]);
    for panel in panels() {
        for target in panel["targets"].as_array().unwrap() {
            let query = text(target, "expr");
            for variable in &names[1..] {
                // The time from an edit to the commit is that of podnudge, not of a rule.
                let is_of_podnudge = query.contains("edit_to_commit") && *variable == "rule";
                let selects = query.contains(&format!("{variable}=~\"${variable}"));
                assert_eq!(selects, !is_of_podnudge, "{}: {variable}: {query}", panel["title"]);
            }
        }
    }
}

/// The number that stands for a state is shown as the name of that state.
#[test]
fn the_timeline_of_states_has_all_states() {
    let metrics = include_str!("../snapshots/all__admin__metrics_are_openmetrics_text.snap");
    let states: BTreeSet<&str> =
        metrics.split("state=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
    assert!(states.len() >= 20);
    let panel = panels().into_iter().find(|panel| panel["title"] == "States").unwrap();
    let query = text(&panel["targets"][0], "expr");
    let names = panel["fieldConfig"]["defaults"]["mappings"][0]["options"].as_object().unwrap();
    assert_eq!(names.len(), states.len());
    for (number, shown) in names {
        let state = text(shown, "text");
        assert!(states.contains(state), "{state}");
        let term = format!(" {number} * podnudge_rule_state{{state=\"{state}\", ");
        assert!(query.contains(&term), "{term}: {query}");
    }
}

/// Grafana would take rows whose names all begin with a digit, as digests may, for the bounds of buckets.
#[test]
fn the_rows_of_the_heatmap_have_names_that_are_no_numbers() {
    let panel = panels().into_iter().find(|panel| panel["type"] == "heatmap").unwrap();
    assert_eq!(panel["options"]["calculate"], false);
    for target in panel["targets"].as_array().unwrap() {
        assert_eq!(text(target, "format"), "time_series");
        let name = text(target, "legendFormat");
        assert!(name.starts_with(|first: char| first.is_ascii_alphabetic()), "{name}");
    }
}
