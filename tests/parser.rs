//! podnudge's own parser, a process of its own: what ends or stops it from outside does not reject the
//! content. With the real binary, and real signals.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Agent, Application, Kubelet, ROLLED_OUT, command, payload, podnudge, wait_until,
};

/// podnudge with a rule that checks YAML, and another one.
struct Scene {
    folder: tempfile::TempDir,
    checked: Kubelet,
    other: Kubelet,
    applications: [Application; 2],
    agent: Agent,
}

impl Scene {
    fn new(podnudge: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // For a podnudge with another uid.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let [checked, other] = ["checked", "other"].map(|name| {
            let mut kubelet = Kubelet::new(folder.path().join(name));
            kubelet.write(&payload(&[("a.yaml", "0")]));
            kubelet
        });
        let applications =
            [&checked, &other].map(|kubelet| Application::start(&kubelet.volume, "a.yaml"));
        let rules = [&checked, &other].into_iter().zip(&applications).map(|(kubelet, application)| {
            let (watch, url) = (kubelet.volume.display(), application.url());
            format!(
                "[[rule]]\nname = \"{}\"\nwatch = \"{watch}\"\non-start = \"never\"\nsettle = \"0s\"\n\
                 http = {{ url = \"{url}\" }}\n",
                kubelet.volume.file_name().unwrap().display(),
            )
        });
        let checks = ["syntax = \"yaml\"", "not-empty = true"]
            .map(|check| format!("[[rule.check]]\n{check}\n"));
        let rules: String = rules.zip(checks).map(|(rule, check)| rule + &check).collect();
        let work = folder.path().display();
        let text = format!(
            "agent = {{ log = \"json\", listen = \"off\", resync = \"1s\", work-dir = \"{work}\" }}\n{rules}"
        );
        fs::write(folder.path().join("podnudge.toml"), text).unwrap();
        let agent = start(folder.path(), podnudge);
        agent.wait_for("baseline", 2);
        Self { folder, checked, other, applications, agent }
    }

    /// Writes content of this length, and sends a signal to the process that parses it, which it returns.
    fn signal_the_parser(&mut self, length: usize, signal: Signal) -> i32 {
        self.checked.write(&payload(&[("a.yaml", &yaml(length))]));
        let mut parser = None;
        wait_until("the parser runs", || {
            parser = parser_of(self.agent.pid());
            parser.is_some()
        });
        kill(Pid::from_raw(parser.unwrap()), signal).unwrap();
        parser.unwrap()
    }

    fn assert_applied(&self, length: usize) {
        wait_until("the content is applied", || {
            self.applications[0].reloads().last().is_some_and(|last| last.len() == length)
        });
        self.agent.wait_for(ROLLED_OUT, 1);
        assert_eq!(self.agent.count("rejected"), 0, "{}", self.agent.log());
    }
}

fn start(folder: &Path, mut podnudge: Command) -> Agent {
    podnudge.arg("--config").arg(folder.join("podnudge.toml"));
    Agent::spawn(folder, podnudge)
}

/// Good YAML, which is no JSON.
fn yaml(length: usize) -> String {
    "- a\n".repeat(length / 4)
}

fn parser_of(podnudge: i32) -> Option<i32> {
    fs::read_dir("/proc").unwrap().find_map(|entry| {
        let pid: i32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_parser = line.split(|byte| *byte == 0).nth(1) == Some(b"parse");
        (is_parser && parent == podnudge.to_string()).then_some(pid)
    })
}

/// As the kernel does when the memory of the container is short, and a neighbour can.
#[test]
fn content_whose_parser_is_killed_is_not_rejected_and_passes_later() {
    let mut scene = Scene::new(podnudge());
    scene.signal_the_parser(400_000, Signal::SIGKILL);
    scene.agent.wait_for("check-failed", 1);
    let reason = scene.agent.last("check-failed", "reason");
    assert!(reason.contains("has ended without an answer (signal: 9 (SIGKILL))"), "{reason}");
    assert!(scene.agent.last("check-failed", "hint").contains("`resources.limits`"));
    scene.assert_applied(400_000);
}

/// As in a wait for a device, which nothing ends: a process that is killed does not end before whoever traces it
/// has looked at it.
#[test]
fn a_parser_that_does_not_end_delays_other_rules_for_a_limited_time() {
    let mut scene = Scene::new(podnudge());
    let parser = scene.signal_the_parser(400_000, Signal::SIGSTOP);
    let mut tracer = command("strace")
        .args(["-qq", "-o", "/dev/null", "-p"])
        .arg(parser.to_string())
        .spawn()
        .unwrap();
    let status = || fs::read_to_string(format!("/proc/{parser}/status")).unwrap_or_default();
    wait_until("the parser is traced", || {
        status().contains(&format!("TracerPid:\t{}\n", tracer.id()))
    });
    kill(Pid::from_raw(i32::try_from(tracer.id()).unwrap()), Signal::SIGSTOP).unwrap();
    scene.other.write(&payload(&[("a.yaml", "1")]));
    wait_until("the other rule is served", || scene.applications[1].reloads() == ["1"]);
    scene.agent.wait_for("check-failed", 1);
    let reason = scene.agent.last("check-failed", "reason");
    assert!(reason.contains("has not answered within 10 s"), "{reason}");
    scene.assert_applied(400_000);
    assert!(!status().is_empty(), "the parser has ended");
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    wait_until("podnudge reaps the parser", || status().is_empty());
}

/// The check before it may end podnudge, and its content must not become what the application is assumed to
/// run.
#[test]
fn content_that_waits_for_the_check_of_another_rule_is_no_baseline_after_a_restart() {
    let mut scene = Scene::new(podnudge());
    let parser = scene.signal_the_parser(400_000, Signal::SIGSTOP);
    scene.other.write(&payload(&[("a.yaml", "1")]));
    wait_until("it is recorded", || {
        scene.folder.path().join("..podnudge-checks.other.json").exists()
    });
    scene.agent.kill();
    // Stopped, it does not notice that podnudge has ended.
    kill(Pid::from_raw(parser), Signal::SIGKILL).unwrap();
    scene.agent = start(scene.folder.path(), podnudge());
    wait_until("it is applied", || scene.applications[1].reloads() == ["1"]);
    assert_eq!(scene.agent.count("baseline"), 0);
}

/// Limits that are lower already, and that this uid may not raise.
#[test]
fn good_content_passes_within_lower_limits() {
    let mut limited = command("prlimit");
    limited.args(["--cpu=4:4", "--data=1000000000:1000000000", "setpriv", "--reuid=65532"]);
    limited.args(["--regid=65532", "--clear-groups", env!("CARGO_BIN_EXE_podnudge")]);
    let mut scene = Scene::new(limited);
    scene.checked.write(&payload(&[("a.yaml", &yaml(20_000))]));
    scene.assert_applied(20_000);
    assert_eq!(scene.agent.count("check-failed"), 0, "{}", scene.agent.log());
}
