//! The binary from end to end: real volumes, real processes, its log and its exit code.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use podnudge::volume::scan::read;
use podnudge_config::KeyFilter;
use podnudge_core::snapshot::{Snapshot, digest};

use crate::support::kubelet::LinkOrder;
use crate::support::{
    Agent, Application, Behaviour, Kubelet, Payload, ROLLED_OUT, Scene, ask, command, in_namespace,
    in_network, payload, podnudge, wait_until,
};

/// Starts podnudge for this volume and application, without delays.
fn nudge(folder: &Path, volume: &Path, application: &Application, more: &[&str]) -> Agent {
    let (watch, url) = (volume.to_str().unwrap(), application.url());
    let mut arguments = vec!["--watch", watch, "--url", &url, "--on-start", "never"];
    if !more.contains(&"--settle") {
        arguments.extend(["--settle", "0s"]);
    }
    arguments.extend(more);
    Agent::start(folder, &arguments)
}

/// The short digest of the content on disk, as in the log.
fn on_disk(volume: &Path) -> String {
    let reading = read(volume, &KeyFilter::default()).unwrap();
    format!("{:.12}", digest(reading.snapshot.iter().map(Snapshot::digest)))
}

#[test]
fn swaps_in_both_link_orders_reload_once_each() {
    for order in [LinkOrder::AfterCommit, LinkOrder::BeforeCommit] {
        let folder = tempfile::tempdir().unwrap();
        let mut kubelet = Kubelet::with_order(folder.path().join("volume"), order);
        kubelet.write(&payload(&[("a.conf", "1"), ("deep/b.conf", "1")]));
        let application = Application::start(&kubelet.volume, "a.conf");
        let agent = nudge(folder.path(), &kubelet.volume, &application, &[]);
        let steps = [
            payload(&[("a.conf", "2"), ("deep/b.conf", "1")]),
            payload(&[("a.conf", "2"), ("deep/b.conf", "2")]),
            payload(&[("a.conf", "2"), ("deep/b.conf", "2"), ("c.conf", "new")]),
            payload(&[("a.conf", "3"), ("c.conf", "new")]),
        ];
        for (n, step) in steps.iter().enumerate() {
            kubelet.write(step);
            agent.wait_for(ROLLED_OUT, n + 1);
            assert_eq!(agent.last(ROLLED_OUT, "digest"), on_disk(&kubelet.volume), "{order:?}");
        }
        assert_eq!(application.reloads(), ["2", "2", "2", "3"], "{order:?}");
        assert_eq!(agent.last("changed", "removed"), "deep/b.conf");
        assert_eq!(agent.count("missed-by-watch"), 0);
    }
}

#[test]
fn writes_without_a_content_change_cause_no_reload() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    let same = payload(&[("a.conf", "1")]);
    kubelet.write(&same);
    let application = Application::start(&kubelet.volume, "a.conf");
    let agent = nudge(folder.path(), &kubelet.volume, &application, &["--log-level", "debug"]);
    for n in 1..4 {
        kubelet.write_anyway(&same);
        agent.wait_for("unchanged", n);
    }
    kubelet.chmod_storm();
    kubelet.leave_stale_data_tmp(&same);
    fs::remove_file(kubelet.volume.join("..data_tmp")).unwrap();
    assert_eq!(application.reloads(), Vec::<String>::new());
    kubelet.write(&payload(&[("a.conf", "2")]));
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(application.reloads(), ["2"]);
}

