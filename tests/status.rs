//! `podnudge status` and `podnudge doctor` as people see them, as snapshots.
//!
//! The states are those of real processes and files, so that a snapshot shows what podnudge finds out and
//! not only how it is printed. Pids, times and paths are normalised, and so are runs of blanks: the
//! width of a column depends on the pids. The columns themselves, and the colours, are tested with a
//! constructed status (`the_table_…`), whose widths are fixed.

use std::fs;
use std::path::{Path, PathBuf};

use podnudge::admin::table;
use podnudge_core::shown::Colours;
use regex_lite::Regex;
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::application::Application;
use crate::support::http::ask;
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::pod::{Behaviour, Target};
use crate::support::program::{command, podnudge};
use crate::support::wait::wait_until;

/// A volume, a target that is named by its pidfile, and podnudge beside them.
struct Scene {
    folder: TempDir,
    kubelet: Kubelet,
    target: Target,
}

impl Scene {
    fn new(behaviour: Behaviour) -> Self {
        Self::with_program("app", behaviour)
    }

    fn with_program(name: &str, behaviour: Behaviour) -> Self {
        let (folder, kubelet) = temporary_volume(&[("a.json", "{\"version\": 1}")]);
        let target = Target::start(folder.path(), name, behaviour);
        fs::write(folder.path().join("app.pid"), target.pid().to_string()).unwrap();
        Self { folder, kubelet, target }
    }

    fn pidfile(&self) -> PathBuf {
        self.folder.path().join("app.pid")
    }

    /// Starts podnudge, which knows nothing about the content that the target runs.
    fn nudge(&self, arguments: &[&str]) -> Agent {
        let mut command = podnudge();
        command.args(["--log", "json", "--listen", "127.0.0.1:0", "--settle", "0s"]);
        command.args(["--on-start", "never", "--signal", "HUP"]);
        command.arg("--watch").arg(&self.kubelet.volume).arg("--pidfile").arg(self.pidfile());
        // The jitter depends on it.
        command.env("PODNUDGE_POD_UID", "1").args(arguments);
        let agent = Agent::spawn(self.folder.path(), command);
        agent.wait_for("baseline", 1);
        agent
    }

    fn change(&mut self) {
        self.kubelet.write(&payload(&[("a.json", "{\"version\": 2}")]));
    }
}

/// The output of a command of podnudge on standard output, with its exit code.
fn output(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    format!("{text}exit code {}\n", output.status.code().unwrap())
}

/// `podnudge status` for a running podnudge.
fn status(agent: &Agent) -> String {
    let url = format!("http://{}", agent.last("started", "listen"));
    output(podnudge().args(["status", "--url", &url]))
}

