//! Checks that podnudge does not survive: the content is checked again by the next podnudge, and rejected
//! after the second time. With the real binary, and a real kill.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal::{SIGKILL, SIGSTOP, SIGTERM};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::support::{
    Agent, Application, Kubelet, MemoryLimit, ROLLED_OUT, command, in_namespace, payload, podnudge,
    recorded, wait_until,
};

/// A podnudge with rules whose content is checked by a program, and an application for each.
struct Scene {
    folder: tempfile::TempDir,
    kubelets: Vec<Kubelet>,
    applications: Vec<Application>,
}

/// Where podnudge remembers its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    State,
    Publish,
    Work,
}

impl Scene {
    /// The checker counts its runs, and waits forever for the content `waits`. For `deadly` it kills
    /// podnudge, the parent of its supervisor. For `big` it takes all memory.
    fn new(rules: usize, memory: Memory) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        let checker = folder.path().join("checker");
        let script = format!(
            "#!/bin/sh\nread content < a\necho \"$content\" >> {root}/runs\ncase $content in\n\
             waits) exec sleep 1000;;\ndeadly) kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat); exec sleep 1000;;\n\
             slow) until [ -e {root}/go ]; do sleep 0.05; done;;\n\
             big) echo 0 > /proc/self/oom_score_adj; exec tail /dev/zero;;\n\
             broken) exit 1;;\nesac\n"
        );
        fs::write(&checker, script).unwrap();
        fs::set_permissions(&checker, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let state = if memory == Memory::State {
            format!(", state-dir = \"{root}/state\"")
        } else {
            String::new()
        };
        let mut config = format!(
            "agent = {{ log = \"json\", listen = \"off\", work-dir = \"{root}/work\"{state} }}\n"
        );
        let (mut kubelets, mut applications) = (Vec::new(), Vec::new());
        for rule in 0..rules {
            let mut kubelet = Kubelet::new(folder.path().join(format!("volume{rule}")));
            kubelet.write(&payload(&[("a", "first\n")]));
            let (read, publish) = if memory == Memory::Publish {
                let published = folder.path().join(format!("published{rule}"));
                fs::create_dir(&published).unwrap();
                let publish = format!("publish = {{ dir = \"{}\" }}\n", published.display());
                (published, publish)
            } else {
                (kubelet.volume.clone(), "on-start = \"never\"\n".to_owned())
            };
            let application = Application::start(&read, "a");
            write!(
                config,
                "[[rule]]\nname = \"rule{rule}\"\nwatch = \"{}\"\nsettle = \"0s\"\n{publish}\
                 http = {{ url = \"{}\" }}\n[[rule.check]]\n\
                 exec = \"{}\"\n",
                kubelet.volume.display(),
                application.url(),
                checker.display(),
            )
            .unwrap();
            kubelets.push(kubelet);
            applications.push(application);
        }
        fs::write(folder.path().join("podnudge.toml"), config).unwrap();
        Self { folder, kubelets, applications }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&mut self, rule: usize, content: &str) {
        self.kubelets[rule].write(&payload(&[("a", &format!("{content}\n"))]));
    }

    fn start(&self) -> Agent {
        let mut command = podnudge();
        command.arg("--config").arg(self.path("podnudge.toml"));
        Agent::spawn(self.folder.path(), command)
    }

    /// How many times the checker has run with this content.
    fn runs(&self, content: &str) -> usize {
        let runs = fs::read_to_string(self.path("runs")).unwrap_or_default();
        runs.lines().filter(|line| *line == content).count()
    }

    fn wait_for_runs(&self, content: &str, wanted: usize) {
        wait_until(&format!("{wanted} checks of {content}"), || self.runs(content) >= wanted);
    }
}

fn assert_rejected(agent: &Agent) {
    agent.wait_for("rejected", 1);
    let reason = agent.last("rejected", "reason");
    assert!(reason.contains("podnudge has ended 2 times while it checked"), "{reason}");
    assert!(agent.last("rejected", "hint").contains("memory"), "{}", agent.log());
}

fn is_remembered(folder: &Path) -> bool {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().contains("podnudge-checks"))
}

#[test]
fn content_during_whose_check_podnudge_is_killed_twice_is_rejected_and_not_checked_again() {
    for memory in [Memory::State, Memory::Publish, Memory::Work] {
        let mut scene = Scene::new(1, memory);
        let mut agent = scene.start();
        if memory == Memory::Publish {
            agent.wait_for(ROLLED_OUT, 1);
            // Until that is recorded, a podnudge that was killed acts again.
            wait_until("it is good", || recorded(&scene.path("published0"), "good"));
        } else {
            agent.wait_for("baseline", 1);
        }
        let before = scene.applications[0].reloads().len();
        scene.write(0, "waits");
        for time in 1..=2 {
            scene.wait_for_runs("waits", time);
            agent.kill();
            agent = scene.start();
            assert_eq!(agent.count("baseline"), 0);
        }
        assert_rejected(&agent);
        // It is still known after a stop, and after another kill.
        assert_eq!(agent.stop().code(), Some(0));
        let mut agent = scene.start();
        assert_rejected(&agent);
        agent.kill();
        let agent = scene.start();
        assert_rejected(&agent);
        assert_eq!((scene.runs("waits"), scene.applications[0].reloads().len()), (2, before));
        assert_eq!(agent.count("baseline"), 0, "{memory:?}");
        // New content is not affected.
        scene.write(0, "fine");
        wait_until("it is applied", || {
            scene.applications[0].reloads().last().is_some_and(|last| last == "fine\n")
        });
    }
}

