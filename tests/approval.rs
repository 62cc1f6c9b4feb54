//! Approval before checks, with the real binary: a checker that leaves a mark runs only on what a person
//! has approved.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::agent::Agent;
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::program::podnudge;
use crate::support::wait::wait_until;

/// A volume, and a rule that publishes it after a check by a program, which keeps what it was given.
struct Scene {
    folder: tempfile::TempDir,
    kubelet: Kubelet,
}

impl Scene {
    fn new(hold: &str) -> Self {
        Self::with(hold, "[rule.publish]\ndir = \"FOLDER/published\"\n")
    }

    /// The action reads what is published, or the volume.
    fn with(hold: &str, publish: &str) -> Self {
        let (folder, kubelet) = temporary_volume(&[("a.conf", "first")]);
        let volume = kubelet.volume.display().to_string();
        let read = if publish.is_empty() { &volume } else { "FOLDER/published" };
        let config = format!(
            "agent = {{ log = \"json\", listen = \"off\", work-dir = \"FOLDER\" }}\n[[rule]]\nname = \"web\"\n\
             watch = \"{}\"\nsettle = \"0s\"\nhold = {{ approve-before = \"{hold}\" }}\n\
             [[rule.check]]\nexec = [\"sh\", \"-c\", \"cat a.conf >> FOLDER/checked; echo >> FOLDER/checked\"]\n\
             {publish}[rule.exec]\nargv = [\"sh\", \"-c\", \"cat {read}/a.conf >> FOLDER/loaded; echo >> FOLDER/loaded\"]\n",
            kubelet.volume.display()
        );
        let config = config.replace("FOLDER", folder.path().to_str().unwrap());
        fs::write(folder.path().join("podnudge.toml"), config).unwrap();
        fs::create_dir(folder.path().join("published")).unwrap();
        Self { folder, kubelet }
    }

    fn start(&self) -> Agent {
        let mut command = podnudge();
        command.arg("--config").arg(self.folder.path().join("podnudge.toml"));
        Agent::spawn(self.folder.path(), command)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_checker_gets_nothing_before_a_person_has_approved_it() {
    let mut scene = Scene::new("check");
    let agent = scene.start();
    // Also the first content, which the application needs to start.
    agent.wait_for("held", 1);
    let reason = agent.last("held", "reason");
    assert_eq!(reason, "the rule waits for an approval before its checks");
    assert_eq!(scene.lines("checked"), [""; 0]);
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 1);

    scene.kubelet.write(&payload(&[("a.conf", "second")]));
    agent.wait_for("held", 2);
    scene.kubelet.write(&payload(&[("a.conf", "third")]));
    agent.wait_for("changed", 2);
    assert_eq!(scene.lines("checked"), ["first"]);
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 2);
    assert_eq!(scene.lines("checked"), ["first", "third"]);
    assert_eq!(scene.lines("loaded"), ["first", "third"]);
}

/// Without a state directory podnudge does not know what the application runs, and `on-start` decides; but
/// not that it runs what nobody has approved.
#[test]
fn content_that_waits_for_an_approval_is_no_baseline_after_a_restart() {
    let mut scene = Scene::with("check", "");
    let record = scene.folder.path().join("..podnudge-checks.web.json");
    let mut agent = scene.start();
    agent.wait_for("baseline", 1);
    scene.kubelet.write(&payload(&[("a.conf", "second")]));
    agent.wait_for("held", 1);
    wait_until("it is recorded", || record.exists());
    agent.kill();
    let agent = scene.start();
    agent.wait_for("held", 1);
    assert_eq!(agent.stop().code(), Some(0));
    let agent = scene.start();
    agent.wait_for("held", 1);
    assert_eq!((agent.count("baseline"), scene.lines("checked").len()), (0, 0));
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 1);
    assert_eq!(
        (scene.lines("checked"), scene.lines("loaded")),
        (vec!["second".to_owned()], vec!["second".to_owned()])
    );
    assert!(!record.exists());
}

#[test]
fn approval_before_the_rollout_shows_a_person_what_has_passed() {
    let mut scene = Scene::new("rollout");
    let agent = scene.start();
    agent.wait_for("applied", 1);
    scene.kubelet.write(&payload(&[("a.conf", "second")]));
    agent.wait_for("held", 1);
    assert_eq!(agent.last("held", "reason"), "the rule waits for an approval");
    assert_eq!((scene.lines("checked").len(), scene.lines("loaded").len()), (2, 1));
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 2);
}

/// In an init container, where nobody can approve anything.
#[test]
fn once_does_not_check_what_needs_an_approval() {
    let scene = Scene::new("check");
    let once = || {
        let mut command = podnudge();
        command.args(["once", "--wait", "0s", "--config"]);
        let output = command.arg(scene.folder.path().join("podnudge.toml")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = once();
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("needs an approval before its checks"), "{said}");
    assert_eq!(scene.lines("checked"), [""; 0]);
    // What was approved and verified is good, and is checked as ever.
    let agent = scene.start();
    agent.wait_for("held", 1);
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 1);
    assert!(agent.stop().success());
    let (code, said) = once();
    assert_eq!(code, Some(0), "{said}");
}
