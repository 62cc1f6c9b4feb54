//! podnudge in a pod with `hostPID: true`: it sees the processes of other pods, and acts only on those of its
//! own. Here the cgroups are those that the kubelet makes, and podnudge has a root of its own, as in a
//! container.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Agent, Behaviour, Cgroups, Driver, Kubelet, Target, payload};

const OWN: &str = "0d3c1f9e-5f0a-4f4e-9d39-6c2f5b1f0a77";
const OTHER: &str = "9b1f0a77-5f0a-4f4e-9d39-6c2f5b1f0a70";

/// A node with podnudge's pod and another one.
struct Node {
    cgroups: Cgroups,
    folder: tempfile::TempDir,
    kubelet: Kubelet,
}

impl Node {
    fn new(driver: Driver) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let of_pod = folder.path().join("pods").join(OWN);
        let mut kubelet = Kubelet::new(of_pod.join("volumes/kubernetes.io~configmap/app"));
        kubelet.write(&payload(&[("a.conf", "0")]));
        fs::write(of_pod.join("etc-hosts"), "127.0.0.1 localhost\n").unwrap();
        Self { cgroups: Cgroups::new(driver), folder, kubelet }
    }

    /// Starts a target in a container of a pod.
    fn target(&self, name: &str, group: &Path) -> Target {
        let folder = self.folder.path().join(group.file_name().unwrap());
        fs::create_dir_all(&folder).unwrap();
        Target::start_by(&folder, name, Behaviour::Handles, |program| {
            self.cgroups.command(group, program)
        })
    }

    /// Starts podnudge in a container of its pod: with a root of its own, in which `/volume` is the
    /// watched volume, and, if `private`, with a cgroup namespace.
    fn podnudge(&self, private: bool, target: &[&str]) -> Agent {
        let mut command = self.command(private);
        command.args(["--log", "json", "--listen", "off", "--on-start", "never", "--settle", "0s"]);
        command.args(["--watch", "/volume", "--signal", "HUP"]).args(target);
        let agent = Agent::spawn(self.folder.path(), command);
        agent.wait_for("baseline", 1);
        agent
    }

    /// The command for podnudge in that container.
    fn command(&self, private: bool) -> Command {
        let script = "mkdir -p \"$ROOT\" && mount -t tmpfs tmpfs \"$ROOT\" && cd \"$ROOT\" && \
             for at in usr lib lib64 bin proc tmp sys; do mkdir $at && mount --rbind /$at $at; done && \
             mkdir -p etc volume .$(dirname \"$0\") && touch etc/hosts && \
             mount --bind \"$(dirname \"$0\")\" .$(dirname \"$0\") && \
             mount --bind \"$POD/etc-hosts\" etc/hosts && \
             mount --bind \"$POD/volumes/kubernetes.io~configmap/app\" volume && \
             exec chroot . \"$0\" \"$@\"";
        let group = self.cgroups.container(OWN, "b");
        let mut command = self.cgroups.command(&group, "unshare");
        if private {
            command.arg("--cgroup");
        }
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_podnudge")]);
        command.env("ROOT", self.folder.path().join("root"));
        command.env("POD", self.folder.path().join("pods").join(OWN));
        command
    }
}

/// The problems that the preflight has reported.
fn problems(agent: &Agent) -> Vec<String> {
    let events = agent.events("preflight");
    let mut problems: Vec<String> =
        events.iter().map(|event| event["problem"].as_str().unwrap().to_owned()).collect();
    problems.sort();
    problems
}

#[test]
fn the_process_namespace_of_the_node_is_reported_at_the_start() {
    let node = Node::new(Driver::Cgroupfs);
    let _target = node.target("app-reported", &node.cgroups.container(OWN, "a"));
    let agent = node.podnudge(true, &["--process", "app-reported"]);
    agent.wait_for("preflight", 1);
    assert!(agent.last("preflight", "reason").contains("the processes of the whole node"));
    assert!(agent.last("preflight", "hint").contains("shareProcessNamespace: true"));
    assert_eq!(problems(&agent), ["host-pid"]);
}

