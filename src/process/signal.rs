//! The only module that signals others than the own children of podnudge and what these have left, as
//! [`podnudge_supervise::signal`] does.
//!
//! It opens a pidfd first, unless the process was pinned before it was selected (`pin.rs`), then checks the process
//! again, then sends the signal through the pidfd. So the signal reaches the process that was checked, or none
//! (`pidfd_open(2)`).

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::signal::Signal;
use rustix::io::Errno;
use rustix::process::{Pid, pidfd_send_signal};

use super::exit_watch::{self, ExitWatch};
use super::find::TargetProcess;
use super::handling::{Effect, Handling, handling, is_young};
use super::proc::{self, contains};
use super::sigwait::{describe_threads, has_thread};
use super::starter::runs;
use super::texts::parse_mask;
use super::{Identity, ProcessState, process_state};
use podnudge_config::SignalAction;
use podnudge_core::reason::Reason;
use podnudge_supervise::pidfd::{self, NotOpened};

/// The bit of `CAP_KILL` (capabilities(7)).
const CAP_KILL: u32 = 5;
/// How to choose the application instead of the process that starts it.
const NAME_IT: &str = "name the application's own process by process, exe or cmdline";

/// Why a signal was not sent. None of these had any effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// The process has ended, and its pid may have been reused.
    Gone(Reason),
    /// The process does not handle the signal yet: it has just started, or is calling exec.
    Starting(Reason),
    /// The signal would do harm or nothing, or podnudge has no permission.
    Refused(Reason),
    /// The signal was not sent for another reason, which may pass.
    Failed(Reason),
}

impl SendError {
    /// The message and its hint.
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

/// A signal that may be sent: the process is the selected one and handles the signal.
#[derive(Debug)]
pub struct Ready<'a> {
    chosen: &'a TargetProcess,
    signal: Signal,
    handle: Handle,
}

/// How the process is addressed.
#[derive(Debug)]
enum Handle {
    Pidfd(Arc<OwnedFd>),
    /// Without pidfds (before Linux 5.3, or where seccomp forbids them): by pid, directly after the
    /// start time was compared.
    Pid,
}

/// Checks that the process still is the selected one and handles the signal.
///
/// This cannot detect one case: the Go runtime has a HUP handler of its own, which ends the process
/// unless the program handles HUP. Only the verification shows that. A Java virtual machine is refused.
///
/// # Errors
/// If it must not be sent, with the reason.
pub fn prepare(chosen: &TargetProcess, action: SignalAction) -> Result<Ready<'_>, SendError> {
    let handle = match chosen.pin.look() {
        Some((_, true)) => return Err(gone(chosen)),
        Some((pidfd, false)) => Handle::Pidfd(pidfd),
        None => open_and_check(chosen)?,
    };
    if !action.allow_unhandled {
        check_handled(chosen, action.name)?;
    }
    Ok(Ready { chosen, signal: action.name, handle })
}

/// Opens the process, if it still is the selected one.
fn open_and_check(chosen: &TargetProcess) -> Result<Handle, SendError> {
    match pidfd::open(chosen.identity) {
        Ok(Some(pidfd)) => Ok(Handle::Pidfd(Arc::new(pidfd))),
        Ok(None) => Ok(Handle::Pid),
        Err(NotOpened::Failed(Errno::SRCH)) => Err(gone(chosen)),
        Err(NotOpened::Failed(error)) => {
            let reason = format!("cannot open process {}: {error}", chosen.name);
            Err(SendError::Failed(Reason::new(reason)))
        }
        Err(NotOpened::Ended(reason)) => Err(SendError::Gone(reason)),
        Err(NotOpened::Unknown(reason)) => Err(SendError::Failed(reason)),
    }
}