#[test]
fn content_older_than_the_application_is_applied_after_a_symlink_switch() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (release, content) in [("old", "1"), ("new", "2")] {
        fs::create_dir(at(release)).unwrap();
        fs::write(at(release).join("a.conf"), content).unwrap();
    }
    std::os::unix::fs::symlink("new", at("current")).unwrap();
    // The application starts after both releases were written.
    let application = Application::start(&at("current"), "a.conf");
    let agent = nudge(folder.path(), &at("current"), &application, &[]);
    let switch_to = |release: &str| {
        std::os::unix::fs::symlink(release, at("tmp")).unwrap();
        fs::rename(at("tmp"), at("current")).unwrap();
    };
    switch_to("old");
    agent.wait_for(ROLLED_OUT, 1);
    switch_to("new");
    agent.wait_for(ROLLED_OUT, 2);
    assert_eq!(application.reloads(), ["1", "2"]);
    assert_eq!((agent.count("fresh"), agent.count("missed-by-watch")), (0, 0));
}

#[test]
fn an_optional_volume_is_applied_when_it_is_filled_and_when_it_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    kubelet.write_anyway(&Payload::new());
    let application = Application::start(&kubelet.volume, "a.conf");
    // The link of a new key is made after the commit, and the application reads through that link.
    let quiet = ["--settle", "200ms"];
    let agent = nudge(folder.path(), &kubelet.volume, &application, &quiet);
    kubelet.write(&payload(&[("a.conf", "here")]));
    agent.wait_for(ROLLED_OUT, 1);
    kubelet.write(&Payload::new());
    agent.wait_for(ROLLED_OUT, 2);
    assert_eq!(application.reloads(), ["here", ""]);
}

#[test]
fn a_volume_that_is_deleted_and_recreated_is_watched_again() {
    let mut scene = Scene::new();
    let application = scene.application();
    let agent =
        nudge(scene.folder.path(), &scene.kubelet.volume, &application, &["--settle", "200ms"]);
    for n in 1..4 {
        scene.kubelet.remove();
        agent.wait_for("volume-missing", n);
        scene.kubelet = Kubelet::new(&scene.kubelet.volume);
        scene.roll_out(&agent, &format!("life {n}"));
    }
    assert_eq!(application.reloads(), ["life 1", "life 2", "life 3"]);
    assert_eq!(agent.count("missed-by-watch"), 0);
}

#[test]
fn a_missing_path_is_waited_for_at_any_depth() {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("not/there/yet");
    let application = Application::start(&volume, "a.conf");
    let agent = nudge(folder.path(), &volume, &application, &[]);
    assert_eq!(agent.count("volume-missing"), 1);
    fs::create_dir(folder.path().join("not")).unwrap();
    fs::create_dir(folder.path().join("not/there")).unwrap();
    let mut kubelet = Kubelet::new(&volume);
    kubelet.write(&payload(&[("a.conf", "1")]));
    agent.wait_for("volume-back", 1);
    // The first scan may see any of these steps; only the final content matters.
    kubelet.write(&payload(&[("a.conf", "2")]));
    wait_until("the last content is read", || {
        application.reloads().last().is_some_and(|last| last == "2")
    });
}

#[test]
fn plain_directories_and_single_files_are_watched_too() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::create_dir_all(plain.join("nested")).unwrap();
    fs::write(plain.join("nested/a.conf"), "1").unwrap();
    let application = Application::start(&plain, "nested/a.conf");
    let agent = nudge(folder.path(), &plain, &application, &[]);
    fs::write(plain.join("nested/a.conf"), "2").unwrap();
    agent.wait_for(ROLLED_OUT, 1);
    fs::create_dir(plain.join("new")).unwrap();
    fs::write(plain.join("new/b.conf"), "1").unwrap();
    wait_until("the new folder is applied", || agent.last(ROLLED_OUT, "digest") == on_disk(&plain));
    drop(agent);

    let single = folder.path().join("single.conf");
    fs::write(&single, "1").unwrap();
    let application = Application::start(folder.path(), "single.conf");
    let agent = nudge(folder.path(), &single, &application, &[]);
    // Replaces the file several times by renaming a new one over it, as editors do.
    for n in 2..5 {
        let new = folder.path().join("single.conf.new");
        fs::write(&new, n.to_string()).unwrap();
        fs::rename(&new, &single).unwrap();
        wait_until("the content is applied", || {
            agent.last(ROLLED_OUT, "digest") == on_disk(&single)
        });
    }
    assert_eq!(application.reloads().last().map(String::as_str), Some("4"));
}

