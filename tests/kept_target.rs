//! podnudge remembers the target of the last action and does not search all processes again while
//! that target is unchanged. A changed target, or a second match, is still detected.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{
    Agent, Behaviour, Cgroups, Driver, Running, Scene, Target, command, in_namespace, wait_until,
};

/// A target that counts its signals in the file `before`. When the file `go` exists, it executes
/// another program under the same pid, which counts them in the file `after`.
const CHANGING: &str = "cd \"$1\"; trap 'echo hup >>before' HUP; >ready
    until [ -e go ]; do sleep 0.02; done
    exec \"./$2\" -c 'trap \"echo hup >>after\" HUP; >changed; while :; do sleep 0.02; done' other";

/// Starts podnudge for this target.
fn nudge(scene: &Scene, target: &[&str]) -> Agent {
    scene.nudge(&[&["--signal", "HUP", "--alive-for", "50ms"], target].concat())
}

/// How many signals the file records.
fn signals(scene: &Scene, file: &str) -> usize {
    scene.text(file).lines().count()
}

/// Starts a target named `app`, which will execute the program `other`.
fn start_changing(scene: &Scene, other: &str) -> Running {
    for name in ["app", "other"] {
        drop(symlink("/bin/bash", scene.path(name)));
    }
    let mut target = command(scene.path("app"));
    let running =
        Running::start(target.args(["-c", CHANGING, "first"]).arg(scene.folder.path()).arg(other));
    wait_for(scene, "ready");
    running
}

fn wait_for(scene: &Scene, file: &str) {
    wait_until(file, || scene.path(file).exists());
}

/// A process keeps its pid and its start time when it executes another program.
fn another_program_is_not_signalled(target: &[&str], other: &str, reason: &str) {
    let mut scene = Scene::new();
    let _bystander = scene.target("bystander", Behaviour::Handles);
    let _target = start_changing(&scene, other);
    let agent = nudge(&scene, target);
    for n in 1..3 {
        scene.roll_out(&agent, &format!("change {n}"));
        wait_until("the signal is counted", || signals(&scene, "before") == n);
    }
    scene.write("go", "");
    wait_for(&scene, "changed");
    scene.change("last");
    agent.wait_for("waiting-for-target", 1);
    assert!(agent.last("waiting-for-target", "reason").contains(reason));
    assert_eq!((signals(&scene, "before"), signals(&scene, "after")), (2, 0));
}

#[test]
fn a_target_that_execs_another_program_is_searched_for_again() {
    in_namespace!();
    another_program_is_not_signalled(&["--process", "app"], "other", "no process named");
}

#[test]
fn a_target_that_reexecs_with_other_arguments_is_searched_for_again() {
    in_namespace!();
    let reason = "no process has arguments";
    another_program_is_not_signalled(&["--cmdline", " first "], "app", reason);
}

#[test]
fn a_second_match_is_not_signalled_and_blocks_the_next_action() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.roll_out(&agent, "change 1");
    let folder = scene.path("elsewhere");
    fs::create_dir(&folder).unwrap();
    let other = Target::start(&folder, "app", Behaviour::Handles);

    scene.roll_out(&agent, "change 2");
    assert_eq!(agent.count("target-ambiguous"), 1);
    scene.change("last");
    agent.wait_for("refused", 1);
    for (event, field) in [("target-ambiguous", "reason"), ("refused", "reason")] {
        let reason = agent.last(event, field);
        for target in [&target, &other] {
            assert!(reason.contains(&format!("{} (app", target.pid())), "{event}: {reason}");
        }
    }
    assert_eq!((target.signals(), other.signals()), (2, 0));
}

/// A neighbour may have any name. It is not in the container of the process that took the last action.
#[test]
fn a_second_match_in_another_container_blocks_no_action() {
    in_namespace!();
    let mut scene = Scene::new();
    let cgroups = Cgroups::new(Driver::Cgroupfs);
    let elsewhere = scene.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let start = |folder: &Path, digit: &str| {
        let group = cgroups.container("9b1f0a77-5f0a-4f4e-9d39-6c2f5b1f0a70", digit);
        Target::start_by(folder, "app", Behaviour::Handles, |program| {
            cgroups.command(&group, program)
        })
    };
    let target = start(scene.folder.path(), "a");
    let agent = nudge(&scene, &["--process", "app"]);
    scene.roll_out(&agent, "change 1");
    let other = start(&elsewhere, "b");
    for n in 2..=3 {
        scene.roll_out(&agent, &format!("change {n}"));
    }
    assert_eq!(agent.count("target-ambiguous|refused"), 0, "{}", agent.log());
    assert_eq!((target.signals(), other.signals()), (3, 0));
    assert_eq!(agent.count("target-chosen"), 1, "{}", agent.log());
    let because = agent.last("target-chosen", "because");
    let wanted =
        format!("it is in the container of the last action's target, and not {}", other.pid());
    assert!(because.starts_with(&wanted), "{because}");
    // A podnudge that has not acted cannot tell.
    drop(agent);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.change("last");
    agent.wait_for("refused", 1);
    assert_eq!((target.signals(), other.signals()), (3, 0));
}

#[test]
fn a_pidfile_is_read_before_each_action() {
    in_namespace!();
    let mut scene = Scene::new();
    let [one, other] = ["one", "other"].map(|name| scene.target(name, Behaviour::Handles));
    let pidfile = scene.path("app.pid");
    fs::write(&pidfile, one.pid().to_string()).unwrap();
    let agent = nudge(&scene, &["--pidfile", pidfile.to_str().unwrap()]);
    for (n, target) in [(1, &one), (2, &one), (3, &other), (4, &one)] {
        fs::write(&pidfile, target.pid().to_string()).unwrap();
        scene.roll_out(&agent, &format!("change {n}"));
    }
    assert_eq!((one.signals(), other.signals()), (3, 1));
}

#[test]
fn a_target_replaced_between_two_actions_is_searched_for_again() {
    in_namespace!();
    let mut scene = Scene::new();
    let mut first = scene.target("app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "app"]);
    scene.roll_out(&agent, "change 1");
    first.kill();
    let second = scene.target("app", Behaviour::Handles);
    scene.roll_out(&agent, "change 2");
    // Both write to the same report, which is named after them.
    assert_eq!((second.signals(), agent.count("target-ambiguous")), (2, 0));
}