impl Ready<'_> {
    /// Checks the permission to send the signal.
    ///
    /// # Errors
    /// If it is missing, with the reason.
    pub fn check_permission(&self) -> Result<(), SendError> {
        let pid = nix::unistd::Pid::from_raw(self.chosen.identity.pid);
        // Signal 0 only checks the permission (kill(2)).
        let asked = nix::sys::signal::kill(pid, None);
        self.outcome(asked.map_err(|error| Errno::from_raw_os_error(error as i32)))
    }

    /// Sends the signal.
    ///
    /// # Errors
    /// If it was not sent, with the reason.
    pub fn send(&self) -> Result<(), SendError> {
        let sent = match &self.handle {
            Handle::Pidfd(fd) => {
                let number = rustix::process::Signal::from_named_raw(self.signal as i32);
                number.ok_or(Errno::INVAL).and_then(|signal| pidfd_send_signal(fd, signal))
            }
            Handle::Pid => {
                // It may have been opened long ago.
                match process_state(self.chosen.identity) {
                    ProcessState::Running => {}
                    ProcessState::Ended(reason) => return Err(SendError::Gone(reason)),
                    ProcessState::Unknown(reason) => return Err(SendError::Failed(reason)),
                }
                let pid = nix::unistd::Pid::from_raw(self.chosen.identity.pid);
                nix::sys::signal::kill(pid, self.signal)
                    .map_err(|error| Errno::from_raw_os_error(error as i32))
            }
        };
        self.outcome(sent)
    }

    /// The same process with another signal.
    pub(super) fn with_signal(self, signal: Signal) -> Self {
        Self { signal, ..self }
    }

    /// Waits until the process has ended.
    pub(super) async fn wait_for_exit(&self) {
        if let Handle::Pidfd(fd) = &self.handle
            && let Ok(exit) = fd.try_clone().and_then(ExitWatch::new)
        {
            exit.wait().await;
        } else {
            exit_watch::wait_without_pidfd(self.chosen.identity).await;
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

/// Why the process has not received a signal that was sent to it: it is still pending. A stopped,
/// traced or frozen process handles no signal until it continues.
#[must_use]
pub fn pending(identity: Identity, signal: Signal) -> Option<Reason> {
    let status = proc::status(identity.pid).ok().flatten()?;
    let is_pending = parse_mask(&status, "ShdPnd:").is_some_and(|mask| contains(mask, signal));
    if !is_pending {
        return None;
    }
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let name = field("Name:").unwrap_or_default().trim();
    let state = field("State:").unwrap_or_default().trim();
    let pid = identity.pid;
    let reason =
        format!("process {pid} ({name}) has not received {signal} yet; its state is {state}");
    let hint = "a stopped, traced or frozen process handles signals only when it continues";
    Some(Reason::new(reason).hint(hint))
}

fn gone(chosen: &TargetProcess) -> SendError {
    SendError::Gone(Reason::new(format!("process {} ended", chosen.name)))
}

/// A signal to a program that podnudge itself has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// Signals the process group of a program that podnudge has started in a group of its own and not
/// reaped yet: until then the kernel does not reuse the group's number. An empty group is not an
/// error.
pub fn send_to_own_group(leader: Pid, signal: GroupSignal) {
    let signal = match signal {
        GroupSignal::Term => rustix::process::Signal::TERM,
        GroupSignal::Kill => rustix::process::Signal::KILL,
    };
    _ = rustix::process::kill_process_group(leader, signal);
}

/// Checks how the process treats the signal: without a handler it would be terminated, and if it ignores
/// the signal nothing would happen. A blocked signal is checked again later.
fn check_handled(chosen: &TargetProcess, signal: Signal) -> Result<(), SendError> {
    let name = &chosen.name;
    let status = chosen.pin.status(chosen.identity.pid).map_err(SendError::Failed)?;
    let handling = status.map(|status| handling(&status, chosen.identity, signal));
    let allow = "allow-unhandled = true sends the signal anyway";
    let seen = || describe_threads(chosen.identity.pid, signal);
    let effect = match handling.ok_or_else(|| gone(chosen))? {
        Handling::Taken if let Some((runtime, does)) = runtime_handler(chosen, signal) => {
            let what = format!("process {name} is {runtime}, which {does} on {signal}");
            return Err(SendError::Refused(Reason::new(what).hint(format!(
                "reload by a URL, such as `/actuator/refresh` of Spring Boot; if the application has a handler of its own for it, {allow}"
            ))));
        }
        Handling::Taken => return Ok(()),
        Handling::Init if is_young(chosen.identity) => {
            let what = format!(
                "process {name} is an init that has just started, and no process below it handles {signal} yet"
            );
            return Err(SendError::Starting(Reason::new(what)));
        }
        Handling::Init => {
            let what = format!("process {name} is an init, which passes {signal} on to its child");
            return Err(SendError::Refused(Reason::new(what).hint(format!(
                "podnudge found no process below it that handles {signal}; {NAME_IT}"
            ))));
        }
        Handling::Supervisor => {
            let what = format!(
                "process {name} is a supervisor, which may end its programs on {signal}, and no process below it handles {signal}"
            );
            return Err(SendError::Refused(Reason::new(what).hint(format!("{NAME_IT}; {allow}"))));
        }
        // HAProxy's master does so during its exec, whether it ignores the signal or not.
        Handling::Blocked => {
            let what = format!("process {name} blocks {signal}, and has no handler for it now");
            let hint = format!(
                "{}; it may be restarting; if it waits for signals and runs as another uid, which podnudge cannot see, {allow}",
                seen()
            );
            return Err(SendError::Starting(Reason::new(what).hint(hint)));
        }
        Handling::Starting => {
            let what = format!("process {name} has just started, and does not handle {signal} yet");
            return Err(SendError::Starting(Reason::new(what)));
        }
        Handling::ExitTrap => {
            let what = format!(
                "process {name} is bash with a trap for EXIT: it would end on {signal}, unless it has a trap for that, too"
            );
            return Err(SendError::Refused(Reason::new(what).hint(allow)));
        }
        Handling::Untaken(effect) | Handling::Unreadable(effect) => effect,
    };
    let what = match effect {
        Effect::Nothing => format!("process {name} ignores {signal}: nothing would happen"),
        Effect::End => format!("process {name} does not handle {signal}: it would end"),
    };
    let hint = if matches!(handling, Some(Handling::Unreadable(_))) {
        format!(
            "podnudge may not read whether it waits for signals: run podnudge as its uid, with all of its capabilities; if it only starts the application, {NAME_IT}"
        )
    } else {
        format!(
            "configure the signal on which the application reloads, a URL, or `restart`; {}; {allow}",
            seen()
        )
    };
    Err(SendError::Refused(Reason::new(what).hint(hint)))
}

/// What a language runtime does on a signal for which it has a handler of its own, and the application may
/// have none.
fn runtime_handler(chosen: &TargetProcess, signal: Signal) -> Option<(&'static str, &'static str)> {
    match (chosen.comm.as_str(), signal) {
        // Its other handlers are for its own use: USR2 from outside crashes it (java(1), `-Xrs`).
        ("java", Signal::SIGHUP | Signal::SIGINT | Signal::SIGTERM) => {
            Some(("a Java virtual machine", "shuts down"))
        }
        ("java", _) => Some(("a Java virtual machine", "does not reload")),
        (_, Signal::SIGUSR1) if is_node(chosen.identity.pid) => {
            Some(("Node.js", "starts its debugger"))
        }
        _ => None,
    }
}

/// Whether a process is Node.js. The names of its main thread and its arguments are those that the application sets
/// (`process.title`), or those of Node.js itself, such as `MainThread`; its thread that waits for USR1 keeps its own.
fn is_node(pid: i32) -> bool {
    runs(pid, &["node"]) || has_thread(pid, &["node", "SignalInspector"])
}

/// Explains EPERM in terms of the pod's spec (kill(2): the same uid, or `CAP_KILL`).
fn not_permitted(chosen: &TargetProcess, target: u32) -> Reason {
    let own = rustix::process::geteuid().as_raw();
    let reason = Reason::new(format!(
        "cannot signal process {}: podnudge runs as uid {own} and the target as uid {target}",
        chosen.name
    ));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let can_kill = parse_mask(&status, "CapEff:").is_some_and(|mask| mask >> CAP_KILL & 1 == 1);
    match (own, can_kill) {
        (_, true) => reason.hint("a security module of the node (AppArmor, SELinux) refuses it; see its log"),
        (0, false) => reason.hint(format!(
            "set runAsUser: {target} in the securityContext of podnudge's container, or capabilities: {{drop: [ALL], add: [KILL]}} there"
        )),
        (_, false) if target == 0 => reason.hint(
            "set runAsUser: 0 and runAsNonRoot: false in the securityContext of podnudge's container",
        ),
        (_, false) => reason.hint(format!(
            "set runAsUser: {target} in the securityContext of podnudge's container, or run it as root (runAsUser: 0, runAsNonRoot: false) with capabilities: {{drop: [ALL], add: [KILL]}} (added capabilities do nothing for a uid other than 0)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::pin::Pin;
    use super::*;

    /// The process that was selected has ended since, and another one has its pid.
    #[test]
    fn without_a_pidfd_another_process_with_the_pid_is_not_signalled() {
        let mut other = Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = i32::try_from(other.id()).expect("a pid");
        let chosen = TargetProcess {
            identity: Identity { pid, start_ticks: 1 },
            name: format!("{pid} (sleep)"),
            comm: "sleep".to_owned(),
            is_root: true,
            is_container: false,
            container: String::new(),
            wrappers: Vec::new(),
            ancestors: Vec::new(),
            pin: Pin::default(),
        };
        let ready = Ready { chosen: &chosen, signal: Signal::SIGKILL, handle: Handle::Pid };
        assert!(matches!(ready.send(), Err(SendError::Gone(_))));
        assert!(other.try_wait().expect("it is a child").is_none());
        other.kill().expect("it can be ended");
        other.wait().expect("it ends");
    }
}
