//! An application that reads its configuration and then daemonizes: the process that podnudge finds
//! started after the configuration was read.

use std::os::unix::fs::symlink;

use crate::support::{
    Agent, ROLLED_OUT, Running, Scene, SharedPod, wait_until, wait_until_commit_is_past,
};

/// The main process of a container. A child reads the configuration, waits for the file `go`, forks
/// and exits. The forked process is renamed to `app` once it is an orphan.
const CONTAINER: &str = "
    cd \"$0\"
    orphan() {
        until read -r _ _ _ parent _ </proc/self/stat && [ $parent = 1 ]; do sleep 0.01; done
        exec ./app -c 'trap \"echo hup >>hups\" HUP; >ready; while :; do sleep 0.05; done'
    }
    ( : <volume/a.conf && >seen; until [ -e go ]; do sleep 0.01; done; orphan & ) &
    exec sleep 1000";

/// A pod with a volume.
fn start() -> (Scene, SharedPod) {
    let scene = Scene::new();
    symlink("/bin/bash", scene.path("app")).unwrap();
    let pod = SharedPod::start(scene.folder.path());
    (scene, pod)
}

/// Starts podnudge in its own container.
fn nudge(scene: &Scene, pod: &SharedPod, on_start: &str) -> Agent {
    let mut command = pod.container('a');
    command.arg(env!("CARGO_BIN_EXE_podnudge")).args(["--log", "json", "--listen", "off"]);
    let options = ["--alive-for", "50ms", "--process", "app", "--signal", "HUP"];
    scene.nudge_by(command, &[&["--on-start", on_start], &options[..]].concat())
}

/// Starts the application's container, and waits until the configuration is read.
fn start_application(scene: &Scene, pod: &SharedPod) -> Running {
    let mut command = pod.container('b');
    let container = command.args(["sh", "-c", CONTAINER]).arg(scene.folder.path());
    let container = Running::start(container);
    wait_until("the configuration is read", || scene.path("seen").exists());
    container
}

/// Writes new content, and waits until podnudge has seen it and until it is older than any
/// process that starts now.
fn change_under(scene: &mut Scene, agent: &Agent) {
    agent.wait_for("baseline", 1);
    change(scene);
    agent.wait_for("waiting-for-target", 1);
}

/// Writes new content, and waits until it is older than any process that starts now.
fn change(scene: &mut Scene) {
    scene.change("2");
    wait_until_commit_is_past(&scene.kubelet.volume);
}

/// podnudge used to assume that a daemon had read a change made between its read and its fork.
#[test]
fn a_daemon_whose_parent_read_the_old_content_is_signalled() {
    let (mut scene, pod) = start();
    let _application = start_application(&scene, &pod);
    let agent = nudge(&scene, &pod, "never");
    change_under(&mut scene, &agent);
    scene.write("go", "");
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((agent.count("sent"), agent.count("fresh")), (1, 0));
    wait_until("the signal has arrived", || scene.path("hups").exists());
}

#[test]
fn a_daemon_in_a_container_started_after_the_change_gets_no_signal() {
    let (mut scene, pod) = start();
    let agent = nudge(&scene, &pod, "never");
    change_under(&mut scene, &agent);
    let _application = start_application(&scene, &pod);
    scene.write("go", "");
    agent.wait_for("fresh", 1);
    assert!(!scene.path("hups").exists());
}

#[test]
fn a_daemon_whose_parent_read_the_old_content_is_signalled_when_podnudge_starts_later() {
    let (mut scene, pod) = start();
    let _application = start_application(&scene, &pod);
    change(&mut scene);
    scene.write("go", "");
    wait_until("the daemon handles the signal", || scene.path("ready").exists());
    let agent = nudge(&scene, &pod, "if-newer");
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((agent.count("sent"), agent.count("fresh")), (1, 0));
    wait_until("the signal has arrived", || scene.path("hups").exists());
}