#[test]
fn the_record_of_a_check_is_removed_when_it_has_passed() {
    let mut scene = Scene::new(1, Memory::State);
    let agent = scene.start();
    agent.wait_for("baseline", 1);
    scene.write(0, "slow");
    scene.wait_for_runs("slow", 1);
    assert!(is_remembered(&scene.path("state")));
    fs::write(scene.path("go"), "").unwrap();
    agent.wait_for(ROLLED_OUT, 1);
    assert!(!is_remembered(&scene.path("state")));
    assert_eq!(agent.stop().code(), Some(0));
}

/// The application was not told of the content: it must not become what it is assumed to run.
#[test]
fn a_stop_during_a_check_does_not_count_and_makes_no_baseline() {
    let mut scene = Scene::new(1, Memory::Work);
    let mut agent = scene.start();
    agent.wait_for("baseline", 1);
    scene.write(0, "slow");
    for time in 1..=3 {
        scene.wait_for_runs("slow", time);
        assert_eq!(agent.stop().code(), Some(0));
        agent = scene.start();
    }
    scene.wait_for_runs("slow", 4);
    fs::write(scene.path("go"), "").unwrap();
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((agent.count("baseline"), agent.count("rejected")), (0, 0));
}

/// Both rules check when podnudge is killed. Only the content that kills it again is counted twice.
#[test]
fn content_that_was_checked_at_the_same_time_is_checked_alone_and_passes() {
    let mut scene = Scene::new(2, Memory::State);
    let mut agent = scene.start();
    agent.wait_for("baseline", 2);
    scene.write(0, "slow");
    scene.wait_for_runs("slow", 1);
    scene.write(1, "deadly");
    wait_until("podnudge ends", || agent.has_ended());
    fs::write(scene.path("go"), "").unwrap();
    // The deadly content ends podnudge once more: before or after the other content has passed.
    for _ in 0..2 {
        agent = scene.start();
        wait_until("it ends, or rejects the content", || {
            agent.has_ended() || agent.count("rejected") > 0
        });
    }
    assert!(!agent.has_ended(), "{}", agent.log());
    // If podnudge ends when the other content has passed, but is not applied yet, that is checked again.
    let (deadly, slow) = (scene.runs("deadly"), scene.runs("slow"));
    assert!(deadly == 2 && (2..=3).contains(&slow), "{deadly} and {slow}");
    assert_eq!(agent.last("rejected", "rule"), "rule1");
    wait_until("the other content is applied", || {
        scene.applications[0].reloads().last().is_some_and(|last| last == "slow\n")
    });
    assert!(scene.applications[1].reloads().is_empty());
}

/// What the record holds is lost: the content on disk may not have passed its checks.
#[test]
fn content_is_no_baseline_if_the_record_of_its_checks_cannot_be_read() {
    for fine in [true, false] {
        let mut scene = Scene::new(1, Memory::Work);
        let record = scene.path("work/..podnudge-checks.rule0.json");
        scene.write(0, if fine { "fine" } else { "broken" });
        fs::write(&record, "[{").unwrap();
        let agent = scene.start();
        agent.wait_for(if fine { ROLLED_OUT } else { "rejected" }, 1);
        let reason = agent.last("checks-not-remembered", "reason");
        assert!(reason.contains("cannot be read: it is not podnudge's"), "{reason}");
        assert_eq!(
            (agent.count("baseline"), scene.applications[0].reloads().len()),
            (0, usize::from(fine))
        );
        assert_eq!(agent.stop().code(), Some(0));
        // From then on, it is known.
        assert_eq!(record.exists(), !fine);
        let agent = scene.start();
        agent.wait_for(if fine { "baseline" } else { "rejected" }, 1);
        assert_eq!(agent.count("checks-not-remembered"), 0);
    }
}

/// A full `state-dir` takes no file, and must not make unchecked content the baseline.
#[test]
fn a_full_directory_does_not_make_podnudge_forget_its_checks() {
    in_namespace!();
    let mut scene = Scene::new(1, Memory::State);
    let state = scene.path("state");
    fs::create_dir(&state).unwrap();
    let options = ["-t", "tmpfs", "-o", "size=16k", "tmpfs"];
    assert!(command("mount").args(options).arg(&state).status().unwrap().success());
    let mut agent = scene.start();
    agent.wait_for("baseline", 1);
    drop(fs::write(state.join("full"), [b'x'; 16384]));
    scene.write(0, "deadly");
    for _ in 0..2 {
        wait_until("podnudge ends", || agent.has_ended());
        assert!(is_remembered(&scene.path("work")) && !is_remembered(&state));
        agent = scene.start();
    }
    assert_rejected(&agent);
    assert_eq!((agent.count("baseline"), scene.runs("deadly")), (0, 2));
    // With space again, the record moves back, and nothing older stays in its place.
    fs::remove_file(state.join("full")).unwrap();
    scene.write(0, "fine");
    agent.wait_for(ROLLED_OUT, 1);
    assert!(is_remembered(&state) && !is_remembered(&scene.path("work")));
    assert_eq!(agent.stop().code(), Some(0));
}

