//! Real processes in their own pid namespaces: which are signalled, and which never are.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use podnudge::process::signal::{SendError, prepare};
use podnudge::process::{Identity, Pin, TargetProcess};
use podnudge_config::SignalAction;

use crate::support::{
    Agent, Behaviour, Kubelet, ROLLED_OUT, Scene, Target, in_namespace, mount, payload, unmount,
    wait_until, wait_until_commit_is_past, wait_until_old,
};

/// Starts podnudge for the volume of the scene.
fn nudge(scene: &Scene, arguments: &[&str]) -> Agent {
    let is_given = arguments.contains(&"--alive-for");
    let life: &[&str] = if is_given { &[] } else { &["--alive-for", "200ms"] };
    scene.nudge(&[&["--signal", "HUP"], life, arguments].concat())
}

#[test]
fn a_handler_is_called_once_per_change() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut target = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app"]);
    for n in 2..5 {
        scene.roll_out(&agent, &n.to_string());
    }
    assert_eq!(target.signals(), 3);
    assert!(target.is_running());
}

#[test]
fn a_target_that_ignores_or_does_not_handle_the_signal_is_not_signalled() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut bare = scene.target("bare", Behaviour::Default);
    let deaf = ["sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""];
    let mut deaf = scene.target_by(&deaf, "deaf", Behaviour::Ignores);
    for (name, why) in [("bare", "does not handle SIGHUP"), ("deaf", "ignores SIGHUP")] {
        let agent = nudge(&scene, &["--process", name]);
        scene.change(name);
        agent.wait_for("refused", 1);
        let reason = agent.last("refused", "reason");
        assert!(reason.contains(why), "{reason}");
        assert_eq!(agent.count("sent"), 0);
        // The first target is young and may still install a handler, so podnudge waits for it.
        assert_eq!(agent.count("waiting-for-target"), usize::from(name == "bare"));
    }
    assert!(bare.is_running() && deaf.is_running());
    assert_eq!(bare.signals() + deaf.signals(), 0);
}

#[test]
fn a_target_that_reexecs_itself_counts_as_the_same_process() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut target = scene.target("app", Behaviour::ExecsItself);
    let agent = nudge(&scene, &["--process", "app"]);
    for n in 2..4 {
        scene.roll_out(&agent, &n.to_string());
    }
    assert_eq!(agent.count("tripped"), 0);
    assert!(target.is_running());
}

/// The master of haproxy blocks its signals while it re-executes itself, and has no handlers then.
/// podnudge used to refuse such a target as unable to handle the signal because it was not young.
#[test]
fn podnudge_waits_for_a_target_that_blocks_the_signal() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target_by(&["env", "--block-signal=HUP"], "app", Behaviour::Default);
    wait_until_old(|| vec![target.pid()]);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.change("2");
    agent.wait_for("waiting-for-target", 1);
    let reason = agent.last("waiting-for-target", "reason");
    assert!(reason.contains("blocks SIGHUP"), "{reason}");
    assert_eq!((agent.count("refused"), agent.count("sent")), (0, 0));
}

#[test]
fn a_target_that_exits_on_the_signal_trips_the_breaker() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut first = scene.target("app", Behaviour::Dies);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.change("2");
    agent.wait_for("tripped", 1);
    assert!(!first.is_running());
    // The kubelet restarts it: podnudge does not send the signal for the same content again.
    let mut second = scene.target("app", Behaviour::Handles);
    scene.kubelet.write_anyway(&payload(&[("a.conf", "2")]));
    agent.signal(Signal::SIGUSR1);
    agent.wait_for("status", 1);
    assert_eq!(
        (agent.count("sent"), second.signals()),
        (1, 1),
        "only the first process got a signal"
    );
    // Newer content is applied.
    scene.roll_out(&agent, "3");
    assert!(second.is_running());
}

