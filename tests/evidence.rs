//! `in_sync` and `evidence`: podnudge claims that the application runs the content only if it has
//! evidence.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{
    Agent, Application, Behaviour, Kubelet, Scene, answering, ask, command, in_namespace, payload,
    podnudge, request, respond, server, wait_until, wait_until_commit_is_past,
};

/// `in_sync` and `evidence`.
fn knowledge(agent: &Agent) -> [String; 2] {
    let status = agent.rule();
    ["in_sync", "evidence"].map(|field| status[field].as_str().unwrap().to_owned())
}

#[test]
fn a_survived_signal_without_proof_is_delivered_and_in_sync_is_unknown() {
    in_namespace!();
    let mut scene = Scene::new();
    let _target = scene.target("app", Behaviour::Handles);
    let agent = scene.nudge(&["--process", "app", "--signal", "HUP"]);
    scene.change("2");
    agent.wait_for("delivered", 1);
    assert_eq!(knowledge(&agent), ["unknown", "read"]);
    assert_eq!((agent.count("applied"), &agent.rule()["digest_applied"]), (0, &Value::Null));
    let address = agent.last("started", "listen");
    let metrics = ask(&address, "GET", "/metrics");
    assert!(!metrics.contains("podnudge_in_sync{"), "{metrics}");
    assert!(metrics.contains("podnudge_delivered{rule=\"default\"} 1"), "{metrics}");
    let url = format!("http://{address}");
    let output = podnudge().args(["status", "--url", &url]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("unknown  read"), "{table}");
}

/// Workers may be replaced for other reasons, such as a crash or a limit on their requests.
#[test]
fn new_workers_are_evidence_only_if_they_are_the_configured_proof() {
    for (arguments, event, wanted) in [
        (&["--children-newer"][..], "applied", ["yes", "verified"]),
        (&[], "delivered", ["unknown", "read"]),
    ] {
        let mut scene = Scene::new();
        let target = scene.target("app", Behaviour::MasterReplacingWorker);
        let pidfile = scene.path("pid");
        fs::write(&pidfile, target.pid().to_string()).unwrap();
        let signal = ["--pidfile", pidfile.to_str().unwrap(), "--signal", "HUP"];
        let agent = scene.nudge(&[&signal[..], arguments].concat());
        scene.change("2");
        agent.wait_for(event, 1);
        assert_eq!(knowledge(&agent), wanted);
    }
}

#[test]
fn a_stopped_process_has_not_received_the_signal() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::Handles);
    let agent = scene.nudge(&["--process", "app", "--signal", "HUP"]);
    let pid = Pid::from_raw(target.pid());
    kill(pid, Signal::SIGSTOP).unwrap();
    let is_stopped = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        status.contains("\nState:\tT")
    };
    wait_until("all threads have stopped", || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.map(Result::unwrap).all(is_stopped)
    });
    scene.change("2");
    let why = || agent.rule()["reason"]["message"].as_str().unwrap_or_default().to_owned();
    wait_until("podnudge sees the pending signal", || why().contains("has not received SIGHUP"));
    assert!(why().ends_with("T (stopped)"), "{}", why());
    assert_eq!(knowledge(&agent), ["no", "none"]);
    kill(pid, Signal::SIGCONT).unwrap();
    agent.wait_for("delivered", 1);
    assert_eq!(target.signals(), 1);
}

#[test]
fn an_accepted_request_is_evidence() {
    let mut scene = Scene::new();
    let application = scene.application();
    let agent = scene.nudge(&["--url", &application.url()]);
    assert_eq!(knowledge(&agent), ["unknown", "none"]);
    scene.change("2");
    agent.wait_for("applied", 1);
    assert_eq!(knowledge(&agent), ["yes", "accepted"]);
    scene.kubelet.remove();
    agent.wait_for("volume-missing", 1);
    assert_eq!(knowledge(&agent)[0], "no");
}

/// It answers with success, and opens nothing.
#[test]
fn an_accepted_request_after_which_nothing_is_read_is_no_evidence() {
    let mut scene = Scene::new();
    let (url, _) = answering(&[("200 OK", "", "")]);
    let agent = scene.nudge(&["--url", &url]);
    scene.change("2");
    agent.wait_for("unread", 1);
    assert_eq!(knowledge(&agent), ["unknown", "unread"]);
    assert_eq!(agent.count("applied"), 0);
}

