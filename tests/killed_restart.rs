//! Restarts of real processes that last longer than the podnudge that has begun them, and what the kubelet makes of them.

use serde_json::Value;

use crate::support::{ROLLED_OUT, Scene, SharedPod, in_namespace, wait_until_commit_is_past};

/// The real binary, killed between the end of the target and the proof.
#[test]
fn a_killed_podnudge_verifies_the_restart_that_it_had_begun_and_keeps_the_budget() {
    in_namespace!();
    let mut scene = Scene::with(&[("app.conf", "1")]);
    wait_until_commit_is_past(&scene.kubelet.volume);
    let application = scene.supervised("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let text = "agent = { state-dir = \"FOLDER/state\" }\n[[rule]]\nwatch = \"FOLDER/volume\"\n\
                settle = \"0s\"\nmin-interval = \"0s\"\nrestart = { most = 1, within = \"1h\" }\n\
                target = { cmdline = \"^sh -c .* FOLDER$\" }\n\
                verify = { alive-for = \"0s\", exec = [\"test\", \"-e\", \"FOLDER/proof\"] }\n";
    let mut agent = scene.configured(text);
    scene.change("2");
    agent.wait_for("restarted", 1);
    agent.kill();
    let again = scene.configured(text);
    again.wait_for("fresh", 1);
    scene.write("proof", "");
    again.wait_for("applied", 1);
    assert_eq!(again.last("applied", "evidence"), "verified");
    assert_eq!((again.count("restarted"), application.starts()), (0, 2), "{}", again.log());
    scene.change("3");
    again.wait_for("held", 1);
    assert_eq!(application.starts(), 2, "{}", again.log());
}

/// The main process of a container has no parent in the pod: the kubelet starts it again.
#[test]
fn the_expected_delay_of_the_kubelet_is_said_for_the_main_process_of_a_container() {
    let mut scene = Scene::new();
    wait_until_commit_is_past(&scene.kubelet.volume);
    let pod = SharedPod::start(scene.folder.path());
    let folder = scene.folder.path().to_owned();
    let start_application = || {
        let script = "cat \"$0\"/*/..data/*; trap 'exit 0' TERM; while :; do sleep 0.05; done";
        pod.container('b').args(["sh", "-c", script]).arg(&folder).spawn().unwrap()
    };
    let mut application = start_application();
    let mut podnudge = pod.container('a');
    podnudge.arg(env!("CARGO_BIN_EXE_podnudge")).args(["--log", "json", "--listen", "off"]);
    podnudge.args(["--restart", "--min-interval", "0s", "--alive-for", "50ms"]);
    let options = ["--on-start", "if-newer", "--cmdline", "^sh -c .* FOLDER$"];
    let agent = scene.nudge_by(podnudge, &options);
    agent.wait_for("baseline", 1);
    for n in 1..=2 {
        scene.change(&format!("content {n}"));
        agent.wait_for("restarted", n);
        application.wait().unwrap();
        application = start_application();
        agent.wait_for(ROLLED_OUT, n);
    }
    let waits: Vec<_> = agent.events("restarted").iter().map(|line| line["wait"].clone()).collect();
    let reason = agent.last("restarted", "reason");
    assert_eq!(waits, [Value::Null, 10.0.into()], "{}", agent.log());
    assert!(reason.contains("about 10s") && reason.contains("ended once before"), "{reason}");
    drop(agent);
    drop(pod);
    application.wait().unwrap();
}