#[test]
fn the_exit_of_the_target_is_detected_at_once() {
    in_namespace!();
    let mut scene = Scene::new();
    let _target = scene.target("app", Behaviour::Dies);
    let arguments = ["--process", "app", "--alive-for", "10m"];
    let agent = nudge(&scene, &arguments);
    scene.change("2");
    agent.wait_for("tripped", 1);
}

#[test]
fn a_pid_reused_after_selection_is_never_signalled() {
    in_namespace!();
    let scene = Scene::new();
    let mut target = scene.target("app", Behaviour::Handles);
    let pid = target.pid();
    // Selected when an earlier process had the same pid.
    let chosen = TargetProcess {
        identity: Identity { pid, start_ticks: 1 },
        name: format!("{pid} (app)"),
        comm: "app".to_owned(),
        is_root: true,
        is_container: false,
        container: String::new(),
        wrappers: Vec::new(),
        ancestors: Vec::new(),
        pin: Pin::default(),
    };
    let action = SignalAction { name: Signal::SIGHUP, allow_unhandled: true };
    assert!(matches!(prepare(&chosen, action), Err(SendError::Gone(_))));
    target.kill();
    assert!(matches!(prepare(&chosen, action), Err(SendError::Gone(_))));
    assert_eq!(target.signals(), 0);
}

/// The target started after all contents were written, but has not read the one that the link
/// points to now.
#[test]
fn switching_a_symlink_to_older_content_causes_an_action() {
    in_namespace!();
    let scene = Scene::new();
    let mut other = Kubelet::new(scene.path("other"));
    other.write(&payload(&[("a.conf", "2")]));
    let plain = scene.path("plain");
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("a.conf"), "3").unwrap();
    let link = scene.path("current");
    std::os::unix::fs::symlink("volume", &link).unwrap();
    wait_until_commit_is_past(&scene.kubelet.volume);
    let target = scene.target("app", Behaviour::Handles);
    let agent = Agent::start(
        scene.folder.path(),
        &[
            &["--watch", link.to_str().unwrap(), "--process", "app", "--signal", "HUP"][..],
            &["--settle", "0s", "--alive-for", "100ms"],
        ]
        .concat(),
    );
    assert_eq!(agent.last("baseline", "because"), "the target started after the last change");
    for (n, release) in ["other", "plain", "volume", "plain"].iter().enumerate() {
        let new = scene.path("new");
        std::os::unix::fs::symlink(release, &new).unwrap();
        fs::rename(&new, &link).unwrap();
        agent.wait_for(ROLLED_OUT, n + 1);
        assert_eq!((target.signals(), agent.count("fresh")), (n + 1, 0));
    }
}

#[test]
fn a_process_name_truncated_by_the_kernel_is_found() {
    in_namespace!();
    let mut scene = Scene::new();
    let long = "prometheus-config-reloader-long";
    let target = scene.target(long, Behaviour::Handles);
    let other = scene.target("prometheus-conf", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", long]);
    scene.roll_out(&agent, "2");
    assert_eq!((target.signals(), other.signals()), (1, 0));
}

#[test]
fn only_the_master_is_signalled_and_not_its_workers() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::MasterWithWorker);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.roll_out(&agent, "2");
    assert_eq!((target.signals(), target.signals_to_worker()), (1, 0));
}

#[test]
fn with_all_every_match_is_signalled_and_only_the_roots_must_survive() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::MasterReplacingWorker);
    let agent = scene.configured(
        "[[rule]]\nname = \"app\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"never\"\n\
         target = { process = \"app\", all = true }\nsignal.name = \"HUP\"\n",
    );
    for n in 1..4 {
        scene.roll_out(&agent, &format!("change {n}"));
        assert_eq!((target.signals(), agent.count("tripped")), (n, 0));
    }
}

/// Starts podnudge with a rule for `app` that requires new workers as a proof.
fn nudge_workers(scene: &Scene, target: &str, timeout: &str) -> Agent {
    scene.configured(&format!(
        "[[rule]]\nname = \"app\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"never\"\n\
         retry.attempts = 1\ntarget.process = \"app\"\n{target}\nsignal.name = \"HUP\"\n\
         verify = {{ alive-for = \"10ms\", children-newer = true, timeout = \"{timeout}\" }}\n",
    ))
}