/// The application reads only the last of seven volumes, which has not changed.
#[test]
fn a_read_of_any_of_many_volumes_counts() {
    for reads_at_signal in [false, true] {
        let mut scene = Scene::new();
        let volumes: Vec<_> = (0..6).map(|n| scene.path(&format!("volume-{n}"))).collect();
        for volume in &volumes {
            Kubelet::new(volume).write(&payload(&[("b.conf", "1")]));
        }
        let read = volumes[5].join("b.conf");
        let text = read.to_str().unwrap().to_owned();
        let url = server(move |stream| {
            request(&stream);
            fs::read(&read).unwrap();
            respond(stream, "200 OK", "", "");
        });
        let script = "trap 'cat \"$0\"' HUP; while :; do sleep 0.02; done";
        let (pid, _) = scene.run(&["sh", "-c", script, &text]);
        let pid = pid.to_string();
        let action = if reads_at_signal {
            fs::write(scene.path("pid"), &pid).unwrap();
            ["--signal", "HUP", "--pidfile", "FOLDER/pid"].as_slice()
        } else {
            &["--url", &url]
        };
        let watches = volumes.iter().flat_map(|volume| ["--watch", volume.to_str().unwrap()]);
        let options: Vec<_> = ["--watch", "FOLDER/volume"].into_iter().chain(watches).collect();
        let agent = scene.nudge(&[action, &options].concat());
        scene.change("2");
        agent.wait_for("applied|delivered", 1);
        assert_eq!(agent.count("unread"), 0);
        let wanted = if reads_at_signal { ["unknown", "read"] } else { ["yes", "accepted"] };
        assert_eq!(knowledge(&agent), wanted);
    }
}

#[test]
fn a_restarted_target_has_read_the_content_at_its_start() {
    in_namespace!();
    let mut scene = Scene::new();
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let _application = scene.supervised(script);
    let agent = scene.nudge(&["--cmdline", "FOLDER$", "--restart"]);
    scene.change("2");
    agent.wait_for("applied", 1);
    assert_eq!(knowledge(&agent), ["yes", "read-at-start"]);
}

/// Nothing is known of a target that podnudge does not find.
#[test]
fn content_is_no_longer_in_sync_when_the_application_has_ended_for_good() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut app = scene.target("app", Behaviour::MasterReplacingWorker);
    let arguments = ["--process", "app", "--signal", "HUP", "--children-newer", "--resync", "1s"];
    let agent = scene.nudge(&arguments);
    scene.change("2");
    agent.wait_for("applied", 1);
    assert_eq!(knowledge(&agent), ["yes", "verified"]);
    app.kill();
    command("pkill").args(["-x", "app"]).status().unwrap();
    wait_until("the status shows it", || knowledge(&agent)[0] == "unknown");
    agent.wait_for("preflight", 1);
    let reason = agent.last("preflight", "reason");
    assert!(reason.ends_with("exited and has not come back"), "{reason}");
    let _app = scene.target("app", Behaviour::MasterReplacingWorker);
    wait_until("the application is back", || knowledge(&agent)[0] == "yes");
}

/// It runs on with what it has built in.
#[test]
fn content_that_the_checks_reject_at_the_start_is_not_in_sync() {
    in_namespace!();
    let mut scene = Scene::with(&[("a.json", "{")]);
    wait_until_commit_is_past(&scene.kubelet.volume);
    let app = scene.target("app", Behaviour::Handles);
    let agent = scene.rule(
        "target = { process = \"app\" }\nsignal = { name = \"HUP\" }\n\
         [[rule.check]]\nsyntax = \"json\"",
    );
    agent.wait_for("rejected", 1);
    assert_eq!(knowledge(&agent), ["no", "none"]);
    assert_eq!(app.signals(), 0);
    scene.change("{}");
    agent.wait_for("delivered", 1);
    assert_eq!(app.signals(), 1);
}

