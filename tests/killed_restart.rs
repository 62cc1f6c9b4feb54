//! Restarts of real processes that last longer than the podnudge that has begun them, and what the kubelet makes of them.

use std::fs;

use serde_json::Value;

use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::kubelet::{payload, temporary_volume};
use crate::support::pod::in_namespace;
use crate::support::shared::SharedPod;
use crate::support::supervisor::Supervisor;
use crate::support::wait::wait_until_commit_is_past;

/// The real binary, killed between the end of the target and the proof.
#[test]
fn a_killed_podnudge_verifies_the_restart_that_it_had_begun_and_keeps_the_budget() {
    in_namespace(|| {
        let (folder, mut kubelet) = temporary_volume(&[("app.conf", "1")]);
        wait_until_commit_is_past(&kubelet.volume);
        let application =
            Supervisor::start(folder.path(), "trap 'exit 0' TERM; while :; do sleep 0.05; done");
        let config = folder.path().join("podnudge.toml");
        let text = "agent = { state-dir = \"FOLDER/state\" }\n[[rule]]\nwatch = \"FOLDER/volume\"\n\
                    settle = \"0s\"\nmin-interval = \"0s\"\nrestart = { most = 1, within = \"1h\" }\n\
                    target = { cmdline = \"^sh -c .* FOLDER$\" }\n\
                    verify = { alive-for = \"0s\", exec = [\"test\", \"-e\", \"FOLDER/proof\"] }\n";
        let text = text.replace("FOLDER", &folder.path().display().to_string());
        fs::write(&config, text).unwrap();
        let start = || Agent::start(folder.path(), &["--config", config.to_str().unwrap()]);
        let mut agent = start();
        kubelet.write(&payload(&[("app.conf", "2")]));
        agent.wait_for("restarted", 1);
        agent.kill();
        let again = start();
        again.wait_for("fresh", 1);
        fs::write(folder.path().join("proof"), "").unwrap();
        again.wait_for("applied", 1);
        assert_eq!(again.last("applied", "evidence"), "verified");
        assert_eq!((again.count("restarted"), application.starts()), (0, 2), "{}", again.log());
        kubelet.write(&payload(&[("app.conf", "3")]));
        again.wait_for("held", 1);
        assert_eq!(application.starts(), 2, "{}", again.log());
    });
}

/// The main process of a container has no parent in the pod: the kubelet starts it again.
#[test]
fn the_expected_delay_of_the_kubelet_is_said_for_the_main_process_of_a_container() {
    let (folder, mut kubelet) = temporary_volume(&[("a.conf", "1")]);
    wait_until_commit_is_past(&kubelet.volume);
    let pod = SharedPod::start(folder.path());
    let start_application = || {
        let mut command = pod.container('b');
        command.args([
            "sh",
            "-c",
            "cat \"$0\"/*/..data/*; trap 'exit 0' TERM; while :; do sleep 0.05; done",
        ]);
        command.arg(folder.path()).spawn().unwrap()
    };
    let mut application = start_application();
    let mut command = pod.container('a');
    command.arg(env!("CARGO_BIN_EXE_podnudge")).args(["--log", "json", "--listen", "off"]);
    let cmdline = format!("^sh -c .* {}$", folder.path().display());
    command.args(["--settle", "0s", "--restart", "--min-interval", "0s", "--alive-for", "50ms"]);
    command.args(["--cmdline", &cmdline, "--watch"]).arg(&kubelet.volume);
    let agent = Agent::spawn(folder.path(), command);
    agent.wait_for("baseline", 1);
    for n in 1..=2 {
        kubelet.write(&payload(&[("a.conf", &format!("content {n}"))]));
        agent.wait_for("restarted", n);
        application.wait().unwrap();
        application = start_application();
        agent.wait_for(ROLLED_OUT, n);
    }
    let waits: Vec<_> = agent.events("restarted").iter().map(|line| line["wait"].clone()).collect();
    let reason = agent.last("restarted", "reason");
    assert_eq!(waits, [Value::Null, "10s".into()], "{}", agent.log());
    assert!(reason.contains("about 10s") && reason.contains("ended once before"), "{reason}");
    drop(agent);
    drop(pod);
    application.wait().unwrap();
}