/// As in a wait for a device, which nothing ends: a process that is killed does not end before whoever traces it
/// has looked at it.
#[test]
fn programs_that_do_not_end_delay_the_event_loop_for_a_limited_time() {
    let mut scene = Scene::new(6, Memory::Work);
    let agent = scene.start();
    agent.wait_for("baseline", 6);
    (0..6).for_each(|rule| scene.write(rule, "waits"));
    scene.wait_for_runs("waits", 6);
    let pid = agent.pid();
    let supervisors = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let supervisors: Vec<_> = supervisors.split_ascii_whitespace().collect();
    assert_eq!(supervisors.len(), 6);
    let mut tracing = command("strace");
    tracing.args(["-qq", "-o", "/dev/null"]);
    let mut tracing = tracing.args(supervisors.iter().flat_map(|pid| ["-p", pid])).spawn().unwrap();
    let traced = format!("TracerPid:\t{}\n", tracing.id());
    for pid in supervisors {
        let status = format!("/proc/{pid}/status");
        wait_until("it is traced", || fs::read_to_string(&status).unwrap().contains(&traced));
    }
    kill(Pid::from_raw(i32::try_from(tracing.id()).unwrap()), SIGSTOP).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the loop must not wait for long")]
    let begun = Instant::now();
    let (code, took) = (agent.stop().code(), begun.elapsed());
    tracing.kill().unwrap();
    tracing.wait().unwrap();
    // It used to wait 2 s for each, which would be 12 s.
    assert!(code == Some(0) && took < Duration::from_secs(6), "{code:?} after {took:?}");
}

fn once(scene: &Scene) -> Child {
    let mut command = podnudge();
    command.args(["once", "--wait", "20s", "--config"]).arg(scene.path("podnudge.toml"));
    command.spawn().unwrap()
}

#[test]
fn once_rejects_content_that_has_ended_it_twice_too() {
    let mut scene = Scene::new(1, Memory::Publish);
    scene.write(0, "waits");
    // A stop does not count.
    for (time, signal) in [(1, SIGKILL), (2, SIGTERM), (3, SIGKILL)] {
        let mut child = once(&scene);
        scene.wait_for_runs("waits", time);
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        let code = child.wait().unwrap().code();
        assert_eq!(code, (signal == SIGTERM).then_some(69));
    }
    assert_eq!(once(&scene).wait().unwrap().code(), Some(65));
    assert_eq!(scene.runs("waits"), 3);
    // The sidecar that follows knows it, too.
    let agent = scene.start();
    assert_rejected(&agent);
    scene.write(0, "fine");
    assert_eq!(agent.stop().code(), Some(0));
    assert_eq!(once(&scene).wait().unwrap().code(), Some(0));
}

/// As pid 1 of an init container it gets no signal for which it has no handler.
#[test]
fn once_can_be_stopped_while_another_podnudge_has_the_directory() {
    let scene = Scene::new(1, Memory::Publish);
    let agent = scene.start();
    agent.wait_for(ROLLED_OUT, 1);
    let mut child = once(&scene);
    wait_until("it has a handler", || handles_term(&child));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(69));
    assert_eq!(agent.stop().code(), Some(0));
}

fn handles_term(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (SIGTERM as u32 - 1)) != 0
}

/// A control group out of memory: the kernel ends podnudge.
#[test]
fn content_for_whose_check_the_kernel_ends_podnudge_is_rejected() {
    let limit = MemoryLimit::new(24 * 1024 * 1024);
    let mut scene = Scene::new(1, Memory::Work);
    let start = |scene: &Scene| {
        // The kernel ends it first.
        let script = "echo 1000 > /proc/self/oom_score_adj && exec \"$0\" --config \"$1\"";
        let mut command = limit.command("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_podnudge")]);
        command.arg(scene.path("podnudge.toml"));
        Agent::spawn(scene.folder.path(), command)
    };
    let mut agent = start(&scene);
    agent.wait_for("baseline", 1);
    scene.write(0, "big");
    for _ in 0..2 {
        wait_until("the kernel ends podnudge", || agent.has_ended());
        // A check that is left could make the kernel end the next podnudge.
        wait_until("its processes end", || limit.processes().is_empty());
        agent = start(&scene);
    }
    assert_rejected(&agent);
    assert_eq!(scene.runs("big"), 2);
    scene.write(0, "fine");
    agent.wait_for(ROLLED_OUT, 1);
    agent.signal(SIGKILL);
}
