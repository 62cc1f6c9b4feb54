//! Signals that a process takes without a handler: a thread waits for them (sigwait(3)), or the process
//! reads them from a signalfd(2).
//!
//! Reads `/proc/PID/task` and `/proc/PID/fdinfo`, and from the memory of a waiting thread the set of
//! signals that it waits for. That needs the uid of the process, and no capability (proc(5)). Where Yama
//! restricts ptrace(2), only the name of the kernel function in which a thread sleeps can be read: that
//! is enough to know that it does not wait for signals.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nix::libc::SYS_rt_sigtimedwait;
use nix::sys::signal::Signal;

use super::proc::contains;
use super::texts::{parse_mask, parse_name};
use podnudge_supervise::proc::read_proc_file;

/// A process with a single thread that waits for more signals than this is an init, such as tini: it
/// passes them on to its child, which may end.
const MAX_WAITED: u32 = 16;

/// Who takes a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taker {
    /// Nobody takes it.
    Nobody,
    /// The process itself.
    Process,
    /// An init, which passes it on to its child.
    Init,
    /// podnudge may not read whether the process takes it.
    Unreadable,
}

/// Who takes this signal in a process without a handler for it. The kernel ends the process if a
/// thread neither blocks the signal nor waits for it, so all threads count.
pub(super) fn taker(pid: i32, signal: Signal) -> Taker {
    let threads = threads(pid);
    let takes = |thread: &Thread| thread.set().is_some_and(|set| contains(set, signal));
    let blocks = |thread: &Thread| contains(thread.blocked, signal);
    let ends = |thread: &Thread| !blocks(thread) && !takes(thread) && !thread.is_unreadable();
    if threads.is_empty() || threads.iter().any(ends) {
        return Taker::Nobody;
    }
    if threads.iter().any(|thread| !blocks(thread) && thread.is_unreadable()) {
        return Taker::Unreadable;
    }
    match threads.as_slice() {
        [only] if takes(only) && only.waits_like_an_init() => Taker::Init,
        several if several.iter().any(takes) => Taker::Process,
        _ if has_signalfd(pid, signal) => Taker::Process,
        _ => Taker::Nobody,
    }
}

/// Whether a process with handlers is an init nevertheless: dumb-init has a handler for each signal that
/// it waits for, which never runs. Its name is enough, since podnudge may not be able to read what it waits for.
pub(super) fn is_init(pid: i32, caught: u64, status: &str) -> bool {
    let has_one_thread = || status.lines().any(|line| line == "Threads:\t1");
    caught.count_ones() > MAX_WAITED
        && has_one_thread()
        && (parse_name(status) == "dumb-init"
            || matches!(threads(pid).as_slice(), [only] if only.waits_like_an_init()))
}

/// What the threads of a process do about this signal, for a process that does not take it.
pub(super) fn describe_threads(pid: i32, signal: Signal) -> String {
    let threads = threads(pid);
    let takes = |thread: &Thread| thread.set().is_some_and(|set| contains(set, signal));
    let is_unsafe = |thread: &&Thread| !contains(thread.blocked, signal) && !takes(thread);
    let unsafe_ones = threads.iter().filter(is_unsafe).count();
    match (unsafe_ones, threads.len()) {
        (0, _) => format!("its threads block {signal}, and podnudge sees none that waits for it"),
        (1, 1) => format!("its thread neither waits for {signal} nor blocks it"),
        (1, all) => format!("1 of its {all} threads neither waits for {signal} nor blocks it"),
        (some, all) => {
            format!("{some} of its {all} threads neither wait for {signal} nor block it")
        }
    }
}

/// Whether a thread of the process has one of these names.
pub(super) fn has_thread(pid: i32, names: &[&str]) -> bool {
    threads(pid).iter().any(|thread| names.contains(&thread.name.as_str()))
}

struct Thread {
    name: String,
    blocked: u64,
    waited: Waited,
}

/// The signals that a thread waits for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Nothing,
    Set(u64),
    Unreadable,
}

fn threads(pid: i32) -> Vec<Thread> {
    let process = format!("/proc/{pid}");
    let tasks = fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
    tasks.map(|task| Thread::read(&task.path(), &process)).collect()
}

impl Thread {
    fn read(task: &Path, process: &str) -> Self {
        // Its name, which the kernel cuts after 15 bytes, need not be UTF-8.
        let status = fs::read(task.join("status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        Self {
            name: parse_name(&status).to_owned(),
            blocked: parse_mask(&status, "SigBlk:").unwrap_or_default(),
            waited: Waited::read(task, process),
        }
    }

    fn set(&self) -> Option<u64> {
        match self.waited {
            Waited::Set(set) => Some(set),
            Waited::Nothing | Waited::Unreadable => None,
        }
    }

    fn is_unreadable(&self) -> bool {
        self.waited == Waited::Unreadable
    }

    fn waits_like_an_init(&self) -> bool {
        self.set().is_some_and(|set| set.count_ones() > MAX_WAITED)
    }
}

impl Waited {
    fn read(task: &Path, process: &str) -> Self {
        let Ok(syscall) = fs::read_to_string(task.join("syscall")) else {
            return Self::by_kernel_function(task, Self::Unreadable);
        };
        match parse_syscall(&syscall) {
            // A 32-bit program uses another number.
            SystemCall::Other => Self::by_kernel_function(task, Self::Nothing),
            SystemCall::WaitsFor(set) => read_set(process, set).map_or(Self::Unreadable, Self::Set),
        }
    }

    /// By `/proc/PID/task/TID/wchan`, such as `do_sigtimedwait`; 0 if the thread runs, or if podnudge may
    /// not read it.
    fn by_kernel_function(task: &Path, without_one: Self) -> Self {
        let function = fs::read_to_string(task.join("wchan")).unwrap_or_default();
        match function.trim() {
            "" | "0" => without_one,
            function if function.contains("sigtimedwait") => Self::Unreadable,
            _ => Self::Nothing,
        }
    }
}

/// The system call that a thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemCall {
    /// The thread waits for signals; their set is at this address.
    WaitsFor(u64),
    /// Any other one, or none.
    Other,
}

/// Parses `/proc/PID/task/TID/syscall`, `128 0x7ffc… …`: the number of the system call, and its
/// arguments. The first one of `rt_sigtimedwait(2)` points to the set.
pub(super) fn parse_syscall(text: &str) -> SystemCall {
    let mut words = text.split_ascii_whitespace();
    if words.next().and_then(|number| number.parse().ok()) != Some(SYS_rt_sigtimedwait) {
        return SystemCall::Other;
    }
    let address = words.next().and_then(|address| address.strip_prefix("0x"));
    let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    // Nothing can be read at 0.
    SystemCall::WaitsFor(address.unwrap_or_default())
}

fn read_set(process: &str, address: u64) -> Option<u64> {
    let memory = File::open(format!("{process}/mem")).ok()?;
    let mut set = [0; 8];
    memory.read_exact_at(&mut set, address).ok()?;
    Some(u64::from_ne_bytes(set))
}

fn has_signalfd(pid: i32, signal: Signal) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    // Those of inotify have a line for each watch.
    let mut infos = files.filter_map(|file| read_proc_file(file.path().to_str()?).ok());
    infos.any(|info| {
        parse_mask(&String::from_utf8_lossy(&info), "sigmask:")
            .is_some_and(|mask| contains(mask, signal))
    })
}
