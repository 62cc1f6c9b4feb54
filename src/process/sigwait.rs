//! Signals that a process takes without a handler: a thread waits for them (sigwait(3)), or the process
//! reads them from a signalfd(2).
//!
//! Reads `/proc/PID/task` and `/proc/PID/fdinfo`, and from the memory of a waiting thread the set of
//! signals that it waits for. That needs the uid of the process, and no capability (proc(5)). What cannot
//! be read counts as not taken.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nix::libc::SYS_rt_sigtimedwait;
use nix::sys::signal::Signal;

use super::proc::{contains, mask};

/// A process that waits for more signals than this is an init, such as tini: it passes them on to its
/// child, which may end.
const MAX_WAITED: u32 = 16;

/// Who takes a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taker {
    /// Nobody, as far as podnudge can read.
    Nobody,
    /// The process itself.
    Process,
    /// An init, which passes it on to its child.
    Init,
}

/// Who takes this signal in a process without a handler for it. The kernel ends the process if a
/// thread neither blocks the signal nor waits for it, so all threads count.
pub(super) fn taker(pid: i32, signal: Signal) -> Taker {
    let process = format!("/proc/{pid}");
    let threads = Thread::read_all(&process);
    let takes = |thread: &Thread| thread.waited.is_some_and(|waited| contains(waited, signal));
    let is_safe = |thread: &Thread| thread.is_safe(signal);
    let set = threads.iter().find(|thread| takes(thread)).and_then(|thread| thread.waited);
    match set {
        _ if threads.is_empty() || !threads.iter().all(is_safe) => Taker::Nobody,
        Some(set) if set.count_ones() > MAX_WAITED => Taker::Init,
        Some(_) => Taker::Process,
        None if has_signalfd(&process, signal) => Taker::Process,
        None => Taker::Nobody,
    }
}

/// What the threads of a process do about this signal, for a process that does not take it.
pub(super) fn describe_threads(pid: i32, signal: Signal) -> String {
    let threads = Thread::read_all(&format!("/proc/{pid}"));
    let unsafe_ones = threads.iter().filter(|thread| !thread.is_safe(signal)).count();
    match (unsafe_ones, threads.len()) {
        (0, _) => format!("its threads block {signal}, and podnudge sees none that waits for it"),
        (1, 1) => format!("its thread neither waits for {signal} nor blocks it"),
        (1, all) => format!("1 of its {all} threads neither waits for {signal} nor blocks it"),
        (some, all) => {
            format!("{some} of its {all} threads neither wait for {signal} nor block it")
        }
    }
}

struct Thread {
    blocked: u64,
    /// The signals that it waits for now.
    waited: Option<u64>,
}

impl Thread {
    fn read_all(process: &str) -> Vec<Self> {
        let tasks = fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
        tasks.map(|task| Self::read(&task.path(), process)).collect()
    }

    /// Whether the kernel does not deliver the signal to this thread while it has no handler.
    fn is_safe(&self, signal: Signal) -> bool {
        contains(self.blocked, signal) || self.waited.is_some_and(|waited| contains(waited, signal))
    }

    fn read(task: &Path, process: &str) -> Self {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        Self {
            blocked: mask(&status, "SigBlk:").unwrap_or_default(),
            waited: waited(task, process),
        }
    }
}

/// `/proc/PID/task/TID/syscall` is `128 0x7ffc… …`: the number of the system call that the thread is in,
/// and its arguments. The first one of `rt_sigtimedwait(2)` points to the set.
fn waited(task: &Path, process: &str) -> Option<u64> {
    let syscall = fs::read_to_string(task.join("syscall")).ok()?;
    let mut words = syscall.split_ascii_whitespace();
    let is_waiting = words.next()?.parse() == Ok(SYS_rt_sigtimedwait);
    let address = words.next().filter(|_| is_waiting)?.strip_prefix("0x")?;
    let mut set = [0; 8];
    let memory = File::open(format!("{process}/mem")).ok()?;
    memory.read_exact_at(&mut set, u64::from_str_radix(address, 16).ok()?).ok()?;
    Some(u64::from_ne_bytes(set))
}

fn has_signalfd(process: &str, signal: Signal) -> bool {
    let files = fs::read_dir(format!("{process}/fdinfo")).into_iter().flatten().flatten();
    let mut infos = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    infos.any(|info| mask(&info, "sigmask:").is_some_and(|mask| contains(mask, signal)))
}
