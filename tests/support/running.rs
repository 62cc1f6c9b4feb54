//! Processes of applications: one that ends with its test, and one that is started again when it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::program::command;
use super::wait::{is_within, pause, wait_until};

/// How long an application that has ended stays down.
const RESTART_DELAY: Duration = Duration::from_millis(100);

/// A process that is killed at the end of its test.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}; run ./test")))
    }

    /// Whose output goes to this file.
    pub(crate) fn logged(program: &[&str], log: &Path) -> Self {
        Self(spawn(command(program[0]).args(&program[1..]), log))
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a process whose output is appended to this file.
fn spawn(command: &mut Command, log: &Path) -> Child {
    let output = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    let child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn();
    child.unwrap_or_else(|error| panic!("{command:?}: {error}; run ./test"))
}

/// An application in its own pid namespace, as in a container: it ends as a whole, and is restarted
/// soon, whereas the kubelet waits for 10 s and longer.
#[derive(Debug)]
pub(crate) struct Container {
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
    log: PathBuf,
}

#[derive(Debug)]
struct Shared {
    child: Mutex<Child>,
    ends: AtomicUsize,
    is_over: AtomicBool,
}

impl Container {
    pub(crate) fn start(command: Vec<String>, log: PathBuf) -> Self {
        let child = Mutex::new(run(&command, &log));
        let (ends, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { child, ends, is_over });
        let (keeps, log_file) = (Arc::clone(&shared), log.clone());
        let supervisor = thread::spawn(move || {
            let is_over = || keeps.is_over.load(Ordering::SeqCst);
            while !is_over() {
                let has_ended = keeps.child.lock().unwrap().try_wait().unwrap().is_some();
                if has_ended {
                    keeps.ends.fetch_add(1, Ordering::SeqCst);
                    if !is_within(RESTART_DELAY, is_over) {
                        *keeps.child.lock().unwrap() = run(&command, &log_file);
                    }
                }
                pause();
            }
        });
        Self { shared, supervisor: Some(supervisor), log }
    }

    /// How often the application has ended.
    pub(crate) fn ends(&self) -> usize {
        self.shared.ends.load(Ordering::SeqCst)
    }

    /// Its output, over all its starts.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The pid of the main process; 0 while there is none.
    pub(crate) fn pid(&self) -> i32 {
        let parent = self.shared.child.lock().unwrap().id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        children.unwrap_or_default().trim().parse().unwrap_or_default()
    }

    /// Kills the main process, as a crash would; its children end with it.
    pub(crate) fn kill(&self) {
        let ends = self.ends();
        let pid = self.pid();
        assert!(pid > 1, "there is nothing to kill");
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        wait_until("the application has ended", || self.ends() > ends);
    }
}

/// The child is `unshare`: if either it or the application ends, so does the other.
fn run(application: &[String], log: &Path) -> Child {
    let mut unshare = command("unshare");
    unshare.args(["--pid", "--fork", "--kill-child"]).args(application);
    spawn(&mut unshare, log)
}

impl Drop for Container {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(supervisor) = self.supervisor.take() {
            drop(supervisor.join());
        }
        if let Ok(mut child) = self.shared.child.lock() {
            drop(child.kill());
            drop(child.wait());
        }
        if thread::panicking() {
            println!("the log of the application:\n{}", self.log());
        }
    }
}
