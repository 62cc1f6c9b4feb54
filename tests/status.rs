//! `podnudge status` and `podnudge doctor` as people see them, as snapshots.
//!
//! The states are those of real processes and files, so that a snapshot shows what podnudge finds out and
//! not only how it is printed. Pids, times and paths are normalised, and so are runs of blanks: the
//! width of a column depends on the pids. The columns themselves, and the colours, are tested with a
//! constructed status (`the_table_…`), whose widths are fixed.

use std::fs;
use std::path::Path;

use podnudge::admin::status_table::{self, Columns};
use podnudge_core::shown::Colours;
use regex_lite::Regex;

use crate::support::{Agent, Behaviour, Scene, Target, command, podnudge, wait_until};

/// A volume, and a target that is named by its pidfile.
fn start(name: &str, behaviour: Behaviour) -> (Scene, Target) {
    let scene = Scene::with(&[("a.json", "{\"version\": 1}")]);
    let target = scene.target(name, behaviour);
    scene.write("app.pid", &target.pid().to_string());
    (scene, target)
}

/// Starts podnudge, which knows nothing about the content that the target runs.
fn nudge(scene: &Scene, arguments: &[&str]) -> Agent {
    let mut podnudge = scene.podnudge();
    // The jitter depends on it.
    podnudge.env("PODNUDGE_POD_UID", "1");
    // In `/tmp`, the podnudges of other tests remove the copies of a rule with this name.
    fs::create_dir(scene.path("work")).unwrap();
    let work = scene.filled("[agent]\nwork-dir = \"FOLDER/work\"\n[[rule]]\nname = \"default\"\n");
    scene.write("work.toml", &work);
    let options =
        ["--config", "FOLDER/work.toml", "--signal", "HUP", "--pidfile", "FOLDER/app.pid"];
    scene.nudge_by(podnudge, &[&options, arguments].concat())
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

/// What `podnudge status` shows, without what differs from run to run.
fn shown(scene: &Scene, agent: &Agent) -> String {
    normalised(&status(agent), scene.folder.path())
}

/// The text without what differs from run to run.
fn normalised(text: &str, folder: &Path) -> String {
    let mut text = text.replace(folder.to_str().unwrap(), "FOLDER");
    for (pattern, with) in [
        // The other processes of this machine, whose names may have quotes.
        (r#"("others": ")\d(?:[^"\\]|\\.)*"#, "${1}OTHERS"),
        (r"(others: +)\d.*", "${1}OTHERS"),
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
    let (mut scene, _target) = start("app", Behaviour::MasterReplacingWorker);
    let agent = nudge(&scene, &["--children-newer"]);
    scene.change("{\"version\": 2}");
    agent.wait_for("applied", 1);
    insta::assert_snapshot!(shown(&scene, &agent));
}

#[test]
fn the_status_of_a_rule_whose_signal_was_delivered() {
    let (mut scene, _target) = start("app", Behaviour::Handles);
    let agent = nudge(&scene, &[]);
    scene.change("{\"version\": 2}");
    agent.wait_for("delivered", 1);
    insta::assert_snapshot!(shown(&scene, &agent));
}

#[test]
fn the_status_of_a_rule_whose_content_was_rejected() {
    let (mut scene, _target) = start("app", Behaviour::MasterReplacingWorker);
    let check = "grep -q version a.json";
    let agent = nudge(&scene, &["--children-newer", "--check-exec", check]);
    scene.change("{\"version\": 2}");
    agent.wait_for("applied", 1);
    scene.change("broken");
    agent.wait_for("rejected", 1);
    insta::assert_snapshot!(shown(&scene, &agent));
}

/// A process chooses its name itself. It is escaped in each output, and not only on a terminal.
#[test]
fn the_name_of_a_process_is_escaped_wherever_it_is_shown() {
    let name = "a\u{1b}[2J\n\"'\u{202e}";
    let (mut scene, _target) = start(name, Behaviour::Handles);
    let agent = nudge(&scene, &[]);
    scene.change("{\"version\": 2}");
    agent.wait_for("delivered", 1);
    let doctor = podnudge()
        .args(["doctor", "--signal", "HUP", "--watch"])
        .arg(&scene.kubelet.volume)
        .arg("--pidfile")
        .arg(scene.path("app.pid"))
        .output()
        .unwrap();
    let shown = [
        ("/status", agent.get("/status")),
        ("/metrics", agent.get("/metrics")),
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
    let (mut scene, _target) = start("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--jitter", "1h"]);
    scene.change("{\"version\": 2}");
    agent.wait_for("scheduled", 1);
    insta::assert_snapshot!(shown(&scene, &agent));
}

#[test]
fn the_status_of_a_rule_that_has_tripped() {
    let (mut scene, mut target) = start("app", Behaviour::Dies);
    let agent = nudge(&scene, &[]);
    scene.change("{\"version\": 2}");
    // The target must be reaped to have ended.
    wait_until("the target has ended", || !target.is_running());
    agent.wait_for("tripped", 1);
    insta::assert_snapshot!(shown(&scene, &agent));
}

#[test]
fn the_status_of_a_rule_with_a_problem() {
    let (scene, _target) = start("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--check-exec", "nginxx -t"]);
    agent.wait_for("preflight", 1);
    insta::assert_snapshot!(shown(&scene, &agent));
}

fn doctor(scene: &Scene, arguments: &[&str]) -> String {
    let mut command = podnudge();
    command
        .args(["doctor", "--signal", "HUP", "--pidfile"])
        .arg(scene.path("app.pid"))
        .args(arguments);
    normalised(&output(&mut command), scene.folder.path())
}

#[test]
fn the_doctor_prints_a_finding_for_people_and_for_programs() {
    let (scene, _target) = start("app", Behaviour::Handles);
    let volume = scene.kubelet.volume.to_str().unwrap();
    let missing = scene.path("missing");
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
    let (text, in_sync) = status_table::render(CONSTRUCTED, Columns::Most, Colours::Off).unwrap();
    assert!(!in_sync);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn the_table_has_the_same_columns_in_colour() {
    let (plain, _) = status_table::render(CONSTRUCTED, Columns::Most, Colours::Off).unwrap();
    let (coloured, _) = status_table::render(CONSTRUCTED, Columns::Most, Colours::On).unwrap();
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
    let (text, in_sync) = status_table::render(json, Columns::Most, Colours::Off).unwrap();
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
    let scene = Scene::new();
    let agent = scene.nudge(&["--url", &scene.application().url()]);
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
    assert!(agent.get("/status").contains("\"proof\": \"none\""));
}
