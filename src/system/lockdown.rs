//! Closes podnudge's process to its neighbours, and takes from the processes that it starts what they do
//! not need. In a shared process namespace, a process with the same uid could read podnudge's memory and
//! its environment, and reach its files through `/proc/PID/root`.
//!
//! Changes only the calling process, and what its children inherit.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::prctl;
use nix::sys::signal::SigSet;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{FORBIDDEN, SIGPIPE};

/// The limits of programs: the soft one, which a program may raise, and the hard one. There is none on
/// processes, which the kernel counts for all containers of a uid on the node, and none on the address
/// space, of which Go programs reserve far more than they use.
const LIMITS: [(Resource, u64, u64); 3] = [
    (Resource::Core, 0, 0),
    (Resource::Nofile, 1024, 65_536),
    // One file, in bytes: 1 GiB.
    (Resource::Fsize, 1 << 30, 1 << 30),
];
/// The value with which the kernel ends a process first when memory is short (proc(5)).
const FIRST: &str = "1000";
/// The first and last numbers of signals; the C library reserves 32 and 33.
const SIGNALS: [std::ops::RangeInclusive<i32>; 2] = [1..=31, 34..=64];

/// Makes this process not dumpable (`PR_SET_DUMPABLE`), and keeps the programs that it runs from gaining
/// privileges (`PR_SET_NO_NEW_PRIVS`). Call it first: threads and programs inherit the second.
pub fn begin() {
    // Kernels of this century know both; without them podnudge works all the same.
    _ = prctl::set_dumpable(false);
    _ = prctl::set_no_new_privs();
}

/// Closes all descriptors but standard input, output and error. Only for a process that has opened
/// nothing yet: what it closes was left open by whoever started podnudge.
pub(crate) fn close_inherited() {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let open: Vec<i32> = open.filter_map(|entry| number(entry.ok()?)).collect();
    for inherited in open.into_iter().filter(|number| *number > 2) {
        // One of them was that of the directory, which is closed already.
        _ = nix::unistd::close(inherited);
    }
}

/// Sets the limits of programs, for this process and those that it starts.
pub(crate) fn limit_resources() {
    for (resource, soft, hard) in LIMITS {
        let now = getrlimit(resource);
        let least = |now: Option<u64>, most: u64| Some(now.map_or(most, |now| now.min(most)));
        let (current, maximum) = (least(now.current, soft), least(now.maximum, hard));
        // It only lowers them, which is always allowed.
        _ = setrlimit(resource, Rlimit { current, maximum });
    }
}

/// Handles all signals by doing nothing, and unblocks them: none ends or stops this process but KILL, STOP
/// and what reports a broken program. The programs that it starts begin with the default disposition of
/// all signals, since execve(2) resets handlers: under `nohup`, podnudge itself ignores HUP.
pub(crate) fn handle_all_signals() {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS.into_iter().flatten() {
        // The standard library ignores PIPE in this process, and not in its children.
        if signal != SIGPIPE && !FORBIDDEN.contains(&signal) {
            drop(signal_hook::flag::register(signal, Arc::clone(&flag)));
        }
    }
    _ = SigSet::empty().thread_set_mask();
}

/// Lets the kernel end this process before others when memory is short. Call it before [`begin`], after
/// which the file belongs to root.
pub fn be_ended_first() {
    drop(fs::write("/proc/self/oom_score_adj", FIRST));
}

/// How early the kernel ends this process when memory is short, which its children inherit.
#[derive(Debug)]
pub(crate) struct OomScore {
    file: File,
    own: String,
}

impl OomScore {
    /// Opens it. Call it before [`begin`], after which the file belongs to root.
    pub(crate) fn open() -> Option<Self> {
        let path = "/proc/self/oom_score_adj";
        let own = fs::read_to_string(path).ok()?;
        Some(Self { file: OpenOptions::new().write(true).open(path).ok()?, own })
    }

    /// Makes the children that are started from now on end first.
    pub(crate) fn raise(&mut self) {
        drop(self.file.write_all(FIRST.as_bytes()));
    }

    /// Makes the calling process end no earlier than before.
    pub(crate) fn restore(&mut self) {
        drop(self.file.write_all(self.own.as_bytes()));
    }
}