/// Twenty times, because a worker may start within the clock tick of the signal.
fn new_workers_are_seen(target: &str) {
    let mut scene = Scene::new();
    let app = scene.target("app", Behaviour::MasterReplacingWorker);
    let agent = nudge_workers(&scene, target, "1m");
    for n in 1..=20 {
        scene.roll_out(&agent, &format!("change {n}"));
        wait_until("the old worker is replaced", || app.workers() > n);
        assert_eq!(app.signals(), n);
    }
}

#[test]
fn a_new_worker_proves_the_reload() {
    in_namespace!(new_workers_are_seen(""));
}

#[test]
fn with_all_new_workers_of_the_roots_prove_the_reload() {
    in_namespace!(new_workers_are_seen("target.all = true"));
}

/// Asserts the reason that is reported when no new worker starts.
fn no_new_worker(behaviour: Behaviour, wanted: &str) {
    let mut scene = Scene::new();
    let target = scene.target("app", behaviour);
    let agent = nudge_workers(&scene, "", "300ms");
    scene.change("2");
    agent.wait_for("gave-up", 1);
    let reason = agent.last("gave-up", "reason");
    assert_eq!(reason, format!("process {} {wanted}", target.pid()));
    assert_eq!((target.signals(), agent.count(ROLLED_OUT)), (1, 0));
}

#[test]
fn a_master_that_keeps_its_worker_has_not_reloaded() {
    let wanted = "has no new child process since the signal; older ones: 1";
    in_namespace!(no_new_worker(Behaviour::MasterWithWorker, wanted));
}

#[test]
fn children_newer_fails_for_a_target_without_children() {
    in_namespace!(no_new_worker(Behaviour::Handles, "has no child process"));
}

#[test]
fn several_unrelated_matches_are_refused_and_listed() {
    in_namespace!();
    let mut scene = Scene::new();
    let one = scene.target("app", Behaviour::Handles);
    let other = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.change("2");
    agent.wait_for("refused", 1);
    let reason = agent.last("refused", "reason");
    for target in [&one, &other] {
        assert!(reason.contains(&format!("{} (app, uid 0)", target.pid())), "{reason}");
        assert_eq!(target.signals(), 0);
    }
}

/// Settings of a container's securityContext: a uid, or root with restricted capabilities.
const USER_65532: &[&str] = &["--reuid=65532", "--regid=65532", "--clear-groups"];
const ROOT_WITHOUT_CAPABILITIES: &[&str] = &["--bounding-set=-all", "--inh-caps=-all"];
const ROOT_WITH_KILL: &[&str] = &["--bounding-set=-all,+kill", "--inh-caps=-all"];

#[test]
fn signals_follow_the_kernels_permissions_and_a_refusal_names_the_fix() {
    in_namespace!();
    // podnudge, the target, and parts of the refusal (none: the signal arrives).
    let table: [(&[&str], &[&str], &[&str]); 6] = [
        (USER_65532, USER_65532, &[]),
        (USER_65532, &[], &["as uid 65532", "as uid 0", "runAsUser: 0 and runAsNonRoot: false"]),
        (ROOT_WITHOUT_CAPABILITIES, &[], &[]),
        (
            ROOT_WITHOUT_CAPABILITIES,
            USER_65532,
            &["as uid 0", "as uid 65532", "runAsUser: 65532", "drop: [ALL], add: [KILL]"],
        ),
        (ROOT_WITH_KILL, USER_65532, &[]),
        (
            &["--reuid=2000", "--regid=2000", "--clear-groups"],
            USER_65532,
            &["as uid 2000", "as uid 65532", "runAsUser: 65532"],
        ),
    ];
    for (podnudge, target, refusal) in table {
        let mut scene = Scene::new();
        let by = [&["setpriv"], target, &["--"]].concat();
        let target = scene.target_by(&by, "app", Behaviour::Handles);
        let by = scene.podnudge_by(&[&["setpriv"], podnudge, &["--"]].concat());
        let options = ["--process", "app", "--signal", "HUP", "--alive-for", "100ms"];
        let agent = scene.nudge_by(by, &options);
        // Known at the start, before there is anything to send.
        let problems = usize::from(!refusal.is_empty());
        agent.wait_for("preflight", problems);
        assert_eq!(agent.count("preflight"), problems);
        scene.change("2");
        if refusal.is_empty() {
            agent.wait_for(ROLLED_OUT, 1);
            assert_eq!(target.signals(), 1, "{podnudge:?}");
            continue;
        }
        agent.wait_for("refused", 1);
        for event in ["preflight", "refused"] {
            let explanation = agent.last(event, "reason") + &agent.last(event, "hint");
            for part in refusal {
                assert!(explanation.contains(part), "`{part}` is not in: {explanation}");
            }
        }
        assert_eq!(agent.last("preflight", "problem"), "not-permitted");
        assert_eq!(target.signals(), 0, "{podnudge:?}");
    }
}