/// The text without what differs from run to run.
fn normalised(text: &str, folder: &Path) -> String {
    let mut text = text.replace(folder.to_str().unwrap(), "FOLDER");
    for (pattern, with) in [
        // The other processes of this machine.
        (r#"(others:? *|"others": ")\d[^\n"]*"#, "${1}OTHERS"),
        (r"\b\d+ \((\w+)\)", "PID ($1)"),
        (r"(pid|process) \d+", "$1 PID"),
        (r"in \d[\dhms ]*", "in TIME"),
        (r"(\S) {3,}", "$1  "),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

#[test]
fn the_status_of_a_rule_that_is_in_sync() {
    let mut scene = Scene::new(Behaviour::MasterReplacingWorker);
    let agent = scene.nudge(&["--children-newer"]);
    scene.change();
    agent.wait_for("applied", 1);
    insta::assert_snapshot!(normalised(&status(&agent), scene.folder.path()));
}

#[test]
fn the_status_of_a_rule_whose_signal_was_delivered() {
    let mut scene = Scene::new(Behaviour::Handles);
    let agent = scene.nudge(&[]);
    scene.change();
    agent.wait_for("delivered", 1);
    insta::assert_snapshot!(normalised(&status(&agent), scene.folder.path()));
}

#[test]
fn the_status_of_a_rule_whose_content_was_rejected() {
    let mut scene = Scene::new(Behaviour::MasterReplacingWorker);
    let check = "grep -q version a.json";
    let agent = scene.nudge(&["--children-newer", "--check-exec", check]);
    scene.change();
    agent.wait_for("applied", 1);
    scene.kubelet.write(&payload(&[("a.json", "broken")]));
    agent.wait_for("rejected", 1);
    insta::assert_snapshot!(normalised(&status(&agent), scene.folder.path()));
}

/// A process chooses its name itself. It is escaped in each output, and not only on a terminal.
#[test]
fn the_name_of_a_process_is_escaped_wherever_it_is_shown() {
    let name = "a\u{1b}[2J\n\"'\u{202e}";
    let mut scene = Scene::with_program(name, Behaviour::Handles);
    let agent = scene.nudge(&[]);
    scene.change();
    agent.wait_for("delivered", 1);
    let address = agent.last("started", "listen");
    let body = |path: &str| {
        let answer = ask(&address, "GET", path);
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let doctor = podnudge()
        .args(["doctor", "--signal", "HUP", "--watch"])
        .arg(&scene.kubelet.volume)
        .arg("--pidfile")
        .arg(scene.pidfile())
        .output()
        .unwrap();
    let shown = [
        ("/status", body("/status")),
        ("/metrics", body("/metrics")),
        ("the log", agent.log()),
        ("podnudge status", status(&agent)),
        ("podnudge doctor", String::from_utf8(doctor.stdout).unwrap()),
    ];
    for (place, text) in shown {
        let raw = |c: char| (c != '\n' && c.is_control()) || c == '\u{202e}';
        assert!(!text.contains(raw), "{place}: {text:?}");
        if place != "/metrics" {
            assert!(text.contains("u{1b}[2J"), "{place}: {text}");
        }
        assert!(!text.lines().any(|line| line.starts_with(['"', '\''])), "{place}: {text}");
    }
}

#[test]
fn the_status_of_a_rule_that_waits() {
    let mut scene = Scene::new(Behaviour::Handles);
    let agent = scene.nudge(&["--jitter", "1h"]);
    scene.change();
    agent.wait_for("scheduled", 1);
    insta::assert_snapshot!(normalised(&status(&agent), scene.folder.path()));
}

#[test]
fn the_status_of_a_rule_that_has_tripped() {
    let mut scene = Scene::new(Behaviour::Dies);
    let agent = scene.nudge(&[]);
    scene.change();
    // The target must be reaped to have ended.
    wait_until("the target has ended", || !scene.target.is_running());
    agent.wait_for("tripped", 1);
    insta::assert_snapshot!(normalised(&status(&agent), scene.folder.path()));
}

#[test]
fn the_status_of_a_rule_with_a_problem() {
    let scene = Scene::new(Behaviour::Handles);
    let agent = scene.nudge(&["--check-exec", "nginxx -t"]);
    agent.wait_for("preflight", 1);
    insta::assert_snapshot!(normalised(&status(&agent), scene.folder.path()));
}

fn doctor(scene: &Scene, arguments: &[&str]) -> String {
    let mut command = podnudge();
    command.args(["doctor", "--signal", "HUP", "--pidfile"]).arg(scene.pidfile()).args(arguments);
    normalised(&output(&mut command), scene.folder.path())
}

#[test]
fn the_doctor_prints_a_finding_for_people_and_for_programs() {
    let scene = Scene::new(Behaviour::Handles);
    let volume = scene.kubelet.volume.to_str().unwrap();
    let missing = scene.folder.path().join("missing");
    let ill = ["--watch", missing.to_str().unwrap(), "--check-exec", "nginxx -t"];
    insta::assert_snapshot!("doctor_healthy", doctor(&scene, &["--watch", volume]));
    let json = doctor(&scene, &["--watch", volume, "--json"]);
    insta::assert_snapshot!("doctor_healthy_json", json);
    insta::assert_snapshot!("doctor_ill", doctor(&scene, &ill));
    insta::assert_snapshot!("doctor_ill_json", doctor(&scene, &[&ill[..], &["--json"]].concat()));
}

/// Three rules: in sync, waiting for a trigger with other content applied before, and with long names.
const CONSTRUCTED: &str = r#"{"now": 100, "rules": [
    {"name": "web", "state": "idle", "in_sync": "yes", "evidence": "verified",
     "proof": "children-newer", "targets": [{"pid": 41, "name": "nginx"}],
     "digest_on_disk": "5416b935d2db00", "digest_applied": "5416b935d2db00"},
    {"name": "api", "state": "tripped", "in_sync": "no", "evidence": "none", "proof": "none",
     "targets": [], "digest_on_disk": "5416b935d2db00", "digest_applied": "0123456789abcdef",
     "reason": {"message": "process 52 (api) ended", "hint": "look at its log"}},
    {"name": "workers", "state": "waiting", "in_sync": "unknown", "evidence": "read-at-start",
     "proof": "http+socket", "targets": [{"pid": 7, "name": "a"}, {"pid": 8, "name": "b"}],
     "next_action_at": 4723.5,
     "preflight": [{"problem": "unchecked", "reason": {"message": "first line\nsecond line"}}]}
]}"#;

#[test]
fn the_table_has_columns_and_fits_into_100_characters() {
    let (text, in_sync) = table::render(CONSTRUCTED, Colours::Off).unwrap();
    assert!(!in_sync);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn the_table_has_the_same_columns_in_colour() {
    let (plain, _) = table::render(CONSTRUCTED, Colours::Off).unwrap();
    let (coloured, _) = table::render(CONSTRUCTED, Colours::On).unwrap();
    let escapes = Regex::new("\u{1b}\\[[0-9]+m").unwrap();
    assert_eq!(escapes.replace_all(&coloured, ""), plain);
    for part in ["\u{1b}[32myes\u{1b}[0m", "\u{1b}[31mno\u{1b}[0m", "\u{1b}[31mtripped\u{1b}[0m"] {
        assert!(coloured.contains(part), "{coloured:?}");
    }
}

/// The status of an older podnudge has no proof and no target.
#[test]
fn the_table_of_a_status_without_newer_fields() {
    let json = r#"{"now": 1, "rules": [{"name": "app", "state": "idle", "in_sync": "yes",
                   "evidence": "accepted"}]}"#;
    let (text, in_sync) = table::render(json, Colours::Off).unwrap();
    assert!(in_sync && text.ends_with("accepted  -      -       -        -\n"), "{text}");
}

