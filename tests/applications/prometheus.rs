//! Prometheus.

use super::load::{get, under_load};
use super::plain::{CHANGES, by_example};
use super::plays;
use super::pod::Subject;
use crate::support::{Payload, Scene, in_namespace, in_network, payload, wait_until};

const PROMETHEUS: Subject = Subject {
    example: "prometheus-published.toml",
    command: &[
        "prometheus",
        "--config.file={dir}/prometheus.yml",
        "--storage.tsdb.path={run}/data",
        "--web.listen-address=127.0.0.1:9090",
        "--web.enable-lifecycle",
    ],
    content,
    checker: "promtool check",
    faults: &[
        "global: [",
        "globe: {}",
        "scrape_configs: [{job_name: twice}, {job_name: twice}]",
        "rule_files: [broken.yml]",
    ],
    address: "127.0.0.1:9090",
    path: "/api/v1/status/config",
    answer: |version| format!("version: v{version}x"),
    complaint: "err=",
};

fn content(version: usize, fault: &str) -> Payload {
    let labels = format!("{{external_labels: {{version: v{version}x}}}}");
    let config = format!("global: {labels}\n{fault}\n");
    let broken = "groups: [{name: a, rules: [{record: a, expr: \"up ==\"}]}]\n";
    payload(&[("prometheus.yml", &config), ("broken.yml", broken)])
}

#[test]
fn prometheus_never_loads_a_broken_configuration() {
    in_network!(plays::never_loads_a_broken_configuration(&PROMETHEUS));
}

/// Prometheus answers 500 to a failed reload, and continues with the old configuration.
#[test]
fn prometheus_without_checks_rejects_a_broken_configuration_and_is_rolled_back() {
    in_network!();
    let played = plays::is_rolled_back_without_checks(&PROMETHEUS, |example| example, false);
    assert_eq!((played.application.ends(), played.excused), (0, 0));
    for event in played.agent.events("rolling-back") {
        assert!(event["reason"].as_str().unwrap().contains("answered 500"), "{event}");
    }
    println!("such as: {}", played.agent.last("rolling-back", "reason"));
    let metrics = get(PROMETHEUS.address, "/metrics").unwrap();
    assert!(metrics.contains("\nprometheus_config_last_reload_successful 1\n"));
}

#[test]
fn prometheus_loads_every_change_and_confirms_it() {
    in_namespace!();
    let address = "127.0.0.1:9090"; // of the example file
    let config = |version: usize| {
        let text = format!("global:\n  external_labels:\n    version: v{version}x\n");
        payload(&[("prometheus.yml", &text)])
    };
    let mut scene = Scene::on_tmpfs("/etc/prometheus", &config(0));
    scene.run(&[
        "prometheus",
        "--config.file=/etc/prometheus/prometheus.yml",
        "--web.enable-lifecycle",
        "--web.listen-address=127.0.0.1:9090",
        &scene.filled("--storage.tsdb.path=FOLDER/data"),
    ]);
    wait_until("Prometheus is ready", || get(address, "/-/ready").is_ok());
    let agent = by_example(&scene, "prometheus.toml", &["--on-start", "never"]);
    under_load(address, "/api/v1/query?query=vector(1)", || {
        for version in 1..=CHANGES {
            scene.kubelet.write(&config(version));
            agent.wait_for("applied", version);
            let loaded = get(address, "/api/v1/status/config").unwrap();
            assert!(loaded.contains(&format!("version: v{version}x")), "{loaded}");
        }
    });
    let metrics = get(address, "/metrics").unwrap();
    assert!(metrics.contains("\nprometheus_config_last_reload_successful 1\n"));
    assert_eq!(agent.count("accepted"), CHANGES);
}
