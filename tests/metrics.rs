//! The metrics of the real binary, beside those that `admin.rs` renders from a constructed status.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use podnudge::volume::scan::read;
use podnudge_config::KeyFilter;
use podnudge_core::snapshot::{Snapshot, digest};

use crate::support::{
    Agent, Behaviour, Scene, Target, ask, in_namespace, mount, payload, tmpfs, unmount, wait_until,
};

fn metrics(agent: &Agent) -> String {
    agent.get("/metrics")
}

/// The value of a series in the text format.
fn value(metrics: &str, series: &str) -> Option<f64> {
    let rest = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    rest.map(|value| value.parse().unwrap())
}

fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()
}

#[test]
fn the_last_success_is_absent_until_content_was_applied_and_not_moved_by_a_failure() {
    let mut scene = Scene::new();
    let application = scene.application();
    let agent = scene.nudge(&["--url", &application.url()]);
    let series = "podnudge_last_success_timestamp_seconds{rule=\"default\"}";
    assert_eq!(value(&metrics(&agent), series), None);
    let before = now();
    scene.change("2");
    agent.wait_for("applied", 1);
    let success = value(&metrics(&agent), series).unwrap();
    assert!(success > before && success < now(), "{before} {success}");
    scene.change("broken");
    agent.wait_for("retrying|gave-up", 1);
    assert_eq!(value(&metrics(&agent), series), Some(success));
}

/// The preset's name is in the status, for people; a label that changed with it would end the series.
#[test]
fn the_label_of_the_action_is_its_kind() {
    let scene = Scene::new();
    let agent = scene.nudge(&["--preset", "nginx"]);
    let metrics = metrics(&agent);
    let series = "podnudge_actions_total{rule=\"default\",action=\"signal\",outcome=\"applied\"}";
    assert_eq!(value(&metrics, series), Some(0.0), "{metrics}");
    let status = ask(&agent.last("started", "listen"), "GET", "/status");
    assert!(status.contains("\"action\": \"signal (preset nginx)\""), "{status}");
}

#[test]
fn each_watched_path_has_its_commit_time() {
    let scene = Scene::new();
    let plain = scene.path("plain");
    scene.write("plain/b.conf", "1");
    let paths = [&scene.kubelet.volume, &plain].map(|path| path.to_str().unwrap());
    let options = ["--watch", paths[0], "--watch", paths[1], "--url", "http://127.0.0.1:9/"];
    let agent = scene.nudge(&options);
    let metrics = metrics(&agent);
    for path in paths {
        let series =
            format!("podnudge_committed_timestamp_seconds{{rule=\"default\",volume=\"{path}\"}}");
        let committed = value(&metrics, &series).unwrap();
        assert!(committed > now() - 3600.0 && committed <= now(), "{path}: {committed}");
    }
}