#[test]
fn an_absent_target_is_waited_for_and_needs_no_signal_after_its_start() {
    in_namespace!();
    let mut scene = Scene::new();
    // A visible process, so that the namespace counts as shared.
    let _other = scene.target("other", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.change("2");
    agent.wait_for("waiting-for-target", 1);
    wait_until_commit_is_past(&scene.kubelet.volume);
    let target = scene.target("app", Behaviour::Handles);
    agent.wait_for("fresh", 1);
    assert_eq!((target.signals(), agent.count("retrying")), (0, 0));
}

#[test]
fn without_a_shared_process_namespace_the_refusal_says_how_to_share_it() {
    in_namespace!();
    let mut scene = Scene::new();
    let agent = nudge(&scene, &["--process", "app"]);
    scene.change("2");
    agent.wait_for("refused", 1);
    assert!(agent.last("refused", "hint").contains("shareProcessNamespace: true"));
}

#[test]
fn pid_1_is_never_chosen() {
    in_namespace!();
    let mut scene = Scene::new();
    let _other = scene.target("other", Behaviour::Handles);
    // Pid 1 is this test program, and its arguments contain the name of this test.
    let agent = nudge(&scene, &["--cmdline", "pid_1_is_never_chosen"]);
    scene.change("2");
    agent.wait_for("waiting-for-target", 1);
    assert!(agent.last("waiting-for-target", "reason").contains("no process has arguments"));
    assert_eq!(agent.count("sent"), 0);
}

#[test]
fn a_pidfile_names_the_target_and_a_stale_one_is_reported() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::Handles);
    let pidfile = scene.path("app.pid");
    fs::write(&pidfile, "999999\n").unwrap();
    let agent = nudge(&scene, &["--pidfile", pidfile.to_str().unwrap()]);
    scene.change("2");
    agent.wait_for("waiting-for-target", 1);
    assert!(agent.last("waiting-for-target", "reason").contains("no process has the pid 999999"));
    fs::write(&pidfile, format!("{}\n", target.pid())).unwrap();
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(target.signals(), 1);
}