#[test]
fn the_doctor_reports_the_process_namespace_of_the_node() {
    let node = Node::new(Driver::Cgroupfs);
    let _target = node.target("app-examined", &node.cgroups.container(OWN, "a"));
    let mut doctor = node.command(true);
    doctor.args(["doctor", "--watch", "/volume", "--signal", "HUP", "--process", "app-examined"]);
    let output = doctor.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the processes of the whole node"), "{text}");
    assert!(text.contains("shareProcessNamespace: true"), "{text}");
}

/// What podnudge says of a target that is not of its pod.
fn assert_refuses(agent: &Agent, number: usize) {
    agent.wait_for("refused", number);
    let reason = agent.last("refused", "reason");
    assert!(reason.contains("podnudge sees the processes of the node"), "{reason}");
    assert!(agent.last("refused", "hint").contains("shareProcessNamespace: true"));
    assert_eq!(agent.count("delivered|applied"), 0);
}

#[test]
fn of_two_processes_with_one_name_that_of_its_own_pod_is_signalled() {
    for driver in [Driver::Cgroupfs, Driver::Systemd] {
        for private in [false, true] {
            let mut node = Node::new(driver);
            let name = "app-on-node";
            let wrong = node.target(name, &node.cgroups.container(OTHER, "c"));
            let right = node.target(name, &node.cgroups.container(OWN, "a"));
            let agent = node.podnudge(private, &["--process", name]);
            node.kubelet.write(&payload(&[("a.conf", "1")]));
            agent.wait_for("delivered|unread", 1);
            assert_eq!(right.signals(), 1, "{driver:?} {private}");
            assert_eq!(wrong.signals(), 0, "{driver:?} {private}");
        }
    }
}

#[test]
fn a_process_of_another_pod_is_refused_however_it_is_named() {
    let mut node = Node::new(Driver::Systemd);
    let wrong = node.target("app-of-other", &node.cgroups.container(OTHER, "c"));
    let cmdline = format!("{}.*target_main", node.folder.path().display());
    for (n, by) in [["--process", "app-of-other"], ["--cmdline", &cmdline]].iter().enumerate() {
        for private in [false, true] {
            let agent = node.podnudge(private, by);
            node.kubelet.write(&payload(&[("a.conf", &format!("{n} {private}"))]));
            assert_refuses(&agent, 1);
        }
    }
    assert_eq!(wrong.signals(), 0);
}

#[test]
fn a_pidfile_names_no_process_of_another_pod() {
    let mut node = Node::new(Driver::Cgroupfs);
    let wrong = node.target("app-of-pidfile", &node.cgroups.container(OTHER, "c"));
    node.kubelet.write(&payload(&[("a.conf", "0"), ("app.pid", &wrong.pid().to_string())]));
    let agent = node.podnudge(true, &["--pidfile", "/volume/app.pid"]);
    let payload = payload(&[("a.conf", "1"), ("app.pid", &wrong.pid().to_string())]);
    node.kubelet.write(&payload);
    assert_refuses(&agent, 1);
    assert_eq!(wrong.signals(), 0);
}

/// Its cgroup does not say whose it is.
#[test]
fn a_process_that_mounts_the_volume_of_the_pod_is_of_the_pod() {
    let mut node = Node::new(Driver::Cgroupfs);
    let name = "app-by-mount";
    let elsewhere = node.cgroups.top.join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let in_container = |volume: Option<&Path>| {
        let folder = node.folder.path().join(format!("target-{}", volume.is_some()));
        fs::create_dir_all(folder.join("volume")).unwrap();
        Target::start_by(&folder, name, Behaviour::Handles, |program| {
            let mut command = node.cgroups.command(&elsewhere, "unshare");
            let mount = volume.map_or("true".to_owned(), |volume| {
                format!("mount --bind {} {}", volume.display(), folder.join("volume").display())
            });
            command.args(["--mount", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")]);
            command.arg(program);
            command
        })
    };
    let wrong = in_container(None);
    let right = in_container(Some(&node.kubelet.volume));
    let agent = node.podnudge(true, &["--process", name]);
    node.kubelet.write(&payload(&[("a.conf", "1")]));
    agent.wait_for("delivered|unread", 1);
    assert_eq!((right.signals(), wrong.signals()), (1, 0));
}