#[test]
fn a_burst_of_twenty_swaps_causes_at_most_five_reloads() {
    let mut scene = Scene::with(&[("a.conf", "0")]);
    let application = scene.application();
    let volume = scene.kubelet.volume.to_str().unwrap().to_owned();
    let url = application.url();
    let arguments = ["--watch", &volume, "--url", &url, "--on-start", "never"];
    let agent = Agent::start(scene.folder.path(), &arguments);
    for n in 1..=20 {
        scene.change(&n.to_string());
    }
    wait_until("the last content is applied", || {
        agent.last(ROLLED_OUT, "digest") == on_disk(&scene.kubelet.volume)
    });
    let reloads = application.reloads();
    assert_eq!(reloads.last().map(String::as_str), Some("20"));
    assert!(reloads.len() <= 5, "{reloads:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the swaps follow each other at a pace")]
fn two_hundred_swaps_in_two_seconds_cause_at_most_four_reloads() {
    /// A pause of the kubelet for which podnudge may take the swaps before it as all.
    const PAUSE: Duration = Duration::from_millis(150);
    let mut scene = Scene::with(&[("a.conf", "0")]);
    let application = scene.application();
    let volume = scene.kubelet.volume.to_str().unwrap().to_owned();
    let url = application.url();
    let agent = Agent::start(
        scene.folder.path(),
        &["--watch", &volume, "--url", &url, "--on-start", "never"],
    );
    let started = Instant::now();
    wait_until("the first reading is past", || started.elapsed() > Duration::from_secs(1));
    let start = Instant::now();
    let (mut last, mut pauses) = (start, 0);
    for n in 1..=200 {
        wait_until("the next swap is due", || start.elapsed() >= Duration::from_millis(10) * n);
        pauses += usize::from(last.elapsed() > PAUSE);
        last = Instant::now();
        scene.change(&n.to_string());
    }
    wait_until("the last content is applied", || {
        agent.last(ROLLED_OUT, "digest") == on_disk(&scene.kubelet.volume)
    });
    let reloads = application.reloads();
    assert_eq!(reloads.last().map(String::as_str), Some("200"));
    // A busy machine may hold up the kubelet of the test.
    assert!(reloads.len() <= 4 + pauses, "{reloads:?}, {pauses} pauses");
    println!("200 swaps in {:?}, {} reloads, {pauses} pauses", start.elapsed(), reloads.len());
}

/// Every digest that podnudge reports as applied is of one complete generation, no digest is
/// applied twice in a row, and the last one is the digest of the final content.
fn full_speed(swaps: usize, folder: &Path) {
    let mut kubelet = Kubelet::new(folder.join("volume"));
    let content = |n: usize| {
        let keys: Vec<(String, String)> =
            (0..5).map(|key| (format!("{key}.conf"), format!("{n} of {key}"))).collect();
        keys.into_iter().map(|(key, value)| (key, value.into_bytes())).collect::<Payload>()
    };
    kubelet.write(&content(0));
    let application = Application::start(&kubelet.volume, "0.conf");
    let agent = nudge(folder, &kubelet.volume, &application, &[]);
    let mut written = BTreeMap::new();
    written.insert(on_disk(&kubelet.volume), 0);
    for n in 1..=swaps {
        kubelet.write_anyway(&content(n));
        written.insert(on_disk(&kubelet.volume), n);
    }
    let last = on_disk(&kubelet.volume);
    wait_until("the last content is applied", || agent.last(ROLLED_OUT, "digest") == last);
    let applied: Vec<String> = agent
        .events(ROLLED_OUT)
        .iter()
        .map(|event| event["digest"].as_str().unwrap().to_owned())
        .collect();
    let torn: Vec<&String> = applied.iter().filter(|one| !written.contains_key(*one)).collect();
    assert!(torn.is_empty(), "torn: {torn:?}");
    let needless = applied.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(needless, 0);
    let order: Vec<usize> = applied.iter().map(|digest| written[digest]).collect();
    assert!(order.is_sorted(), "an older content was applied after a newer one");
    println!("{swaps} swaps, {} reloads, 0 missed, 0 torn, 0 needless", applied.len());
}

