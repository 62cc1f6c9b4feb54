//! `podnudge supervise -- COMMAND`: a small init for the container of the application. It starts the
//! command, passes signals on, reaps, and ends with the command's exit code. If podnudge asks for a restart,
//! it starts the command anew in the same container, so that the kubelet sees no end and applies no back-off.
//!
//! A crate of its own, so that the compiler keeps the runtime out of it: it is charged to the memory
//! of each application. `machine` decides, this file reads the signals and performs, `command` starts the command.
//!
//! The name of the process ([`marks`]) tells podnudge what it is: it is never selected as a target, and orphans that it
//! has adopted count as children of the command (`src/process/candidates.rs`). For a restart, `src/process/below_supervise.rs`
//! looks for one above the target.
//!
//! The request is a signal that nothing else uses ([`marks::REQUEST`]): the kernel lets only processes with the
//! supervisor's uid and those with `CAP_KILL` send it, and they could end the command anyway. It is taken only if there
//! is nothing of the command to reap, as the order of the signals says nothing: so a crash at that moment stays a
//! crash.
//!
//! podnudge ends what its own programs have left in the same way ([`descendants`], [`signal`]), and recognises processes
//! by the same [`Identity`], which [`proc`] reads.
//!
//! Starts, signals and reaps the command; kills what a command has left before it starts the next one. Every signal is
//! blocked and read from a signalfd(2), so the process has no handler that the command could inherit the lack of, and does
//! nothing until one comes.

mod command;
pub mod descendants;
#[cfg(test)]
#[path = "../../../tests/fuzz/harness/mod.rs"]
mod fuzz;
mod identity;
mod liveness;
mod machine;
pub mod marks;
mod options;
pub mod pidfd;
pub mod proc;
pub mod signal;

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{SIGCHLD, signalfd_siginfo};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitOptions, WaitStatus};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use self::command::Command;
pub use self::command::{Cause, NotStarted};
pub use self::identity::Identity;
pub use self::liveness::{ProcessState, is_alive, process_state};
use self::machine::{Event, Next, State};
use self::marks::{REQUEST, SUPERVISOR};
use self::options::{Asked, Options, parse};
use self::signal::pass_on;
use podnudge_core::reason::Reason;

/// The first argument.
pub const COMMAND: &str = "supervise";

/// How long it tries to end what the command has left: at most 10 ms for each pass.
const PASSES: u32 = 100;
/// Added to the number of the signal that has ended the command, as in shells.
const BY_SIGNAL: i32 = 128;

/// Runs it with the arguments after `supervise`. Call it before anything else: the command inherits what
/// the process has changed. `report` gets a message for each restart. Returns the exit code for the end of the
/// command, or `None` if the help is asked for.
///
/// # Errors
/// If the command was not started, or not anew.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: fn() -> std::env::VarsOs,
    report: fn(&str),
) -> Result<Option<u8>, NotStarted> {
    match parse(arguments) {
        Ok(Asked::Supervise(options)) => {
            Supervisor::start(options, environment, report)?.run().map(Some)
        }
        Ok(Asked::Help) => Ok(None),
        Err(reason) => Err(NotStarted { cause: Cause::Usage, reason }),
    }
}

/// How the supervisor ends: with the exit code for the end of the command, or because that was not started anew.
type End = Result<u8, NotStarted>;

/// The supervisor and its command.
struct Supervisor {
    command: Command,
    state: State,
    stop: Signal,
    grace: Duration,
    /// The process of the command.
    child: Pid,
    signals: SignalFd,
    /// Can be read when the command has had its time to end.
    timer: OwnedFd,
    /// Who has asked for the restart in progress.
    requester: String,
    report: fn(&str),
}

impl Supervisor {
    fn start(
        options: Options,
        environment: fn() -> std::env::VarsOs,
        report: fn(&str),
    ) -> Result<Self, NotStarted> {
        let Options { grace, stop, command } = options;
        let (signals, mask, timer) = prepare().map_err(|error| NotStarted {
            cause: Cause::Unavailable,
            reason: Reason::new(format!("cannot read signals: {}", error.desc())),
        })?;
        let command = Command::new(command, environment, mask)
            .map_err(|reason| NotStarted { cause: Cause::Usage, reason })?;
        let child = command.start()?;
        let state = State::new(stop as i32);
        let requester = String::new();
        Ok(Self { command, state, stop, grace, child, signals, timer, requester, report })
    }

