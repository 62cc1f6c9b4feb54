//! Target processes, and namespaces for tests.
//!
//! A target is this test program, started under another name and with its behaviour in the
//! environment. A test in a namespace is also this test program, started for just that test.

use std::any::type_name;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use rustix::process::set_parent_process_death_signal;
use signal_hook::consts::{SIGHUP, SIGUSR1};
use signal_hook::iterator::Signals;

use super::program::{command, inherit_nothing, passed_on};
use super::wait::wait_until;

const BEHAVIOUR: &str = "PODNUDGE_TEST_TARGET";
const REPORT: &str = "PODNUDGE_TEST_REPORT";
const INSIDE: &str = "PODNUDGE_TEST_INSIDE";

/// What a target does on HUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Handles and reports it.
    Handles,
    /// Ignores it.
    Ignores,
    /// Has no handler, so it would be killed.
    Default,
    /// Handles and reports it, and exits.
    Dies,
    /// Handles it by executing itself again under the same pid.
    ExecsItself,
    /// Handles it, as does its child, a worker of the same name.
    MasterWithWorker,
    /// The same, and replaces the worker on HUP.
    MasterReplacingWorker,
}

/// A target process. Killed at the end of its test.
#[derive(Debug)]
pub(crate) struct Target {
    child: Child,
    report: PathBuf,
}

impl Target {
    /// Starts a target named `name` and waits until it is ready.
    pub(crate) fn start(folder: &Path, name: &str, behaviour: Behaviour) -> Self {
        Self::start_by(folder, name, behaviour, |program| command(program))
    }

    /// A process whose mount namespace lacks the volume: one of another container that does not mount it.
    pub(crate) fn start_without(folder: &Path, name: &str, volume: &Path) -> Self {
        Self::start_by(folder, name, Behaviour::Handles, |program| {
            let mut unshare = command("unshare");
            let script = "umount \"$0\" && exec \"$@\"";
            unshare.args(["--mount", "sh", "-c", script]).arg(volume).arg(program);
            unshare
        })
    }

