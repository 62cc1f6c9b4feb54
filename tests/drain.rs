//! A drain with the real podnudge: `/serving`, the readiness probe, while an application is restarted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::http::ask;
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::pod::in_namespace;
use crate::support::program::{command, podnudge};
use crate::support::supervisor::Supervisor;
use crate::support::wait::wait_until;

const RUNS: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

/// Starts podnudge for the application of this folder, with its port on loopback.
fn start(folder: &Path, kubelet: &Kubelet, settings: &str, as_uid: Option<&str>) -> Agent {
    let (path, volume) = (folder.display(), kubelet.volume.display());
    let config = format!(
        "[agent]\nlog = \"json\"\nlisten = \"127.0.0.1:0\"\nwork-dir = \"{path}\"\n\
         [[rule]]\nwatch = \"{volume}\"\nsettle = \"0s\"\non-start = \"never\"\nretry = {{ first = \"50ms\", max = \"100ms\" }}\n\
         target = {{ cmdline = \"^(ba)?sh -c .* {path}$\" }}\nverify = {{ alive-for = \"200ms\" }}\n{settings}\n"
    );
    fs::write(folder.join("podnudge.toml"), config).unwrap();
    let mut binary = podnudge();
    binary.arg("--config").arg(folder.join("podnudge.toml"));
    let started = match as_uid {
        Some(uid) => {
            let mut setpriv = command("setpriv");
            setpriv.args([&format!("--reuid={uid}"), &format!("--regid={uid}")]);
            setpriv.arg("--clear-groups").arg(binary.get_program()).args(binary.get_args());
            setpriv
        }
        None => binary,
    };
    let agent = Agent::spawn(folder, started);
    agent.wait_for("baseline", 1);
    agent
}

fn is_serving(agent: &Agent) -> bool {
    let answer = ask(&agent.last("started", "listen"), "GET", "/serving");
    let is_ok = answer.starts_with("HTTP/1.1 200");
    assert!(is_ok || answer.starts_with("HTTP/1.1 503"), "{answer}");
    is_ok
}

#[test]
fn a_restart_follows_a_drain_and_the_pod_serves_again_after_it() {
    in_namespace(|| {
        let (folder, mut kubelet) = temporary_volume(&[("app.conf", "1")]);
        let application = Supervisor::start(folder.path(), RUNS);
        let settings = "restart = { grace = \"10s\" }\ndrain = { wait = \"1s\" }";
        let agent = start(folder.path(), &kubelet, settings, None);
        assert!(is_serving(&agent));
        for n in 1..=2 {
            kubelet.write(&payload(&[("app.conf", &format!("{n} and more"))]));
            agent.wait_for("draining", n);
            assert!(!is_serving(&agent) || agent.count("restarted") == n);
            assert!(agent.count("restarted") == n || application.starts() == n);
            agent.wait_for(ROLLED_OUT, n);
            assert_eq!((agent.count("restarted"), application.starts()), (n, n + 1));
            assert!(is_serving(&agent));
        }
    });
}

/// The first application answers with its status at its end, so the order is certain.
#[test]
fn the_application_ends_while_the_pod_is_out_of_its_services() {
    in_namespace(|| {
        let (folder, mut kubelet) = temporary_volume(&[("app.conf", "1")]);
        let seen = folder.path().join("seen");
        // The port is known only later.
        let script = format!(
            "trap 'exec 3<>/dev/tcp/127.0.0.1/$(cat {0}.port); echo GET /serving HTTP/1.0 >&3; echo >&3; head -n 1 <&3 >> {0}; exit 0' TERM; while :; do sleep 0.05; done",
            seen.display()
        );
        let script =
            format!("exec bash -c '{}' {}", script.replace('\'', "'\\''"), folder.path().display());
        let application = Supervisor::start(folder.path(), &script);
        let settings = "restart = { grace = \"10s\" }\ndrain = { wait = \"300ms\" }";
        let agent = start(folder.path(), &kubelet, settings, None);
        let port = agent.last("started", "listen");
        fs::write(seen.with_extension("port"), port.rsplit(':').next().unwrap()).unwrap();
        kubelet.write(&payload(&[("app.conf", "2")]));
        agent.wait_for(ROLLED_OUT, 1);
        assert_eq!(application.starts(), 2);
        let seen = fs::read_to_string(&seen).unwrap();
        assert!(seen.starts_with("HTTP/1.0 503") || seen.starts_with("HTTP/1.1 503"), "{seen}");
    });
}

/// Otherwise a wrong uid would take the pod out of its Services again and again.
#[test]
fn a_restart_that_is_not_permitted_causes_no_drain() {
    in_namespace(|| {
        let (folder, mut kubelet) = temporary_volume(&[("app.conf", "1")]);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let application = Supervisor::start(folder.path(), RUNS);
        let settings = "restart = {}\ndrain = { wait = \"1s\" }";
        let agent = start(folder.path(), &kubelet, settings, Some("65532"));
        kubelet.write(&payload(&[("app.conf", "2")]));
        agent.wait_for("refused", 1);
        // Some more attempts, at most 100 ms apart.
        let status = || ask(&agent.last("started", "listen"), "GET", "/status");
        wait_until("it has tried again", || status().contains("\"state\": \"refused\""));
        assert!(is_serving(&agent));
        assert_eq!((agent.count("draining"), application.starts()), (0, 1));
    });
}