const REFUSED: (&str, &str, &str) = ("200 OK", "", r#"{"ok": false}"#);
const FIXED: (&str, &str, &str) = ("200 OK", "", r#"{"ok": true}"#);

/// The content has good syntax, and the application says that it has refused it.
#[test]
fn content_with_a_proof_that_fails_at_the_start_is_not_in_sync() {
    in_namespace!();
    let scene = Scene::new();
    wait_until_commit_is_past(&scene.kubelet.volume);
    let app = scene.target("app", Behaviour::Handles);
    let (url, _) = answering(&[REFUSED, REFUSED, REFUSED, FIXED]);
    let agent = scene.configured(&format!(
        "[agent]\nresync = \"1s\"\n[[rule]]\nwatch = \"FOLDER/volume\"\n\
         target = {{ process = \"app\" }}\nsignal = {{ name = \"HUP\" }}\n\
         [rule.verify]\nhttp = \"{url}\"\njson-equals = {{ pointer = \"/ok\", value = true }}"
    ));
    agent.wait_for("preflight", 1);
    assert!(agent.last("preflight", "reason").contains("the value at `/ok` is false, not true"));
    assert_eq!(knowledge(&agent), ["unknown", "read-at-start"]);
    wait_until("the proof holds", || knowledge(&agent)[0] == "yes");
    assert_eq!(app.signals(), 0);
}

/// As beside a native sidecar, which starts first.
#[test]
fn an_application_that_starts_after_podnudge_has_read_the_content() {
    in_namespace!();
    let scene = Scene::new();
    let _other = scene.target("other", Behaviour::Handles);
    let arguments =
        ["--on-start", "if-newer", "--process", "app", "--signal", "HUP", "--resync", "1s"];
    let agent = scene.nudge(&arguments);
    agent.wait_for("baseline", 1);
    assert_eq!(knowledge(&agent), ["unknown", "none"]);
    wait_until_commit_is_past(&scene.kubelet.volume);
    let app = scene.target("app", Behaviour::Handles);
    wait_until("podnudge knows it", || knowledge(&agent) == ["yes", "read-at-start"]);
    assert_eq!(app.signals(), 0);
}

#[test]
fn a_target_that_was_never_found_is_not_in_sync() {
    in_namespace!();
    let scene = Scene::new();
    let _target = scene.target("app", Behaviour::Handles);
    let agent = scene.nudge(&["--on-start", "if-newer", "--process", "ap", "--signal", "HUP"]);
    agent.wait_for("baseline", 1);
    assert_eq!(knowledge(&agent), ["unknown", "none"]);
}

#[test]
fn verified_content_is_still_verified_after_a_restart_of_podnudge() {
    assert_remembers(&["--children-newer"], "applied", ["yes", "verified"]);
}

#[test]
fn delivered_content_is_still_unknown_after_a_restart_of_podnudge() {
    assert_remembers(&[], "delivered", ["unknown", "read"]);
}

fn assert_remembers(proof: &[&str], event: &str, wanted: [&str; 2]) {
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::MasterReplacingWorker);
    scene.write("pid", &target.pid().to_string());
    let arguments = ["--pidfile", "FOLDER/pid", "--signal", "HUP", "--state-dir", "FOLDER/state"];
    let arguments = [&arguments[..], proof].concat();
    let agent = scene.nudge(&arguments);
    scene.change("2");
    agent.wait_for(event, 1);
    assert_eq!(knowledge(&agent), wanted);
    assert!(agent.stop().success());
    let agent = scene.nudge(&arguments);
    assert_eq!(knowledge(&agent), wanted);
}

/// The record in the publish directory keeps the evidence, too.
#[test]
fn the_evidence_of_published_content_survives_a_restart_of_podnudge() {
    let mut scene = Scene::new();
    let config = scene.path("config");
    fs::create_dir(&config).unwrap();
    let url = Application::start(&config, "a.conf").url();
    command("chmod").arg("0777").arg(&config).status().unwrap();
    let start = |scene: &Scene| {
        let mut podnudge = scene.podnudge();
        podnudge.args(["--settle", "100ms", "--url", &url, "--publish"]).arg(&config);
        podnudge.arg("--watch").arg(&scene.kubelet.volume);
        scene.start(podnudge, "applied|baseline")
    };
    let agent = start(&scene);
    agent.wait_for("applied", 1);
    scene.change("2");
    agent.wait_for("applied", 2);
    assert_eq!(knowledge(&agent), ["yes", "accepted"]);
    assert!(agent.stop().success());
    let agent = start(&scene);
    agent.wait_for("baseline", 1);
    assert_eq!(knowledge(&agent), ["yes", "accepted"]);
}
