//! A drain with the real podnudge: `/serving`, the readiness probe, while an application is restarted.

use std::fs;

use crate::support::{Agent, OTHER_USER, ROLLED_OUT, Scene, ask, in_namespace, wait_until};

const RUNS: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

/// Starts podnudge for the application of the scene.
fn start(scene: &Scene, by: &[&str], settings: &str) -> Agent {
    let settings = format!(
        "on-start = \"never\"\nretry = {{ first = \"50ms\", max = \"100ms\" }}\n\
         target = {{ cmdline = \"^(ba)?sh -c .* FOLDER$\" }}\nverify = {{ alive-for = \"200ms\" }}\n\
         {settings}\n[agent]\nwork-dir = \"FOLDER\""
    );
    scene.rule_by(scene.podnudge_by(by), &settings)
}

fn is_serving(agent: &Agent) -> bool {
    let answer = ask(&agent.address(), "GET", "/serving");
    let is_ok = answer.starts_with("HTTP/1.1 200");
    assert!(is_ok || answer.starts_with("HTTP/1.1 503"), "{answer}");
    is_ok
}

#[test]
fn a_restart_follows_a_drain_and_the_pod_serves_again_after_it() {
    in_namespace!();
    let mut scene = Scene::with(&[("app.conf", "1")]);
    let application = scene.supervised(RUNS);
    let settings = "restart = { grace = \"10s\" }\ndrain = { wait = \"1s\" }";
    let agent = start(&scene, &[], settings);
    assert!(is_serving(&agent));
    for n in 1..=2 {
        scene.change(&format!("{n} and more"));
        agent.wait_for("draining", n);
        assert!(!is_serving(&agent) || agent.count("restarted") == n);
        assert!(agent.count("restarted") == n || application.starts() == n);
        agent.wait_for(ROLLED_OUT, n);
        assert_eq!((agent.count("restarted"), application.starts()), (n, n + 1));
        assert!(is_serving(&agent));
    }
}

/// The first application answers with its status at its end, so the order is certain.
#[test]
fn the_application_ends_while_the_pod_is_out_of_its_services() {
    in_namespace!();
    let mut scene = Scene::with(&[("app.conf", "1")]);
    let seen = scene.path("seen");
    // The port is known only later.
    let script = format!(
        "trap 'exec 3<>/dev/tcp/127.0.0.1/$(cat {0}.port); echo GET /serving HTTP/1.0 >&3; echo >&3; head -n 1 <&3 >> {0}; exit 0' TERM; while :; do sleep 0.05; done",
        seen.display()
    );
    let script = format!(
        "exec bash -c '{}' {}",
        script.replace('\'', "'\\''"),
        scene.folder.path().display()
    );
    let application = scene.supervised(&script);
    let settings = "restart = { grace = \"10s\" }\ndrain = { wait = \"300ms\" }";
    let agent = start(&scene, &[], settings);
    let port = agent.last("started", "listen");
    fs::write(seen.with_extension("port"), port.rsplit(':').next().unwrap()).unwrap();
    scene.roll_out(&agent, "2");
    assert_eq!(application.starts(), 2);
    let seen = fs::read_to_string(&seen).unwrap();
    assert!(seen.starts_with("HTTP/1.0 503") || seen.starts_with("HTTP/1.1 503"), "{seen}");
}

/// Otherwise a wrong uid would take the pod out of its Services again and again.
#[test]
fn a_restart_that_is_not_permitted_causes_no_drain() {
    in_namespace!();
    let mut scene = Scene::with(&[("app.conf", "1")]);
    let application = scene.supervised(RUNS);
    let settings = "restart = {}\ndrain = { wait = \"1s\" }";
    let agent = start(&scene, &OTHER_USER, settings);
    scene.change("2");
    agent.wait_for("refused", 1);
    // Some more attempts, at most 100 ms apart.
    let status = || agent.get("/status");
    wait_until("it has tried again", || status().contains("\"state\": \"refused\""));
    assert!(is_serving(&agent));
    assert_eq!((agent.count("draining"), application.starts()), (0, 1));
}