#[test]
fn two_thousand_swaps_at_full_speed_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    full_speed(2000, folder.path());
}

#[test]
fn two_hundred_serial_swaps_on_a_saturated_machine_are_all_applied() {
    /// Spins until `stop` is set.
    fn load(stop: &AtomicUsize) {
        while stop.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
    }
    let stop = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) * 2 {
            scope.spawn(|| load(&stop));
        }
        let mut scene = Scene::with(&[("a.conf", "0")]);
        let application = scene.application();
        let agent = nudge(scene.folder.path(), &scene.kubelet.volume, &application, &[]);
        // All threads on one processor, which the load uses too.
        let pinned = command("taskset")
            .args(["--all-tasks", "--cpu-list", "--pid", "0", &agent.pid().to_string()])
            .output()
            .unwrap();
        assert!(pinned.status.success(), "taskset is installed (package util-linux)");
        for n in 1..=200 {
            scene.roll_out(&agent, &n.to_string());
        }
        stop.store(1, Ordering::Relaxed);
        let wanted: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
        assert_eq!(application.reloads(), wanted);
    });
}

#[test]
fn an_agent_killed_at_any_moment_keeps_the_target_running_and_applies_the_final_content() {
    in_namespace!();
    for state in [false, true] {
        let mut scene = Scene::with(&[("a.conf", "0")]);
        let mut target = scene.target("app", Behaviour::Handles);
        let (volume, states) = (scene.kubelet.volume.clone(), scene.path("state"));
        let mut arguments = vec!["--watch", volume.to_str().unwrap(), "--process", "app"];
        arguments.extend(["--signal", "HUP", "--settle", "0s", "--alive-for", "0s"]);
        if state {
            arguments.extend(["--state-dir", states.to_str().unwrap()]);
        }
        for n in 1..=25 {
            let mut agent = Agent::start(scene.folder.path(), &arguments);
            for swap in 0..3 {
                scene.change(&format!("{n}.{swap}"));
                // A different delay each time, so that the kill hits different steps.
                for _ in 0..n * 300 {
                    std::hint::spin_loop();
                }
            }
            if n % 5 == 0 {
                agent.wait_for(ROLLED_OUT, 1);
            }
            agent.kill();
            assert!(target.is_running());
        }
        let signals = target.signals();
        let agent = Agent::start(scene.folder.path(), &arguments);
        wait_until("the final content is applied", || {
            let digest = on_disk(&volume);
            agent.last(ROLLED_OUT, "digest") == digest
                || (agent.last("baseline", "digest") == digest
                    && agent.last("baseline", "because").contains("podnudge's saved state"))
        });
        assert!(target.is_running());
        assert!(target.signals() <= signals + 1);
    }
}

#[test]
fn sigterm_ends_a_wait_with_exit_code_0_and_a_second_one_ends_at_once() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::Handles);
    let volume = scene.kubelet.volume.to_str().unwrap().to_owned();
    let fixed = ["--watch", &volume, "--process", "app", "--signal", "HUP", "--settle", "0s"];
    let waiting =
        Agent::start(scene.folder.path(), &[&fixed, ["--jitter", "1h"].as_slice()].concat());
    scene.change("2");
    waiting.wait_for("scheduled", 1);
    assert_eq!(waiting.stop().code(), Some(0));
    assert_eq!(target.signals(), 0);

    let verifying = Agent::start(
        scene.folder.path(),
        &[&fixed, ["--alive-for", "10m", "--grace", "10m"].as_slice()].concat(),
    );
    verifying.wait_for("sent", 1);
    verifying.signal(Signal::SIGTERM);
    verifying.wait_for("ending", 1);
    assert_eq!(verifying.stop().code(), Some(0));
}