/// Runs `podnudge status` on a terminal.
fn on_terminal(agent: &Agent, variables: &[(&str, &str)]) -> String {
    let url = format!("http://{}", agent.last("started", "listen"));
    let line = format!("{} status --url {url}", env!("CARGO_BIN_EXE_podnudge"));
    let mut command = command("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let output = command.env("TERM", "xterm").envs(variables.iter().copied()).output();
    let output = output.expect("script is installed (package bsdutils)");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_status_is_coloured_on_a_terminal_only_and_unless_it_is_unwanted() {
    let (folder, kubelet) = temporary_volume(&[("a.conf", "1")]);
    let application = Application::start(&kubelet.volume, "a.conf");
    let mut command = podnudge();
    command.args(["--log", "json", "--listen", "127.0.0.1:0", "--on-start", "never", "--url"]);
    command.arg(application.url()).arg("--watch").arg(&kubelet.volume);
    let agent = Agent::spawn(folder.path(), command);
    agent.wait_for("baseline", 1);
    let has_colour = |text: &str| text.contains("\u{1b}[");
    assert!(has_colour(&on_terminal(&agent, &[])));
    assert!(has_colour(&on_terminal(&agent, &[("NO_COLOR", "")])));
    for refusal in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_terminal(&agent, &[refusal]);
        assert!(text.contains("RULE") && !has_colour(&text), "{refusal:?}: {text:?}");
    }
    assert!(!has_colour(&status(&agent)));
    // The log, too.
    assert!(!has_colour(&agent.log()));
    assert!(
        ask(&agent.last("started", "listen"), "GET", "/status").contains("\"proof\": \"none\"")
    );
}
