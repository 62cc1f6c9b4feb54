//! How a process treats a signal: it takes it, passes it on, would end, or may handle it later.
//!
//! Reads `/proc`; changes nothing. The answer holds for the moment of the reading only.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::Identity;
use super::proc::{self, contains};
use super::sigwait::{Taker, is_init, taker};
use super::starter::{is_foreign_supervisor, runs};
use super::texts::{parse_mask, parse_name};

/// A process without a handler that is younger than this may still be starting.
pub(super) const STARTUP_TIME: Duration = Duration::from_secs(10);

/// How a process treats a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handling {
    /// The process takes the signal: by a handler, by waiting for it, or by a signalfd.
    Taken,
    /// The process is an init, which waits for nearly all signals and passes them on to its child.
    Init,
    /// The process is a supervisor such as runsvdir, which may end or restart its programs on the signal.
    Supervisor,
    /// The process blocks the signal and has no handler now, as the master of `HAProxy` during its exec.
    Blocked,
    /// The process has no handler, but has just started.
    Starting,
    /// The process does not take the signal.
    Untaken(Effect),
    /// The process is bash with a trap for `EXIT`, whose handler ends it on any signal without a trap. Whether it
    /// has a trap for this one cannot be read.
    ExitTrap,
    /// The process has no handler, and podnudge may not read whether it waits for the signal.
    Unreadable(Effect),
}

/// What the signal would do to a process that does not take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The process would end.
    End,
    /// The process ignores it.
    Nothing,
}

/// How a process with this `/proc/PID/status` treats a signal.
pub(super) fn handling(status: &str, process: Identity, signal: Signal) -> Handling {
    if is_foreign_supervisor(parse_name(status), process.pid) {
        return Handling::Supervisor;
    }
    let has = |field: &str| parse_mask(status, field).is_some_and(|mask| contains(mask, signal));
    let caught = parse_mask(status, "SigCgt:").unwrap_or_default();
    let is_caught = contains(caught, signal);
    let has_exit_trap = is_caught && is_bash_with_exit_trap(process.pid, caught, signal);
    if is_caught && !has_exit_trap {
        let is_init = is_init(process.pid, caught, status);
        return if is_init { Handling::Init } else { Handling::Taken };
    }
    let effect = if has("SigIgn:") { Effect::Nothing } else { Effect::End };
    match taker(process.pid, signal) {
        Taker::Process => Handling::Taken,
        Taker::Init => Handling::Init,
        _ if has("SigBlk:") => Handling::Blocked,
        _ if is_young(process) => Handling::Starting,
        // bash waits for no signals.
        _ if has_exit_trap => Handling::ExitTrap,
        Taker::Nobody => Handling::Untaken(effect),
        Taker::Unreadable => Handling::Unreadable(effect),
    }
}

/// Bash with a trap for `EXIT` handles these signals in order to run the trap, unless they were ignored at
/// its start: `initialize_terminating_signals` in its sig.c; measured with bash 5.2.
const HANDLED_BY_BASH: u64 = 0x4380_7efb;

/// Whether the handler of the signal may be the one with which bash runs the trap for `EXIT` and ends.
fn is_bash_with_exit_trap(pid: i32, caught: u64, signal: Signal) -> bool {
    // No script has traps for all of these.
    let never_trapped = [Signal::SIGILL, Signal::SIGSYS, Signal::SIGXCPU, Signal::SIGVTALRM];
    contains(HANDLED_BY_BASH, signal)
        && never_trapped.iter().all(|signal| contains(caught, *signal))
        && runs(pid, &["bash", "sh"])
}

/// Whether the process may still be starting.
pub(super) fn is_young(process: Identity) -> bool {
    proc::age(process) < STARTUP_TIME
}