/// The kernel uses a pid again. The file of an application that has ended then names another process.
#[test]
fn the_process_of_a_pidfile_that_is_older_than_it_is_not_signalled() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut first = scene.target("app", Behaviour::Handles);
    let (pid, pidfile) = (first.pid(), scene.path("app.pid"));
    fs::write(&pidfile, format!("{pid}\n")).unwrap();
    first.kill();
    fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
    let other = scene.target("other", Behaviour::Handles);
    assert_eq!(other.pid(), pid, "the pid is used again");
    // A pid is used again after hours or days.
    let write_ago = |time: Duration| {
        let file = fs::File::options().write(true).open(&pidfile).unwrap();
        let started = fs::metadata(format!("/proc/{pid}")).unwrap().modified().unwrap();
        file.set_modified(started - time).unwrap();
    };
    write_ago(Duration::from_hours(1));
    let agent = nudge(&scene, &["--pidfile", pidfile.to_str().unwrap()]);
    scene.change("2");
    agent.wait_for("waiting-for-target", 1);
    let event = "waiting-for-target";
    let reason = agent.last(event, "reason") + "; " + &agent.last(event, "hint");
    for part in [
        &format!("is older than process {pid} (other)"),
        "is that of a process that has ended",
        "write the file at each start",
    ] {
        assert!(reason.contains(part), "`{part}` is not in: {reason}");
    }
    assert_eq!(other.signals(), 0);
    // A file that seems to be some seconds older is correct: the clock was set.
    write_ago(Duration::from_secs(5));
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(other.signals(), 1);
    // The file is compared before each action.
    write_ago(Duration::from_hours(1));
    scene.change("3");
    agent.wait_for("waiting-for-target", 2);
    assert_eq!(other.signals(), 1);
}

#[test]
fn a_target_that_restarts_before_the_action_gets_no_signal() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut first = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app", "--min-interval", "2s"]);
    scene.roll_out(&agent, "2");
    scene.change("3");
    agent.wait_for("scheduled", 2);
    first.kill();
    wait_until_commit_is_past(&scene.kubelet.volume);
    let second = scene.target("app", Behaviour::Handles);
    agent.wait_for("fresh", 1);
    assert_eq!(second.signals(), 1, "one signal to the first process, none to the second");
}

/// A target in its own mount namespace, where the volume is mounted at `elsewhere` only.
fn container(scene: &Scene, name: &str) -> Target {
    let at = scene.path("elsewhere").display().to_string();
    fs::create_dir_all(&at).unwrap();
    let script = "mount --bind \"$0\" \"$1\" && umount \"$0\" && shift && exec \"$@\"";
    let volume = scene.kubelet.volume.to_str().unwrap();
    let by = ["unshare", "--mount", "sh", "-c", script, volume, &at];
    scene.target_by(&by, name, Behaviour::Handles)
}

#[test]
fn the_target_is_found_by_its_mount_of_the_volume() {
    in_namespace!();
    for kind in ["tmpfs", "disk"] {
        let content = payload(&[("a.conf", "1")]);
        let mut scene = if kind == "tmpfs" {
            Scene::on_tmpfs("volume", &content)
        } else {
            let mut scene = Scene::new();
            let disk = scene.path("kubernetes.io~configmap");
            fs::create_dir_all(&disk).unwrap();
            mount(&["--bind", disk.to_str().unwrap()], &scene.kubelet.volume);
            scene.kubelet.write(&content);
            scene
        };
        let volume = scene.kubelet.volume.clone();
        let bystander = Target::start_without(scene.folder.path(), "bystander", &volume);
        let target = container(&scene, "app");
        let agent = nudge(&scene, &[]);
        scene.roll_out(&agent, "2");
        assert_eq!((target.signals(), bystander.signals()), (1, 0), "{kind}");

        let second = container(&scene, "sidecar");
        // The target of the last action is signalled once more.
        scene.change("3");
        agent.wait_for("target-ambiguous", 1);
        scene.change("4");
        agent.wait_for("refused", 1);
        let reason = agent.last("refused", "reason");
        assert!(reason.contains("several processes match"), "{reason}");
        assert!(reason.contains("(app, ") && reason.contains("(sidecar, "), "{reason}");
        assert_eq!((target.signals(), second.signals()), (2, 0), "{kind}");
        drop(agent);
        unmount(&volume);
    }
}

#[test]
fn a_volume_that_is_not_a_mount_does_not_identify_the_target() {
    in_namespace!();
    let mut scene = Scene::new();
    let _target = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &[]);
    scene.change("2");
    // The volume lies in the root file system, or in a mount that all processes share.
    wait_until("podnudge refuses or sends", || agent.count("refused") + agent.count("sent") > 0);
    assert_eq!(agent.count("sent"), 0);
}
