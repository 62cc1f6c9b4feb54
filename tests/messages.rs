//! What podnudge says about mistakes and failures that are common: each message names the cause and the
//! remedy, and the rule is never reported in sync. Mistakes in the configuration are in `config.rs`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{
    Agent, Application, Behaviour, Kubelet, Scene, Target, answering, in_namespace, mount, payload,
    podnudge, tmpfs, unmount, wait_until,
};

/// Starts podnudge for the volume of the scene.
fn nudge(scene: &Scene, arguments: &[&str]) -> Agent {
    scene.nudge(&[&["--resync", "1s"], arguments].concat())
}

fn assert_not_in_sync(agent: &Agent) {
    let status = agent.rule();
    assert_ne!(status["in_sync"], "yes", "{status}");
}

#[test]
fn a_target_that_has_exited_is_named() {
    in_namespace!();
    for arguments in [&["--process", "nginx", "--signal", "HUP"][..], &["--signal", "HUP"]] {
        let mut scene = Scene::on_tmpfs("volume", &payload(&[("a.conf", "1")]));
        let mut target = scene.target("nginx", Behaviour::Handles);
        let agent = nudge(&scene, arguments);
        let found = serde_json::json!([{"pid": target.pid(), "name": "nginx"}]);
        wait_until("the target is found", || agent.rule()["targets"] == found);
        target.kill();
        scene.change("2");
        agent.wait_for("waiting-for-target", 1);
        let pid = target.pid();
        let reason = format!("target nginx (pid {pid}) exited and has not come back");
        assert_eq!(agent.last("waiting-for-target", "reason"), reason);
        assert_eq!(agent.last("waiting-for-target", "hint"), "see its container's log");
        let status = agent.rule();
        assert_eq!(
            (&status["state"], &status["in_sync"]),
            (&"waiting-for-target".into(), &"no".into())
        );
        assert_eq!(
            (&status["reason"]["message"], &status["targets"]),
            (&reason.into(), &Value::Array(Vec::new()))
        );
        // The message is about the process, not about its name.
        let _again = scene.target("nginx", Behaviour::Handles);
        agent.wait_for("fresh|delivered", 1);
        drop(agent);
        unmount(&scene.kubelet.volume);
    }
}

#[test]
fn a_target_that_was_never_there_is_not_found() {
    in_namespace!();
    let mut scene = Scene::new();
    let _target = scene.target("nginx", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "ngnix", "--signal", "HUP"]);
    scene.change("2");
    agent.wait_for("waiting-for-target", 1);
    let reason = agent.last("waiting-for-target", "reason");
    assert_eq!(reason, "target not found: no process named `ngnix`");
    let hint = agent.last("waiting-for-target", "hint");
    assert!(hint.starts_with("did you mean `nginx`? processes found: "), "{hint}");
    assert_not_in_sync(&agent);
}

/// Starts podnudge with a proof by this page, and changes the content.
fn prove(page: &'static str, proof: &str) -> (Scene, Agent) {
    let mut scene = Scene::new();
    let application = scene.application();
    let (url, _) = answering(vec![("200 OK", "", page)].leak());
    let agent = scene.rule(&format!(
        "on-start = \"never\"\nretry.first = \"1m\"\nhttp.url = \"{}\"\n\
         [rule.verify]\ntimeout = \"1s\"\nhttp = \"{url}\"\n{proof}",
        application.url(),
    ));
    scene.change("2");
    (scene, agent)
}

#[test]
fn a_metric_that_is_missing_in_the_page_is_reported_with_similar_ones() {
    let page = "app_reload_success 1\napp_reloads_total{kind=\"a\"} 3\nup 1\n";
    for (proof, event, wanted) in [
        (
            "metric-equals = { name = \"app_reload_successful\", value = 1 }",
            "retrying",
            "the page has `app_reload_success`",
        ),
        // Its value before the action is unknown, so nothing is sent.
        (
            "metric-grew = \"app_reloads_total\"",
            "waiting-for-target",
            "the page has `app_reloads_total{kind=\"a\"}`",
        ),
    ] {
        let (_scene, agent) = prove(page, proof);
        agent.wait_for(event, 1);
        let reason = agent.last(event, "reason");
        assert!(reason.contains("there is no sample `app_reload"), "{reason}");
        assert_eq!(agent.last(event, "hint"), wanted);
        assert_not_in_sync(&agent);
    }
}

