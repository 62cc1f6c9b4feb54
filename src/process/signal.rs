//! Signalling: alone signals other processes.
//!
//! A pidfd is opened first, then everything is looked at again, then the signal goes through the
//! pidfd: whatever happens in between, it reaches the process that was looked at or none
//! (see `pidfd_open(2)`).

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::ending::{self, Ending};
use super::find::Chosen;
use super::life::{Life, life};
use super::proc;
use crate::config::SignalAction;
use crate::reason::Reason;

/// A process younger than this that does not handle the signal may only be starting.
const STARTING: Duration = Duration::from_secs(10);
/// The bit of `CAP_KILL` (capabilities(7)).
const CAP_KILL: u32 = 5;

/// Why a signal was not sent. None of these has had any effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// The process ended, and perhaps another one has its pid.
    Gone(Reason),
    /// It does not handle the signal, but it has only just started, or does so anew.
    Starting(Reason),
    /// It would be wrong, or it is not permitted.
    Refused(Reason),
    /// It did not work, and may later.
    Failed(Reason),
}

impl SendError {
    /// What to tell people.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Gone(reason)
            | Self::Starting(reason)
            | Self::Refused(reason)
            | Self::Failed(reason) => reason.clone(),
        }
    }
}

/// A signal that may be sent: the process is the one that was chosen and handles it.
#[derive(Debug)]
pub struct Ready<'a> {
    chosen: &'a Chosen,
    signal: Signal,
    handle: Handle,
}

/// How the process is addressed.
#[derive(Debug)]
enum Handle {
    Pidfd(OwnedFd),
    /// Where pidfds are not to be had (before Linux 5.3, or refused by seccomp): by number, right
    /// after the look at its start time.
    Number,
}

/// Makes sure that the signal may be sent to the process that was chosen: it is still that one
/// and handles the signal.
///
/// What this does not know: the Go runtime and the JVM handle HUP themselves and then end, if the
/// program did not ask for it. That shows only afterwards, in the verification.
///
/// # Errors
/// If it must not be sent, with the reason.
pub fn prepare(chosen: &Chosen, action: SignalAction) -> Result<Ready<'_>, SendError> {
    let pid = Pid::from_raw(chosen.identity.pid).ok_or_else(|| gone(chosen))?;
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Handle::Pidfd(fd),
        Err(Errno::SRCH) => return Err(gone(chosen)),
        Err(Errno::NOSYS | Errno::PERM) => Handle::Number,
        Err(error) => {
            let reason = format!("cannot open process {}: {error}", chosen.name);
            return Err(SendError::Failed(Reason::new(reason)));
        }
    };
    match life(chosen.identity) {
        Life::Runs => {}
        Life::Ended(reason) => return Err(SendError::Gone(reason)),
        Life::Unknown(reason) => return Err(SendError::Failed(reason)),
    }
    if !action.allow_unhandled {
        is_handled(chosen, action.name)?;
    }
    Ok(Ready { chosen, signal: action.name, handle })
}

impl Ready<'_> {
    /// Whether the system would let the signal through.
    ///
    /// # Errors
    /// If not, with the reason.
    pub fn is_permitted(&self) -> Result<(), SendError> {
        let pid = nix::unistd::Pid::from_raw(self.chosen.identity.pid);
        // Signal 0 only asks (kill(2)).
        let asked = nix::sys::signal::kill(pid, None);
        self.outcome(asked.map_err(|error| Errno::from_raw_os_error(error as i32)))
    }

    /// Sends it.
    ///
    /// # Errors
    /// If it was not sent, with the reason.
    pub fn send(&self) -> Result<(), SendError> {
        let sent = match &self.handle {
            Handle::Pidfd(fd) => {
                let number = rustix::process::Signal::from_named_raw(self.signal as i32);
                number.ok_or(Errno::INVAL).and_then(|signal| pidfd_send_signal(fd, signal))
            }
            Handle::Number => {
                let pid = nix::unistd::Pid::from_raw(self.chosen.identity.pid);
                nix::sys::signal::kill(pid, self.signal)
                    .map_err(|error| Errno::from_raw_os_error(error as i32))
            }
        };
        self.outcome(sent)
    }

    /// The same process, for another signal.
    pub(super) fn with(self, signal: Signal) -> Self {
        Self { signal, ..self }
    }

    /// Waits until the process has ended.
    pub(super) async fn ended(&self) {
        if let Handle::Pidfd(fd) = &self.handle
            && let Ok(ending) = fd.try_clone().and_then(Ending::of)
        {
            ending.wait().await;
        } else {
            ending::wait_without_pidfd(self.chosen.identity).await;
        }
    }

    fn outcome(&self, sent: Result<(), Errno>) -> Result<(), SendError> {
        let chosen = self.chosen;
        match sent {
            Ok(()) => Ok(()),
            Err(Errno::SRCH) => Err(gone(chosen)),
            Err(Errno::PERM) => match proc::uid(chosen.identity.pid) {
                Ok(Some(uid)) => Err(SendError::Refused(not_permitted(chosen, uid))),
                Ok(None) => Err(gone(chosen)),
                Err(reason) => Err(SendError::Failed(reason)),
            },
            Err(error) => Err(SendError::Failed(Reason::new(format!(
                "cannot send {} to process {}: {error}",
                self.signal, chosen.name
            )))),
        }
    }
}

