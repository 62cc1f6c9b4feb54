//! An application that reads its configuration and then daemonizes: the process that podnudge finds
//! started after the configuration was read.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Child;

use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::shared::SharedPod;
use crate::support::wait::{wait_until, wait_until_commit_is_past};

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
struct Scene {
    folder: tempfile::TempDir,
    kubelet: Kubelet,
    pod: SharedPod,
}

impl Scene {
    fn new() -> Self {
        let (folder, kubelet) = temporary_volume(&[("a.conf", "1")]);
        symlink("/bin/bash", folder.path().join("app")).unwrap();
        let pod = SharedPod::start(folder.path());
        Self { folder, kubelet, pod }
    }

    /// Starts podnudge in its own container.
    fn nudge(&self, on_start: &str) -> Agent {
        let mut command = self.pod.container('a');
        command.arg(env!("CARGO_BIN_EXE_podnudge")).args(["--log", "json", "--listen", "off"]);
        command.args(["--settle", "0s", "--on-start", on_start, "--alive-for", "50ms"]);
        command.args(["--process", "app", "--signal", "HUP", "--watch"]);
        command.arg(&self.kubelet.volume);
        Agent::spawn(self.folder.path(), command)
    }

    /// Starts the application's container, and waits until the configuration is read.
    fn start_application(&self) -> Container {
        let mut command = self.pod.container('b');
        command.args(["sh", "-c", CONTAINER]).arg(self.folder.path());
        let container = Container(command.spawn().unwrap());
        wait_until("the configuration is read", || self.has("seen"));
        container
    }

    /// Writes new content, and waits until podnudge has seen it and until it is older than any
    /// process that starts now.
    fn change_under(&mut self, agent: &Agent) {
        agent.wait_for("baseline", 1);
        self.change();
        agent.wait_for("waiting-for-target", 1);
    }

    /// Writes new content, and waits until it is older than any process that starts now.
    fn change(&mut self) {
        self.kubelet.write(&payload(&[("a.conf", "2")]));
        wait_until_commit_is_past(&self.kubelet.volume);
    }

    /// Lets the application daemonize.
    fn daemonize(&self) {
        File::create(self.folder.path().join("go")).unwrap();
    }

    fn has(&self, file: &str) -> bool {
        fs::exists(self.folder.path().join(file)).unwrap()
    }
}

/// Killed at the end of its test.
struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// podnudge used to assume that a daemon had read a change made between its read and its fork.
#[test]
fn a_daemon_whose_parent_read_the_old_content_is_signalled() {
    let mut scene = Scene::new();
    let _application = scene.start_application();
    let agent = scene.nudge("never");
    scene.change_under(&agent);
    scene.daemonize();
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((agent.count("sent"), agent.count("fresh")), (1, 0));
    wait_until("the signal has arrived", || scene.has("hups"));
}

#[test]
fn a_daemon_in_a_container_started_after_the_change_gets_no_signal() {
    let mut scene = Scene::new();
    let agent = scene.nudge("never");
    scene.change_under(&agent);
    let _application = scene.start_application();
    scene.daemonize();
    agent.wait_for("fresh", 1);
    assert!(!scene.has("hups"));
}

#[test]
fn a_daemon_whose_parent_read_the_old_content_is_signalled_when_podnudge_starts_later() {
    let mut scene = Scene::new();
    let _application = scene.start_application();
    scene.change();
    scene.daemonize();
    wait_until("the daemon handles the signal", || scene.has("ready"));
    let agent = scene.nudge("if-newer");
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((agent.count("sent"), agent.count("fresh")), (1, 0));
    wait_until("the signal has arrived", || scene.has("hups"));
}