/// The kubelet mounts a file at `/etc/hosts` in each container of a pod.
#[test]
fn a_publish_directory_that_only_podnudge_sees_is_reported_in_a_pod() {
    in_namespace!();
    // On the root file system, which is that of podnudge's container.
    let folder = tempfile::tempdir_in("/").unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    kubelet.write(&payload(&[("a.conf", "1")]));
    let application = Application::start(&kubelet.volume, "a.conf");
    let url = application.url();
    let nudge = |dir: &str, more: &[&str]| {
        let dir = folder.path().join(dir).display().to_string();
        let mut command = podnudge();
        command.args(["--log", "json", "--listen", "127.0.0.1:0", "--settle", "0s", "--watch"]);
        command.arg(&kubelet.volume).args(["--publish", &dir]).args(more);
        Agent::spawn_until("published", folder.path(), command)
    };
    let by_url = ["--url", url.as_str()];
    assert_eq!(nudge("one", &by_url).count("preflight"), 0, "not in a pod");

    let hosts = folder.path().join("etc-hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    mount(&["--bind", hosts.to_str().unwrap()], Path::new("/etc/hosts"));
    let agent = nudge("two", &by_url);
    agent.wait_for("preflight", 1);
    assert_eq!(agent.last("preflight", "problem"), "publish-not-a-mount");
    let reason = agent.last("preflight", "reason");
    assert!(reason.ends_with("/two` is not a mount: the application cannot see it"));
    assert!(agent.last("preflight", "hint").contains("mount one emptyDir there"));
    let metrics = agent.get("/metrics");
    let metric = "podnudge_preflight_problem{rule=\"default\",problem=\"publish-not-a-mount\"} 1";
    assert!(metrics.contains(metric), "{metrics}");

    let _target = Target::start(folder.path(), "app", Behaviour::Handles);
    let agent = nudge("three", &["--process", "app", "--signal", "HUP"]);
    assert_eq!(agent.count("preflight"), 0, "the application is in the same container");
    let mounted = tmpfs(folder.path().join("mounted")).volume;
    for dir in ["mounted", "mounted/below"] {
        assert_eq!(nudge(dir, &by_url).count("preflight"), 0, "{dir} is in a mount");
    }
    unmount(&mounted);
}

#[test]
fn a_refused_trigger_names_the_key_the_option_and_the_variable() {
    let scene = Scene::new();
    let application = scene.application();
    let agent = nudge(&scene, &["--url", &application.url()]);
    let url = format!("http://{}", agent.address());
    let output = podnudge().args(["trigger", "--url", &url]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    for part in ["podnudge's own container", "--reload=loopback", "PODNUDGE_RELOAD=loopback"] {
        assert!(stderr.contains(part), "`{part}` is not in: {stderr}");
    }
    assert_eq!(application.reloads(), Vec::<String>::new());
    assert_not_in_sync(&agent);
}

#[test]
fn a_trigger_for_an_unknown_rule_lists_the_rules() {
    let scene = Scene::new();
    let application = scene.application();
    let agent = nudge(&scene, &["--url", &application.url(), "--reload", "loopback"]);
    let url = format!("http://{}", agent.address());
    let output = podnudge().args(["trigger", "nosuch", "--url", &url]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "podnudge: podnudge refused the request with 404 Not Found: there is no rule `nosuch`\n  \
                    hint: the rules are `default`\n";
    assert_eq!((output.status.code(), stderr.as_str()), (Some(69), expected));
    assert_eq!(application.reloads(), Vec::<String>::new());
}

#[test]
fn the_hint_about_the_state_directory_is_given_only_without_one() {
    let scene = Scene::new();
    for (more, wanted) in [(&[][..], true), (&["--state-dir", "FOLDER/state"], false)] {
        let options = [&["--on-start", "if-newer", "--url", "http://127.0.0.1:9/"], more];
        let agent = scene.nudge(&options.concat());
        let message = agent.last("baseline", "message");
        assert!(message.starts_with("no start time of a target is known"), "{message}");
        assert_eq!(agent.last("baseline", "hint").contains("state-dir"), wanted, "{more:?}");
        assert_not_in_sync(&agent);
    }
}

#[test]
fn a_signal_without_a_proof_is_reported_as_not_verified() {
    in_namespace!();
    let mut scene = Scene::new();
    let _target = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app", "--signal", "HUP"]);
    scene.change("2");
    agent.wait_for("delivered", 1);
    let message = agent.last("delivered", "message");
    assert_eq!(message, "delivered and read; not verified: no proof is configured");
    assert_not_in_sync(&agent);
}