    /// The same, started through another program, such as `unshare` or `setpriv`.
    pub(crate) fn start_by(
        folder: &Path,
        name: &str,
        behaviour: Behaviour,
        by: impl FnOnce(&Path) -> Command,
    ) -> Self {
        let program = folder.join(name);
        if !program.exists() {
            symlink(std::env::current_exe().unwrap(), &program).unwrap();
        }
        let report = folder.join(format!("{name}.report"));
        let already = lines(&report, "ready");
        let mut command = by(&program);
        let child = command
            .args(["--exact", "support::pod::target_main", "--nocapture", "--test-threads=1"])
            .env(BEHAVIOUR, format!("{behaviour:?}"))
            .env(REPORT, &report)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let target = Self { child, report };
        let has_worker =
            matches!(behaviour, Behaviour::MasterWithWorker | Behaviour::MasterReplacingWorker);
        let wanted = already + 1 + usize::from(has_worker);
        wait_until("the target is ready", || lines(&target.report, "ready") >= wanted);
        target
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// How many signals its master has handled.
    pub(crate) fn signals(&self) -> usize {
        lines(&self.report, "hup master")
    }

    /// How many signals its worker has handled.
    pub(crate) fn signals_to_worker(&self) -> usize {
        lines(&self.report, "hup worker")
    }

    /// How many workers it has started.
    pub(crate) fn workers(&self) -> usize {
        lines(&self.report, "ready worker")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines(report: &Path, wanted: &str) -> usize {
    fs::read_to_string(report)
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with(wanted))
        .count()
}

fn report(line: &str) {
    #[expect(clippy::disallowed_methods, reason = "the environment configures a target")]
    let path = std::env::var(REPORT).unwrap();
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Reads the keys of all volumes in the folder of the target, as an application reads its configuration.
fn read_volumes() {
    #[expect(clippy::disallowed_methods, reason = "the environment configures a target")]
    let report = std::env::var(REPORT).unwrap();
    let folder = Path::new(&report).parent().unwrap();
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    for volume in entries(folder) {
        let mut paths = entries(&volume.join("..data"));
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(entries(&path));
            } else {
                // It may be gone by now, or not be readable for this user.
                drop(fs::read(&path));
            }
        }
    }
}

/// The main function of a target. Returns at once unless this process was started as a target.
#[test]
fn target_main() {
    #[expect(clippy::disallowed_methods, reason = "the environment configures a target")]
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    let role = if behaviour == "Worker" { "worker" } else { "master" };
    if role == "worker" {
        // A worker ends with its master, also with one that is killed.
        set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    }
    let handled = match behaviour.as_str() {
        // A target that ignores HUP inherits this from the shell that starts it.
        "Default" | "Ignores" => SIGUSR1,
        _ => SIGHUP,
    };
    let mut signals = Signals::new([handled]).unwrap();
    let work = || again().env(BEHAVIOUR, "Worker").spawn().unwrap();
    let mut worker = behaviour.starts_with("Master").then(work);
    read_volumes();
    report(&format!("ready {role}"));
    for _ in signals.forever() {
        read_volumes();
        report(&format!("hup {role}"));
        match behaviour.as_str() {
            "Dies" => return,
            "MasterReplacingWorker" => {
                let mut old = worker.replace(work()).unwrap();
                old.kill().unwrap();
                old.wait().unwrap();
            }
            "ExecsItself" => panic!("cannot execute itself: {}", again().exec()),
            _ => {}
        }
    }
}

/// The command that starts this target again.
fn again() -> Command {
    let mut command = command(std::env::args_os().next().unwrap());
    for name in [BEHAVIOUR, REPORT] {
        command.env(name, std::env::var_os(name).unwrap());
    }
    command.args(["--exact", "support::pod::target_main", "--nocapture", "--test-threads=1"]);
    command
}

/// Continues the calling test as pid 1 of a new pid and mount namespace, where this test program is started again
/// for just that test. For the first line of a test, which ends there outside of the namespace, or with a call that is
/// the whole test.
macro_rules! in_namespace {
    ($($call:expr)?) => {
        if !$crate::support::pod::is_inside(&[], &|| {}) {
            return;
        }
        $($call)?
    };
}

/// The same with a new network namespace, where every port is free.
macro_rules! in_network {
    ($($call:expr)?) => {
        if !$crate::support::pod::is_inside(&["--net"], &|| {}) {
            return;
        }
        $($call)?
    };
}

pub(crate) use {in_namespace, in_network};

/// Whether this process runs in the namespaces of the test that the closure belongs to. If not, runs the test there.
pub(crate) fn is_inside<F: FnOnce()>(more: &[&str], _: &F) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        inherit_nothing();
        if more.contains(&"--net") {
            let up = command("ip").args(["link", "set", "lo", "up"]).status();
            assert!(up.expect("ip is installed (package iproute2)").success());
        }
        return true;
    }
    // `all::process::a_test::{{closure}}`, less the crate and the closure.
    let test = type_name::<F>().trim_end_matches("::{{closure}}");
    let test = test.split_once("::").unwrap().1;
    let output = command("unshare")
        .args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child"])
        .args(more)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs(passed_on())
        .env(INSIDE, "1")
        .output()
        .expect("unshare is installed (package util-linux)");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test} in a namespace:\n{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "{test} did not run in its namespace:\n{stdout}");
    print!("{stdout}");
    false
}

/// Waits until no other process is left in this namespace, not even a zombie.
pub(crate) fn no_other_process() {
    wait_until("this process is alone", || {
        // As pid 1, this process inherits the processes that its children leave.
        let left = waitpid(None, Some(WaitPidFlag::WNOHANG));
        left == Err(Errno::ECHILD)
    });
}
