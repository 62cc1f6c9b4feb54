//! Approval before checks, with the real binary: a checker that leaves a mark runs only on what a person
//! has approved.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Agent, Scene, podnudge, wait_until};

/// The part of a configuration that publishes.
const PUBLISH: &str = "[rule.publish]\ndir = \"FOLDER/published\"\n";

/// A volume, and a rule that publishes it after a check by a program, which keeps what it was given. The action reads
/// what is published, or the volume.
fn start(hold: &str, publish: &str) -> Scene {
    let scene = Scene::with(&[("a.conf", "first")]);
    let read = if publish.is_empty() { "volume" } else { "published" };
    let config = format!(
        "agent = {{ work-dir = \"FOLDER\" }}\n[[rule]]\nname = \"web\"\n\
         watch = \"FOLDER/volume\"\nsettle = \"0s\"\nhold = {{ approve-before = \"{hold}\" }}\n\
         [[rule.check]]\nexec = [\"sh\", \"-c\", \"cat a.conf >> FOLDER/checked; echo >> FOLDER/checked\"]\n\
         {publish}[rule.exec]\nargv = [\"sh\", \"-c\", \"cat FOLDER/{read}/a.conf >> FOLDER/loaded; echo >> FOLDER/loaded\"]\n",
    );
    scene.write("podnudge.toml", &config);
    fs::create_dir(scene.path("published")).unwrap();
    scene
}

/// Starts podnudge, and waits for this event.
fn nudge(scene: &Scene, first: &str) -> Agent {
    let mut podnudge = scene.podnudge();
    podnudge.arg("--config").arg(scene.path("podnudge.toml"));
    scene.start(podnudge, first)
}

fn lines(scene: &Scene, name: &str) -> Vec<String> {
    scene.text(name).lines().map(str::to_owned).collect()
}

#[test]
fn a_checker_gets_nothing_before_a_person_has_approved_it() {
    let mut scene = start("check", PUBLISH);
    let agent = nudge(&scene, "held");
    // Also the first content, which the application needs to start.
    let reason = agent.last("held", "reason");
    assert_eq!(reason, "the rule waits for an approval before its checks");
    assert_eq!(lines(&scene, "checked"), [""; 0]);
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 1);

    scene.change("second");
    agent.wait_for("held", 2);
    scene.change("third");
    agent.wait_for("changed", 2);
    assert_eq!(lines(&scene, "checked"), ["first"]);
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 2);
    assert_eq!(lines(&scene, "checked"), ["first", "third"]);
    assert_eq!(lines(&scene, "loaded"), ["first", "third"]);
}

/// Without a state directory podnudge does not know what the application runs, and `on-start` decides; but
/// not that it runs what nobody has approved.
#[test]
fn content_that_waits_for_an_approval_is_no_baseline_after_a_restart() {
    let mut scene = start("check", "");
    let record = scene.path("..podnudge-checks.web.json");
    let mut agent = nudge(&scene, "baseline");
    scene.change("second");
    agent.wait_for("held", 1);
    wait_until("it is recorded", || record.exists());
    agent.kill();
    let agent = nudge(&scene, "held");
    assert_eq!(agent.stop().code(), Some(0));
    let agent = nudge(&scene, "held");
    assert_eq!((agent.count("baseline"), lines(&scene, "checked").len()), (0, 0));
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 1);
    assert_eq!(
        (lines(&scene, "checked"), lines(&scene, "loaded")),
        (vec!["second".to_owned()], vec!["second".to_owned()])
    );
    assert!(!record.exists());
}

#[test]
fn approval_before_the_rollout_shows_a_person_what_has_passed() {
    let mut scene = start("rollout", PUBLISH);
    let agent = nudge(&scene, "applied");
    scene.change("second");
    agent.wait_for("held", 1);
    assert_eq!(agent.last("held", "reason"), "the rule waits for an approval");
    assert_eq!((lines(&scene, "checked").len(), lines(&scene, "loaded").len()), (2, 1));
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 2);
}

/// In an init container, where nobody can approve anything.
#[test]
fn once_does_not_check_what_needs_an_approval() {
    let scene = start("check", PUBLISH);
    let once = || {
        let mut command = podnudge();
        command.args(["once", "--wait", "0s", "--config"]);
        let output = command.arg(scene.path("podnudge.toml")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = once();
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("needs an approval before its checks"), "{said}");
    assert_eq!(lines(&scene, "checked"), [""; 0]);
    // What was approved and verified is good, and is checked as ever.
    let agent = nudge(&scene, "held");
    agent.signal(Signal::SIGHUP);
    agent.wait_for("applied", 1);
    assert!(agent.stop().success());
    let (code, said) = once();
    assert_eq!(code, Some(0), "{said}");
}