fn gone(chosen: &Chosen) -> SendError {
    SendError::Gone(Reason::new(format!("process {} ended", chosen.name)))
}

/// What podnudge says to a program that it started itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// Please end.
    Term,
    /// End.
    Kill,
}

/// Signals the process group of a program that podnudge has started as a group of its own and has
/// not reaped yet: until then nobody else can have its number. That there may be nobody left is no
/// error.
pub fn send_to_own_group(leader: Pid, signal: GroupSignal) {
    let signal = match signal {
        GroupSignal::Term => rustix::process::Signal::TERM,
        GroupSignal::Kill => rustix::process::Signal::KILL,
    };
    _ = rustix::process::kill_process_group(leader, signal);
}

/// Looks into `/proc/PID/status` for what the process does on the signal: without a handler it
/// would die, and if it ignores the signal nothing would happen. Where it blocks the signal, that
/// is to be seen when it does not any more.
fn is_handled(chosen: &Chosen, signal: Signal) -> Result<(), SendError> {
    let name = &chosen.name;
    let status = proc::status(chosen.identity.pid).map_err(SendError::Failed)?;
    let status = status.ok_or_else(|| gone(chosen))?;
    let has =
        |field: &str| mask(&status, field).is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1);
    let allow = "allow-unhandled = true sends it all the same";
    if has("SigCgt:") {
        return Ok(());
    }
    if has("SigBlk:") {
        // As HAProxy's master does while it executes itself anew, ignored or not.
        let what = format!("process {name} blocks {signal}, and has no handler for it now");
        let hint = format!("it may be starting anew; if it takes signals by sigwait(3), {allow}");
        return Err(SendError::Starting(Reason::new(what).hint(hint)));
    }
    if proc::age(chosen.identity) < STARTING {
        let what =
            format!("process {name} has only just started, and does not handle {signal} yet");
        return Err(SendError::Starting(Reason::new(what)));
    }
    let what = if has("SigIgn:") {
        format!("process {name} ignores {signal}: nothing would happen")
    } else {
        format!("process {name} does not handle {signal}: it would end")
    };
    let hint = format!("name the signal on which the application reloads, or use a URL; {allow}");
    Err(SendError::Refused(Reason::new(what).hint(hint)))
}

/// A mask of `/proc/PID/status`: hexadecimal, bit 0 for signal or capability 1 or 0.
fn mask(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// EPERM, in terms of the pod's spec (kill(2): the same uid, or `CAP_KILL`).
fn not_permitted(chosen: &Chosen, target: u32) -> Reason {
    let own = rustix::process::geteuid().as_raw();
    let reason = Reason::new(format!(
        "cannot signal process {}: podnudge runs as uid {own} and the target as uid {target}",
        chosen.name
    ));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let can_kill = mask(&status, "CapEff:").is_some_and(|mask| mask >> CAP_KILL & 1 == 1);
    match (own, can_kill) {
        (_, true) => reason.hint("a security module of the node (AppArmor, SELinux) refuses it; see its log"),
        (0, false) => reason.hint(format!(
            "set runAsUser: {target} in the securityContext of podnudge's container, or capabilities: {{drop: [ALL], add: [KILL]}} there"
        )),
        (_, false) => reason.hint(format!(
            "set runAsUser: {target} in the securityContext of podnudge's container, or run it as root with capabilities: {{drop: [ALL], add: [KILL]}} (added capabilities do nothing for a uid other than 0)"
        )),
    }
}
