//! The preflight: mistakes in the pod's spec or in the configuration are reported at the start, before
//! the first change.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::http::ask;
use crate::support::kubelet::{Kubelet, payload};
use crate::support::pod::{Behaviour, Target, in_namespace};
use crate::support::program::{command, podnudge};
use crate::support::wait::{is_within, wait_until};

/// A mistake is reported within this time of the start.
const AT_START: Duration = Duration::from_secs(2);

fn scene() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    kubelet.write(&payload(&[("a.conf", "1")]));
    folder
}

/// Starts podnudge for the volume of the scene, with a resync each second.
fn start(folder: &Path, arguments: &[&str]) -> Agent {
    let mut command = podnudge();
    command.args(["--log", "json", "--listen", "127.0.0.1:0", "--resync", "1s"]);
    command.args(["--on-start", "never", "--watch"]).arg(folder.join("volume")).args(arguments);
    let agent = Agent::spawn(folder, command);
    agent.wait_for("baseline", 1);
    agent
}

/// One problem of this kind is reported at the start, and not again. Its reason and hint contain these
/// parts.
fn assert_reported(agent: &Agent, problem: &str, parts: &[&str]) {
    let is_reported = || agent.count("preflight") > 0;
    assert!(is_within(AT_START, is_reported), "{}", agent.log());
    assert_eq!(agent.last("preflight", "problem"), problem);
    let explanation = agent.last("preflight", "reason") + "; " + &agent.last("preflight", "hint");
    for part in parts {
        assert!(explanation.contains(part), "`{part}` is not in: {explanation}");
    }
    let address = agent.last("started", "listen");
    let metric = format!("podnudge_preflight_problem{{rule=\"default\",problem=\"{problem}\"}} 1");
    assert!(ask(&address, "GET", "/metrics").contains(&metric));
    let url = format!("http://{address}");
    let output = podnudge().args(["status", "--url", &url]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("\n  problem: "), "{table}");
    // At least two resyncs find it again.
    let is_gone = || !ask(&address, "GET", "/status").contains("\"preflight\"");
    assert!(!is_within(Duration::from_secs(3), is_gone), "{}", agent.log());
    assert_eq!(agent.count("preflight"), 1, "{}", agent.log());
}

/// All targets are older than 10 s: a younger one may still install its handler.
#[test]
fn mistakes_about_the_target_are_reported_at_the_start() {
    in_namespace(|| {
        let folder = scene();
        let _ignores = Target::start_by(folder.path(), "ignores", Behaviour::Ignores, |program| {
            let mut shell = command("sh");
            shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(program);
            shell
        });
        let targets = [
            ("nginx", Behaviour::Handles),
            ("default", Behaviour::Default),
            ("twice", Behaviour::Handles),
            ("twice", Behaviour::Handles),
        ];
        let running = targets.map(|(name, does)| Target::start(folder.path(), name, does));
        let youngest = Path::new("/proc").join(running[3].pid().to_string());
        let is_old = || youngest.metadata().unwrap().modified().unwrap().elapsed().unwrap();
        wait_until("all targets are old enough", || is_old() > Duration::from_secs(11));
        for (name, problem, parts) in [
            ("ngnix", "target-not-found", ["no process is named `ngnix`", "did you mean `nginx`?"]),
            ("ignores", "signal-not-handled", ["ignores SIGHUP", "signal on which"]),
            ("default", "signal-not-handled", ["does not handle SIGHUP", "it would end"]),
            ("twice", "target-ambiguous", ["several processes match", "all = true"]),
        ] {
            let agent = start(folder.path(), &["--process", name, "--signal", "HUP"]);
            assert_reported(&agent, problem, &parts);
        }
        let agent = start(folder.path(), &["--process", "nginx", "--signal", "HUP"]);
        agent.wait_for("baseline", 1);
        assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
    });
}

