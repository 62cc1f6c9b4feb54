//! podnudge's own child processes: itself, started again with another first argument, to supervise a
//! program or to parse a text. And the processes that they leave, if something has ended them.
//!
//! podnudge never kills a child that it has started itself and not abandoned: `spawn` holds the lock of
//! the list of children from before a child's start until it is listed, and `kill_orphans`, which alone
//! kills what is not listed, holds it from the look at the processes until the last one is killed.
//!
//! Starts processes, and kills those that are left.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use rustix::event::{Timespec, poll};

use podnudge_supervise::descendants::{self, Pass};

/// How long podnudge itself tries to end what is left: at most 10 ms for each pass.
const PASSES: u32 = 50;
/// The passes on the thread of the event loop. One pass kills, and two see that nothing is left.
const PASSES_AT_ONCE: u32 = 3;
/// How often, and how long in between, podnudge looks for the end of a child that was killed: 2 s.
const LOOKS: u32 = 2000;
/// The number of looks on the thread of the event loop: 20 ms.
const LOOKS_AT_ONCE: u32 = 20;
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The pids of the children, which those who started them reap.
static CHILDREN: Mutex<Vec<i32>> = Mutex::new(Vec::new());
/// Whether orphans become children of this process, which then is podnudge.
static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Whether processes that were left may still be alive.
static LEFT: AtomicBool = AtomicBool::new(false);
/// Whether processes were left that podnudge has not tried to end for long yet.
static JUST_LEFT: AtomicBool = AtomicBool::new(false);
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

/// Starts a child. Call [`reap`] or [`reap_at_once`] in the end.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Locked until it is known, so that nobody takes it for an orphan.
    let mut children = children();
    let child = command.spawn()?;
    children.extend(i32::try_from(child.id()));
    Ok(child)
}

/// Waits for the end of a child that has ended or was killed. Returns `None` if it takes too long: a process
/// cannot be ended while it waits for a device. podnudge then goes on, and reaps it like an orphan.
pub(crate) fn reap(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    reap_within(child, LOOKS)
}

/// Waits for that end on the thread of the event loop, and so not for long. A process that does not adopt orphans would
/// not reap the child later, and waits longer.
pub(crate) fn reap_at_once(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    reap_within(child, if adopts() { LOOKS_AT_ONCE } else { LOOKS })
}

fn reap_within(child: &mut Child, looks: u32) -> io::Result<Option<ExitStatus>> {
    let status = wait_for_end(child, looks);
    children().retain(|pid| i32::try_from(child.id()) != Ok(*pid));
    status
}

fn wait_for_end(child: &mut Child, looks: u32) -> io::Result<Option<ExitStatus>> {
    for _ in 0..looks {
        let ended = child.try_wait()?;
        if ended.is_some() {
            return Ok(ended);
        }
        _ = poll(&mut [], Some(&LOOK));
    }
    Ok(None)
}

/// Whether orphans become children of this process, which then can end them.
pub(crate) fn adopts() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Kills what a child has left whose own supervisor was ended. It waits 30 ms at most; call
/// [`end_left`] for the rest, when [`has_just_left`] says so and at each resync.
pub(crate) fn end_orphans() {
    if adopts() && !descendants::end_all(PASSES_AT_ONCE, &kill_orphans) {
        LEFT.store(true, Ordering::Relaxed);
        JUST_LEFT.store(true, Ordering::Relaxed);
    }
    reap_orphans();
}

/// Whether `end_orphans` was not enough since the last call.
pub fn has_just_left() -> bool {
    JUST_LEFT.swap(false, Ordering::Relaxed)
}

/// Kills orphans that could not be killed before, and reaps all that have ended. It may take 0.5 s.
pub fn end_left() {
    // First, so that it counts what is left meanwhile.
    if LEFT.swap(false, Ordering::Relaxed) && !descendants::end_all(PASSES, &kill_orphans) {
        LEFT.store(true, Ordering::Relaxed);
    }
    reap_orphans();
}

/// Reaps orphans, which become children of podnudge or of pid 1, which podnudge is in a container with its
/// own process namespace; elsewhere this does nothing.
pub(crate) fn reap_orphans() {
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

/// One pass, with the lock: see above.
fn kill_orphans() -> Pass {
    let children = children();
    descendants::kill_alive(&children)
}

fn children() -> MutexGuard<'static, Vec<i32>> {
    // The list is consistent even after a panic that held the lock.
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}