#[test]
fn the_standard_metrics_are_about_the_process_of_podnudge() {
    let scene = Scene::new();
    let agent = scene.nudge(&["--url", "http://127.0.0.1:9/"]);
    let page = metrics(&agent);
    let of = |name: &str| value(&page, name).unwrap();
    // The clock of process start times counts in hundredths of a second, and that of the boot in seconds.
    assert!((now() - of("process_start_time_seconds")).abs() < 300.0);
    let again = value(&metrics(&agent), "process_start_time_seconds");
    assert_eq!(again, Some(of("process_start_time_seconds")));
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let kib = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.split_ascii_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    // A thread may have ended in between.
    for (metric, field) in
        [("process_virtual_memory_bytes", "VmSize:"), ("process_resident_memory_bytes", "VmRSS:")]
    {
        let ratio = of(metric) / (kib(field) * 1024.0);
        assert!((0.25..4.0).contains(&ratio), "{metric}: {ratio}");
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", agent.pid())).unwrap();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let soft: f64 = limit.split_ascii_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(value(&page, "process_max_fds"), Some(soft));
    let fds = fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap().count();
    // The connection of this request may be open or closed.
    assert!((of("process_open_fds") - f64::from(u32::try_from(fds).unwrap())).abs() <= 2.0);
    assert!((0.0..60.0).contains(&of("process_cpu_seconds_total")));
}

#[test]
fn the_name_of_the_target_is_a_label_and_its_pid_is_not() {
    in_namespace!();
    let scene = Scene::new();
    let mut targets = ["app", "app"].map(|name| scene.target(name, Behaviour::Handles));
    let agent = scene.rule(
        "on-start = \"never\"\nsignal.name = \"HUP\"\ntarget = { process = \"app\", all = true }",
    );
    let series = "podnudge_target_info{rule=\"default\",target=\"app\"}";
    wait_until("the target is found", || value(&metrics(&agent), series) == Some(1.0));
    assert_eq!(metrics(&agent).matches("podnudge_target_info{").count(), 1);
    targets.iter_mut().for_each(Target::kill);
    assert_eq!(value(&metrics(&agent), series), None);
}

/// A volume in a mount as the kubelet makes it for this plugin.
fn mounted(plugin: &str) -> Scene {
    let mut scene = Scene::new();
    let source = scene.path(plugin).join("config");
    fs::create_dir_all(&source).unwrap();
    mount(&["--bind", source.to_str().unwrap()], &scene.kubelet.volume);
    scene.change("1");
    scene
}

#[test]
fn digests_are_labels_only_of_config_maps_or_if_asked_for() {
    in_namespace!();
    let (scene, other) = (mounted("kubernetes.io~configmap"), mounted("kubernetes.io~secret"));
    let [configmap, secret] =
        [&scene, &other].map(|scene| scene.kubelet.volume.display().to_string());
    let nested = format!("{configmap}/nested");
    for (watch, setting, wanted) in [
        (format!("\"{configmap}\""), "", true),
        (format!("\"{configmap}/a.conf\""), "", true),
        (format!("\"{configmap}\""), "digests-in-metrics = \"none\"", false),
        (format!("\"{secret}\""), "", false),
        (format!("[\"{configmap}\", \"{secret}\"]"), "", false),
        (format!("\"{secret}\""), "digests-in-metrics = \"all\"", true),
    ] {
        let agent = scene.configured(&format!(
            "[agent]\n{setting}\n[[rule]]\nwatch = {watch}\non-start = \"never\"\nhttp.url = \"http://127.0.0.1:9/\"\n"
        ));
        let digest = agent.last("baseline", "digest");
        let series = format!(
            "podnudge_config_info{{rule=\"default\",content=\"on-disk\",digest=\"{digest}\"}}"
        );
        let page = metrics(&agent);
        assert_eq!(value(&page, &series).is_some(), wanted, "{watch} {setting}");
        assert_eq!(page.contains(&digest), wanted, "{watch} {setting}");
    }
    // A Secret may be mounted inside.
    tmpfs(&nested);
    let agent = scene.nudge(&["--url", "http://127.0.0.1:9/"]);
    assert!(!metrics(&agent).contains("podnudge_config_info{"));
    drop(agent);
    for path in [&nested, &configmap, &secret] {
        unmount(Path::new(path));
    }
}

/// A PIN has 10,000 digests. In the log, the status and the history, a Secret's content has a name that only this
/// podnudge can compute, and with a state directory the same name after a restart.
#[test]
fn nobody_can_guess_a_secret_from_the_log_or_the_status() {
    in_namespace!();
    let mut scene = mounted("kubernetes.io~secret");
    let volume = scene.kubelet.volume.clone();
    fs::create_dir(scene.path("state")).unwrap();
    let start = |scene: &Scene, agent: &str| {
        let rule = "http.url = \"http://127.0.0.1:9/\"\non-start = \"never\"";
        scene.rule(&format!("{rule}\n[agent]\n{agent}"))
    };
    let digest = |volume: &Path| {
        let reading = read(volume, &KeyFilter::default()).unwrap();
        format!("{:.12}", digest(reading.snapshot.iter().map(Snapshot::digest)))
    };
    scene.kubelet.write(&payload(&[("pin", "0815")]));
    let next = digest(&volume);
    scene.kubelet.write(&payload(&[("pin", "4711")]));
    let plain = digest(&volume);
    let open = start(&scene, "digests-in-metrics = \"all\"");
    assert_eq!(open.last("baseline", "digest"), plain);
    drop(open);
    let mut names = Vec::new();
    let with_state = "state-dir = \"FOLDER/state\"";
    for agent in ["", with_state].repeat(2) {
        let agent = start(&scene, agent);
        let status = agent.status().to_string();
        let (name, shown) = (agent.last("baseline", "digest"), status + &agent.log());
        assert!(shown.contains(&name) && !shown.contains(&plain), "{shown}");
        assert_eq!(name.len(), plain.len());
        names.push(name);
    }
    let agent = start(&scene, "");
    scene.kubelet.write(&payload(&[("pin", "0815")]));
    agent.wait_for("waiting-for-target", 1);
    let name = agent.last("scheduled", "digest");
    let shown = agent.status().to_string() + &agent.log();
    assert!(shown.contains(&name), "{shown}");
    for digest in [&plain, &next] {
        assert!(!shown.contains(digest), "{shown}");
    }
    drop(agent);
    assert_eq!(names[1], names[3], "the key is in the state directory");
    let distinct: std::collections::BTreeSet<_> = names.iter().chain([&plain]).collect();
    assert_eq!(distinct.len(), 4, "{names:?}");
    unmount(&volume);
}

#[test]
fn the_digest_that_runs_differs_from_the_one_on_disk_until_the_content_is_applied() {
    let mut scene = Scene::new();
    let application = scene.application();
    let agent = scene.rule(&format!(
        "on-start = \"never\"\nhttp.url = \"{}\"\n[agent]\ndigests-in-metrics = \"all\"",
        application.url()
    ));
    let series = |content: &str, digest: &str| {
        let labels = format!("rule=\"default\",content=\"{content}\",digest=\"{digest}\"");
        value(&metrics(&agent), &format!("podnudge_config_info{{{labels}}}"))
    };
    assert!(!metrics(&agent).contains("content=\"running\""), "nothing is known yet");
    scene.change("2");
    agent.wait_for("applied", 1);
    let good = agent.last("applied", "digest");
    assert_eq!((series("on-disk", &good), series("running", &good)), (Some(1.0), Some(1.0)));
    scene.change("broken");
    agent.wait_for("retrying|gave-up", 1);
    assert_eq!((series("on-disk", &good), series("running", &good)), (None, None));
}