    fn run(mut self) -> End {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
            ];
            // Interrupted, it reports nothing, and is called again.
            _ = poll(&mut fds, None);
            let [signals, timer] = fds.map(|fd| !fd.revents().is_empty());
            if signals && let Some(end) = self.read_signals() {
                return end;
            }
            if timer
                && self.is_grace_over()
                && let Some(end) = self.perform(Event::GraceOver)
            {
                return end;
            }
        }
    }

    /// Whether the time of the last request is over: a signal may have set the timer anew.
    fn is_grace_over(&self) -> bool {
        matches!(rustix::io::read(&self.timer, &mut [0; size_of::<u64>()]), Ok(1..))
    }

    /// Handles all signals that have arrived. Returns how the supervisor is to end, if it is.
    fn read_signals(&mut self) -> Option<End> {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = i32::try_from(signal.ssi_signo).unwrap_or_default();
            let is_request = number == REQUEST as i32;
            // A command that ended before the request ended without one.
            let ended = if is_request || number == SIGCHLD { self.reap() } else { None };
            let event = match ended {
                Some(status) => Event::Ended(code(status)),
                None if number == SIGCHLD || is_own(&signal, number) => continue,
                None if is_request => {
                    self.requester = format!("process {} (uid {})", signal.ssi_pid, signal.ssi_uid);
                    Event::Request
                }
                None => Event::Signal(number),
            };
            if let Some(end) = self.perform(event) {
                return Some(end);
            }
        }
        None
    }

    /// Performs what follows from an event. Returns how the supervisor is to end, if it is.
    fn perform(&mut self, event: Event) -> Option<End> {
        match self.state.handle(event) {
            Next::Wait => {}
            Next::PassOn(signal) => pass_on(self.child, signal),
            Next::Stop => {
                self.set_timer(Some(self.grace));
                pass_on(self.child, self.stop as i32);
            }
            Next::Kill => {
                self.set_timer(None);
                pass_on(self.child, Signal::SIGKILL as i32);
            }
            Next::StartAnew(code) => return self.start_anew(code),
            Next::Exit(code) => return Some(Ok(code)),
        }
        None
    }

    fn start_anew(&mut self, code: u8) -> Option<End> {
        self.set_timer(None);
        end_left();
        let (old, name) = (self.child.as_raw_nonzero(), self.command.name());
        let ended = format!(
            "restart requested by {}: process {old} (`{name}`) ended with {code}",
            self.requester
        );
        match self.command.start() {
            Ok(child) => {
                self.child = child;
                let new = child.as_raw_nonzero();
                (self.report)(&format!("{ended}, and process {new} was started"));
                None
            }
            Err(not_started) => {
                (self.report)(&ended);
                Some(Err(not_started))
            }
        }
    }

    /// Reaps what has ended: the orphans of the container, and the command. Returns how that ended.
    fn reap(&mut self) -> Option<WaitStatus> {
        let mut ended = None;
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == self.child {
                ended = Some(status);
            }
        }
        ended
    }

    /// Sets the time after which `timer` can be read.
    fn set_timer(&self, wait: Option<Duration>) {
        // Zero would turn it off.
        let wait = wait.map(|wait| wait.max(Duration::from_nanos(1)));
        let it_value = Timespec::try_from(wait.unwrap_or_default()).unwrap_or_default();
        let it_interval = Timespec::default();
        let value = Itimerspec { it_interval, it_value };
        _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value);
    }
}

/// Whether the signal says that nobody reads the reports any more. It is not for the command.
fn is_own(signal: &signalfd_siginfo, number: i32) -> bool {
    number == Signal::SIGPIPE as i32 && signal.ssi_pid == std::process::id()
}

/// Kills and reaps what the command has left, as the end of a container does.
fn end_left() {
    descendants::end_and_reap(PASSES, &mut reap_left);
}

/// Reaps what has ended. Returns whether there is no other child, and so no descendant.
fn reap_left() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Makes this process the one that gets the signals and the orphans. Returns the signal mask that it was
/// started with.
fn prepare() -> Result<(SignalFd, SigSet, OwnedFd), Errno> {
    let all = SigSet::all();
    // A blocked signal waits, also one whose disposition is to be ignored: the dispositions stay as they
    // are, for the command.
    let mask = all.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let signals = SignalFd::with_flags(&all, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    // If CHLD were ignored, the kernel would reap the command, and its exit code would be lost. The handler
    // never runs.
    let registered = signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)));
    _ = registered.map_err(|_| Errno::EINVAL)?;
    let timer =
        timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .map_err(|error| Errno::from_raw(error.raw_os_error()))?;
    // Where the process is not pid 1, orphans would leave the container's tree.
    _ = prctl::set_child_subreaper(true);
    // Last: by its name podnudge recognises a process to which it may send a request.
    prctl::set_name(SUPERVISOR)?;
    Ok((signals, mask, timer))
}

/// The exit code for a process that has ended, as shells report it.
fn code(status: WaitStatus) -> u8 {
    let code = status
        .exit_status()
        .or_else(|| status.terminating_signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
