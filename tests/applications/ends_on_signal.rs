//! Applications that end on the signal: one that always does, and one that does with broken content.

use crate::support::{
    Agent, Container, Payload, Scene, in_network, payload, wait_until, wait_until_old,
};

/// Starts a container that is started again when it ends, and podnudge.
fn start(scene: &mut Scene, program: &[&str]) -> (Container, Agent) {
    // Each start of a container has files of its own in /run.
    let fresh =
        ["unshare", "--mount", "sh", "-ec", "mount -t tmpfs tmpfs /run; exec \"$0\" \"$@\""];
    let application = scene.container(&[&fresh, program].concat(), "application.log");
    wait_until("it runs", || application.pid() > 1);
    let agent = scene.nudge(&["--process", program[0], "--signal", "HUP"]);
    (application, agent)
}

#[test]
fn chronyd_is_not_ended_a_second_time() {
    in_network!();
    let content = |version: usize| -> Payload {
        let text =
            format!("port 0\ncmdport 0\npidfile /run/chronyd-test.pid\nmaxdistance {version}\n");
        payload(&[("chrony.conf", &text)])
    };
    let mut scene = Scene::on_tmpfs("/etc/chrony", &content(1));
    let program = ["chronyd", "-x", "-d", "-f", "/etc/chrony/chrony.conf"];
    let (application, agent) = start(&mut scene, &program);
    wait_until_old(|| vec![application.pid()]);
    scene.kubelet.write(&content(2));
    agent.wait_for("tripped", 1);
    wait_until("it was started again", || application.ends() == 1 && application.pid() > 1);
    wait_until_old(|| vec![application.pid()]);
    for version in 3..=4 {
        scene.kubelet.write(&content(version));
        agent.wait_for("refused", version - 2);
        let reason = agent.last("refused", "reason");
        assert!(reason.starts_with("`chronyd` ends on SIGHUP: "), "{reason}");
        assert!(agent.last("refused", "hint").contains("set `restart`"));
    }
    assert_eq!((application.ends(), agent.count("sent")), (1, 1));
    let rule = agent.rule();
    assert_eq!(rule["in_sync"], "no", "{rule:#}");
}

/// The fix starts it, so the content has ended it, and not the signal.
#[test]
fn a_program_that_broken_content_has_ended_gets_its_signal_again() {
    in_network!();
    let mut scene = Scene::on_tmpfs("/etc/app", &payload(&[("app.conf", "1")]));
    let script = "check() { ! grep -q broken /etc/app/app.conf || exit 1; }; check; trap check HUP; \
                  while :; do sleep 0.1; done";
    let (application, agent) = start(&mut scene, &["dash", "-c", script]);
    wait_until_old(|| vec![application.pid()]);
    scene.change("broken");
    agent.wait_for("tripped", 1);
    scene.change("2");
    agent.wait_for("delivered|fresh|applied", 1);
    wait_until_old(|| vec![application.pid()]);
    let sent = agent.count("sent");
    scene.change("3");
    agent.wait_for("sent", sent + 1);
    assert_eq!(agent.count("refused"), 0, "{}", agent.log());
}
