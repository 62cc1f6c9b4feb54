//! podnudge's own child processes: itself, started again with another first argument, to supervise a
//! program or to parse a text. And the processes that they leave, if something has ended them.
//!
//! Starts processes, and kills those that are left.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};

use crate::process::descendants;

/// How long podnudge itself tries to end what is left: at most 10 ms for each pass.
const PASSES: u32 = 50;

/// The pids of the children, which those who started them reap.
static CHILDREN: Mutex<Vec<i32>> = Mutex::new(Vec::new());
/// Whether orphans become children of this process, which then is podnudge.
static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Whether processes that were left are still alive.
static LEFT: AtomicBool = AtomicBool::new(false);
/// The executable of podnudge.
static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();

/// Makes orphans of podnudge's children children of this process, as they are of pid 1 anyway. Only for
/// podnudge itself: it kills all children of its own that it has not started.
pub fn adopt_orphans() {
    ADOPTS.store(prctl::set_child_subreaper(true).is_ok(), Ordering::Relaxed);
}

/// Names the executable of podnudge, for a process that uses this library and has another one.
pub fn use_executable(path: PathBuf) {
    drop(EXECUTABLE.set(path));
}

/// The command that starts podnudge again, with this first argument and without an environment.
pub(crate) fn command(first: &str) -> Command {
    let executable = EXECUTABLE.get().cloned().unwrap_or_else(|| "/proc/self/exe".into());
    let mut command = Command::new(executable);
    command.arg(first).env_clear();
    command
}

/// Starts a child. Call [`reap`] in the end.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Locked until it is known, so that nobody takes it for an orphan.
    let mut children = children();
    let child = command.spawn()?;
    children.extend(i32::try_from(child.id()));
    Ok(child)
}

/// Waits for a child's end.
pub(crate) fn reap(child: &mut Child) -> io::Result<std::process::ExitStatus> {
    let status = child.wait();
    children().retain(|pid| i32::try_from(child.id()) != Ok(*pid));
    status
}

/// Kills what a child has left whose own supervisor was ended.
pub(crate) fn end_orphans() {
    if ADOPTS.load(Ordering::Relaxed) {
        let except = children().clone();
        LEFT.store(!descendants::end_all(&except, PASSES), Ordering::Relaxed);
    }
    reap_dead();
}

/// Reaps orphans, which become children of podnudge or of pid 1, which podnudge is in a container with its
/// own process namespace; elsewhere this does nothing. Kills those that could not be killed before.
pub fn reap_orphans() {
    if LEFT.load(Ordering::Relaxed) {
        end_orphans();
    } else {
        reap_dead();
    }
}

fn reap_dead() {
    if !rustix::process::getpid().is_init() && !ADOPTS.load(Ordering::Relaxed) {
        return;
    }
    let only_look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) =
        waitid(Id::All, only_look)
    {
        // Its owner reaps that child; the orphans behind it in the queue come later.
        if children().contains(&pid.as_raw()) || waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
            return;
        }
    }
}

fn children() -> MutexGuard<'static, Vec<i32>> {
    // The list is consistent even after a panic that held the lock.
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}