#[test]
fn a_missing_program_is_reported_at_the_start() {
    let folder = scene();
    let url = ["--url", "http://127.0.0.1:1/reload"];
    for program in ["nginxx", "/opt/app/check"] {
        let checked = [&url[..], &["--check-exec", program]].concat();
        let agent = start(folder.path(), &checked);
        let parts = [program, "does not exist in podnudge's container", "podnudge install"];
        assert_reported(&agent, "program-missing", &parts);
    }
    let agent = start(folder.path(), &[&url[..], &["--check-exec", "true"]].concat());
    assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
}

#[test]
fn a_process_namespace_that_is_not_shared_is_reported_at_the_start() {
    let folder = scene();
    let mut command = command("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(env!("CARGO_BIN_EXE_podnudge")).args(["--log", "json", "--listen", "off"]);
    command.args(["--on-start", "never", "--signal", "HUP", "--process", "app", "--watch"]);
    command.arg(folder.path().join("volume"));
    let agent = Agent::spawn(folder.path(), command);
    agent.wait_for("preflight", 1);
    assert_eq!(agent.last("preflight", "problem"), "namespace-not-shared");
    assert!(agent.last("preflight", "hint").contains("shareProcessNamespace: true"));
}

#[test]
fn a_problem_that_was_fixed_is_reported_as_solved() {
    in_namespace(|| {
        let folder = scene();
        let _other = Target::start(folder.path(), "other", Behaviour::Handles);
        let agent = start(folder.path(), &["--process", "app", "--signal", "HUP"]);
        agent.wait_for("preflight", 1);
        let _target = Target::start(folder.path(), "app", Behaviour::Handles);
        agent.wait_for("preflight-solved", 1);
        assert_eq!(agent.last("preflight-solved", "problem"), "target-not-found");
    });
}

/// `podnudge doctor` finds the same, once, and its exit code says whether there is something.
#[test]
fn the_doctor_finds_mistakes_without_acting() {
    in_namespace(|| {
        let folder = scene();
        let nginx = Target::start(folder.path(), "nginx", Behaviour::Handles);
        let app = Target::start(folder.path(), "myapp", Behaviour::Handles);
        let file = Path::new("/proc").join(app.pid().to_string());
        let age = || file.metadata().unwrap().modified().unwrap().elapsed().unwrap();
        wait_until("the targets are old enough", || age() > Duration::from_secs(3));
        let doctor = |volume: &str, arguments: &[&str]| {
            let mut command = podnudge();
            command.arg("doctor").arg("--watch").arg(folder.path().join(volume)).args(arguments);
            let output = command.output().unwrap();
            assert_eq!(output.stderr, b"");
            (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
        };
        let healthy = doctor("volume", &["--process", "nginx"]);
        let wanted = format!(
            "default:   nothing is wrong\n  action:  signal (preset nginx)\n  target:  {} (nginx)\n",
            nginx.pid()
        );
        assert_eq!(healthy, (0, wanted));
        for (volume, arguments, parts) in [
            (
                "volume",
                &["--process", "ngnix", "--signal", "HUP"][..],
                &["did you mean `nginx`?"][..],
            ),
            ("volume", &["--process", "myapp"], &["how `myapp` reloads", "`--signal HUP`"]),
            ("volme", &["--process", "nginx"], &["nothing exists at the watched path"]),
            (
                "volume",
                &["--process", "nginx", "--check-exec", "nginxx -t"],
                &["the program `nginxx` does not exist", "podnudge install"],
            ),
        ] {
            let (exit, text) = doctor(volume, arguments);
            assert_eq!(exit, 1, "{text}");
            assert!(text.starts_with("default:   something is wrong\n"), "{text}");
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        let (exit, json) = doctor("volume", &["--process", "myapp", "--json"]);
        let findings: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((exit, &findings[0]["problems"][0]["problem"]), (1, &"no-preset".into()));
        assert_eq!((nginx.signals(), app.signals()), (0, 0));
    });
}