#[test]
fn sighup_triggers_a_reload_and_sigusr1_logs_the_status() {
    let scene = Scene::new();
    let application = scene.application();
    let agent = nudge(scene.folder.path(), &scene.kubelet.volume, &application, &[]);
    agent.signal(Signal::SIGHUP);
    agent.wait_for(ROLLED_OUT, 1);
    let status = agent.status();
    assert_eq!(status["rules"][0]["in_sync"], "yes");
    assert_eq!(status["rules"][0]["counters"]["actions_applied"], 1);
}

#[test]
fn file_contents_are_never_logged_and_key_names_are_escaped() {
    let mut scene = Scene::with(&[("a.conf", "hunter2")]);
    let application = scene.application();
    let agent =
        nudge(scene.folder.path(), &scene.kubelet.volume, &application, &["--log-level", "debug"]);
    scene.kubelet.write(&payload(&[("a.conf", "hunter2 again"), ("na\u{1b}[31mme", "hunter2")]));
    agent.wait_for(ROLLED_OUT, 1);
    assert!(!agent.log().contains("hunter2"));
    assert!(!agent.log().contains('\u{1b}') && !agent.log().contains("\\u001b"));
    assert_eq!(agent.last("changed", "added"), "na\\x1b[31mme");
}

/// Starts podnudge with its own inotify limit: the limits are per user namespace.
fn with_limit(folder: &Path, limit: &str, value: &str, volume: &Path, url: &str) -> Agent {
    let script = format!("echo {value} > /proc/sys/user/{limit}; exec \"$@\"");
    let mut command = command("unshare");
    command
        .args(["--user", "--map-root-user", "sh", "-c", &script, "sh"])
        .arg(env!("CARGO_BIN_EXE_podnudge"))
        .args(["--log", "json", "--listen", "off", "--on-start", "never", "--settle", "0s"])
        .args(["--resync", "1s", "--poll", "1s", "--url", url, "--watch"])
        .arg(volume);
    Agent::spawn(folder, command)
}

