//! podnudge remembers the target of the last action and does not search all processes again while
//! that target is unchanged. A changed target, or a second match, is still detected.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Child;

use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::cgroups::{Cgroups, Driver};
use crate::support::kubelet::{Kubelet, payload};
use crate::support::pod::{Behaviour, Target, in_namespace};
use crate::support::program::command;
use crate::support::wait::wait_until;

/// A target that counts its signals in the file `before`. When the file `go` exists, it executes
/// another program under the same pid, which counts them in the file `after`.
const CHANGING: &str = "cd \"$1\"; trap 'echo hup >>before' HUP; >ready
    until [ -e go ]; do sleep 0.02; done
    exec \"./$2\" -c 'trap \"echo hup >>after\" HUP; >changed; while :; do sleep 0.02; done' other";

struct Scene {
    folder: tempfile::TempDir,
    kubelet: Kubelet,
    round: usize,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubelet = Kubelet::new(folder.path().join("volume"));
        let mut scene = Self { folder, kubelet, round: 0 };
        scene.change();
        scene
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn nudge(&self, target: &[&str]) -> Agent {
        let mut arguments = vec!["--watch", self.kubelet.volume.to_str().unwrap()];
        arguments.extend(["--signal", "HUP", "--settle", "0s", "--on-start", "never"]);
        arguments.extend(["--alive-for", "50ms"]);
        arguments.extend(target);
        Agent::start(self.path(), &arguments)
    }

    fn change(&mut self) {
        self.round += 1;
        self.kubelet.write(&payload(&[("a.conf", &self.round.to_string())]));
    }

    /// How many signals the file records.
    fn signals(&self, file: &str) -> usize {
        fs::read_to_string(self.path().join(file)).unwrap_or_default().lines().count()
    }

    /// Starts a target named `app`, which will execute the program `other`.
    fn start_changing(&self, other: &str) -> Running {
        for name in ["app", "other"] {
            drop(symlink("/bin/bash", self.path().join(name)));
        }
        let mut target = command(self.path().join("app"));
        target.args(["-c", CHANGING, "first"]).arg(self.path()).arg(other);
        let running = Running(target.spawn().unwrap());
        self.wait_for("ready");
        running
    }

    fn wait_for(&self, file: &str) {
        wait_until(file, || self.path().join(file).exists());
    }
}

/// Killed at the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A process keeps its pid and its start time when it executes another program.
fn another_program_is_not_signalled(target: &[&str], other: &str, reason: &str) {
    let mut scene = Scene::new();
    let _bystander = Target::start(scene.path(), "bystander", Behaviour::Handles);
    let _target = scene.start_changing(other);
    let agent = scene.nudge(target);
    for n in 1..3 {
        scene.change();
        agent.wait_for(ROLLED_OUT, n);
        wait_until("the signal is counted", || scene.signals("before") == n);
    }
    fs::write(scene.path().join("go"), "").unwrap();
    scene.wait_for("changed");
    scene.change();
    agent.wait_for("waiting-for-target", 1);
    assert!(agent.last("waiting-for-target", "reason").contains(reason));
    assert_eq!((scene.signals("before"), scene.signals("after")), (2, 0));
}

#[test]
fn a_target_that_execs_another_program_is_searched_for_again() {
    in_namespace(|| {
        another_program_is_not_signalled(&["--process", "app"], "other", "no process named");
    });
}

#[test]
fn a_target_that_reexecs_with_other_arguments_is_searched_for_again() {
    in_namespace(|| {
        let reason = "no process has arguments";
        another_program_is_not_signalled(&["--cmdline", " first "], "app", reason);
    });
}

#[test]
fn a_second_match_is_not_signalled_and_blocks_the_next_action() {
    in_namespace(|| {
        let mut scene = Scene::new();
        let target = Target::start(scene.path(), "app", Behaviour::Handles);
        let agent = scene.nudge(&["--process", "app"]);
        scene.change();
        agent.wait_for(ROLLED_OUT, 1);
        let folder = scene.path().join("elsewhere");
        fs::create_dir(&folder).unwrap();
        let other = Target::start(&folder, "app", Behaviour::Handles);

        scene.change();
        agent.wait_for(ROLLED_OUT, 2);
        assert_eq!(agent.count("target-ambiguous"), 1);
        scene.change();
        agent.wait_for("refused", 1);
        for (event, field) in [("target-ambiguous", "reason"), ("refused", "reason")] {
            let reason = agent.last(event, field);
            for target in [&target, &other] {
                assert!(reason.contains(&format!("{} (app", target.pid())), "{event}: {reason}");
            }
        }
        assert_eq!((target.signals(), other.signals()), (2, 0));
    });
}

/// A neighbour may have any name. It is not in the container of the process that took the last action.
#[test]
fn a_second_match_in_another_container_blocks_no_action() {
    in_namespace(|| {
        let mut scene = Scene::new();
        let cgroups = Cgroups::new(Driver::Cgroupfs);
        let elsewhere = scene.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let start = |folder: &Path, digit: &str| {
            let group = cgroups.container("9b1f0a77-5f0a-4f4e-9d39-6c2f5b1f0a70", digit);
            Target::start_by(folder, "app", Behaviour::Handles, |program| {
                cgroups.command(&group, program)
            })
        };
        let target = start(scene.path(), "a");
        let agent = scene.nudge(&["--process", "app"]);
        scene.change();
        agent.wait_for(ROLLED_OUT, 1);
        let other = start(&elsewhere, "b");
        for n in 2..=3 {
            scene.change();
            agent.wait_for(ROLLED_OUT, n);
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
        let agent = scene.nudge(&["--process", "app"]);
        scene.change();
        agent.wait_for("refused", 1);
        assert_eq!((target.signals(), other.signals()), (3, 0));
    });
}

#[test]
fn a_pidfile_is_read_before_each_action() {
    in_namespace(|| {
        let mut scene = Scene::new();
        let [one, other] =
            ["one", "other"].map(|name| Target::start(scene.path(), name, Behaviour::Handles));
        let pidfile = scene.path().join("app.pid");
        fs::write(&pidfile, one.pid().to_string()).unwrap();
        let agent = scene.nudge(&["--pidfile", pidfile.to_str().unwrap()]);
        for (n, target) in [(1, &one), (2, &one), (3, &other), (4, &one)] {
            fs::write(&pidfile, target.pid().to_string()).unwrap();
            scene.change();
            agent.wait_for(ROLLED_OUT, n);
        }
        assert_eq!((one.signals(), other.signals()), (3, 1));
    });
}

#[test]
fn a_target_replaced_between_two_actions_is_searched_for_again() {
    in_namespace(|| {
        let mut scene = Scene::new();
        let mut first = Target::start(scene.path(), "app", Behaviour::Handles);
        let agent = scene.nudge(&["--process", "app"]);
        scene.change();
        agent.wait_for(ROLLED_OUT, 1);
        first.kill();
        let second = Target::start(scene.path(), "app", Behaviour::Handles);
        scene.change();
        agent.wait_for(ROLLED_OUT, 2);
        // Both write to the same report, which is named after them.
        assert_eq!((second.signals(), agent.count("target-ambiguous")), (2, 0));
    });
}
