//! Opens processes (`pidfd_open(2)`). Until a process is open its pid may be reused, so it is looked at afterwards: what
//! was seen then is true of what is open.
//!
//! Reads `/proc/PID/stat`.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Identity;
use super::liveness::{ProcessState, process_state};
use podnudge_core::reason::Reason;

/// Why a process was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotOpened {
    /// The system call failed.
    Failed(Errno),
    /// The process has ended, and its pid may have been reused.
    Ended(Reason),
    /// Whether the process runs is not known: `/proc` cannot be read now.
    Unknown(Reason),
}

/// Opens a process that runs. Returns `None` if it runs and there are no pidfds (before Linux 5.3, or where seccomp
/// forbids them).
///
/// # Errors
/// If it has ended, or cannot be opened.
pub fn open(identity: Identity) -> Result<Option<OwnedFd>, NotOpened> {
    let pidfd = match open_pid(identity.pid) {
        Ok(pidfd) => Some(pidfd),
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(error) => return Err(NotOpened::Failed(error)),
    };
    match process_state(identity) {
        ProcessState::Running => Ok(pidfd),
        ProcessState::Ended(reason) => Err(NotOpened::Ended(reason)),
        ProcessState::Unknown(reason) => Err(NotOpened::Unknown(reason)),
    }
}

/// Opens the process that has this pid now. Whether it is the one that is meant can only be seen afterwards.
///
/// # Errors
/// If there is none, or it cannot be opened.
fn open_pid(pid: i32) -> Result<OwnedFd, Errno> {
    pidfd_open(Pid::from_raw(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::stat;

    #[test]
    fn a_process_is_opened_only_if_it_is_the_one_that_is_meant() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let start_ticks = stat(pid).expect("it can be read").expect("it runs").start_ticks;
        let identity = Identity { pid, start_ticks };
        assert!(matches!(open(identity), Ok(Some(_))));
        let earlier = Identity { start_ticks: start_ticks - 1, ..identity };
        assert!(matches!(open(earlier), Err(NotOpened::Ended(_))));
        for pid in [0, i32::MAX] {
            let nobody = Identity { pid, ..identity };
            assert!(matches!(open(nobody), Err(NotOpened::Failed(Errno::SRCH))));
        }
    }
}