/// Sets an inotify limit in the user namespace of a running podnudge.
fn set_limit(agent: &Agent, limit: &str, value: &str) {
    let done = command("nsenter")
        .args(["--user", "--target", &agent.pid().to_string(), "--preserve-credentials"])
        .args(["sh", "-c", &format!("echo {value} > /proc/sys/user/{limit}")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn without_inotify_podnudge_polls_until_inotify_works_again() {
    in_namespace!();
    let mut scene = Scene::new();
    let application = scene.application();
    let limit = "max_inotify_instances";
    let agent =
        with_limit(scene.folder.path(), limit, "0", &scene.kubelet.volume, &application.url());
    agent.wait_for("polling", 1);
    assert!(agent.last("polling", "reason").contains("fs.inotify.max_user_instances"));
    agent.wait_for("baseline", 1);
    scene.roll_out(&agent, "2");
    // The limit is raised while podnudge runs.
    set_limit(&agent, limit, "100");
    agent.wait_for("watched-again", 1);
    scene.roll_out(&agent, "3");
    assert_eq!(application.reloads(), ["2", "3"]);
}

#[test]
fn podnudge_polls_while_inotify_watches_are_exhausted() {
    in_namespace!();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    fs::create_dir_all(volume.join("one")).unwrap();
    fs::write(volume.join("one/a.conf"), "1").unwrap();
    let application = Application::start(&volume, "two/b.conf");
    let limit = "max_inotify_watches";
    let agent = with_limit(folder.path(), limit, "2", &volume, &application.url());
    agent.wait_for("baseline", 1);
    assert_eq!(agent.count("polling"), 0);
    // A third directory, for which no watch is left.
    fs::create_dir(volume.join("two")).unwrap();
    agent.wait_for("polling", 1);
    assert!(agent.last("polling", "reason").contains("fs.inotify.max_user_watches"));
    fs::write(volume.join("two/b.conf"), "1").unwrap();
    agent.wait_for(ROLLED_OUT, 1);
    set_limit(&agent, limit, "100");
    agent.wait_for("watched-again", 1);
    fs::write(volume.join("two/b.conf"), "2").unwrap();
    wait_until("the content is applied", || agent.last(ROLLED_OUT, "digest") == on_disk(&volume));
}

#[test]
fn a_configured_port_in_use_ends_podnudge_with_exit_code_69() {
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = occupied.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let output = podnudge()
        .args(["--listen", &address, "--url", "http://127.0.0.1:1/", "--watch"])
        .arg(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains(&format!("cannot listen on {address}: ")), "{stderr}");
    assert_eq!(stderr.matches("os error").count(), 1, "{stderr}");
    assert!(stderr.contains("hint: the containers of a pod share their ports"), "{stderr}");
}

#[test]
fn the_default_port_is_served_once_it_is_free() {
    in_network!();
    let occupied = TcpListener::bind("[::]:9533").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("podnudge.toml");
    let text = format!(
        "[agent]\nlog = \"json\"\nresync = \"1s\"\n[[rule]]\nwatch = \"{}\"\nhttp = \"http://127.0.0.1:1/\"\n",
        folder.path().display()
    );
    fs::write(&file, text).unwrap();
    let mut command = podnudge();
    command.arg("--config").arg(&file);
    let agent = Agent::spawn_until("not-listening", folder.path(), command);
    drop(occupied);
    agent.wait_for("listening", 1);
    assert_eq!(agent.last("listening", "listen"), "[::]:9533");
    assert!(ask("127.0.0.1:9533", "GET", "/livez").ends_with("\r\n\r\nok\n"));
    assert_eq!((agent.count("not-listening"), agent.count("listening")), (1, 1));
}

/// With a key of zeros, everybody could compute the names that hide the digests of Secrets.
#[test]
fn podnudge_does_not_start_without_random_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("strace");
    command.args(["-D", "-f", "-qqq", "-o", "/dev/null", "-e", "inject=getrandom:error=ENOSYS"]);
    command.args([env!("CARGO_BIN_EXE_podnudge"), "--listen", "off"]);
    command.args(["--url", "http://127.0.0.1:9/", "--watch"]).arg(folder.path());
    let mut agent = Agent::spawn(folder.path(), command);
    assert_eq!(agent.exit_code(), Some(69));
    let log = agent.log();
    assert!(log.contains("cannot get random numbers from the kernel: "), "{log}");
    assert!(log.contains("hint: the seccomp profile must allow"), "{log}");
}

/// The event loop's library panics if it can no longer wait for events.
#[test]
fn a_panic_logs_one_line_and_exits_with_70() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("strace");
    // -D detaches the tracer, so that the child process is podnudge itself.
    command.args([
        "-D",
        "-f",
        "-qqq",
        "-o",
        "/dev/null",
        "-e",
        "inject=epoll_wait:error=EBADF:when=3+",
    ]);
    command.args([env!("CARGO_BIN_EXE_podnudge"), "--log", "json", "--listen", "off"]);
    command.args(["--url", "http://127.0.0.1:9/", "--watch"]).arg(folder.path());
    let agent = Agent::spawn(folder.path(), command);
    agent.wait_for("bug", 1);
    let line = agent.events("bug").remove(0);
    assert_eq!(line["level"], "ERROR");
    assert!(line["message"].as_str().unwrap().starts_with("this is a bug in podnudge: "), "{line}");
    assert!(line["place"].as_str().unwrap().contains(".rs:"), "{line}");
    assert!(agent.log().lines().last().unwrap().contains("\"bug\""), "{}", agent.log());
    assert_eq!(agent.stop().code(), Some(70));
}
