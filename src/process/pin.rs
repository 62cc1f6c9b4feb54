//! A process that was pinned before it was looked at, so that what was seen is true of whatever gets the signal.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Identity, proc};
use podnudge_core::clock::Moment;
use podnudge_core::reason::Reason;
use podnudge_supervise::pidfd::{self, NotOpened};

/// The status of a process is not read again within this time: after a second reading, the process could execute
/// another program just as well before the signal.
const FRESH: Duration = Duration::from_millis(1);

/// The pidfd of a process (`pidfd_open(2)`), if it was opened before the process was looked at, and what was seen last.
/// Two are always equal.
#[derive(Debug, Clone, Default)]
pub struct Pin {
    pidfd: Option<Arc<OwnedFd>>,
    /// `/proc/PID/status`, and when it was read.
    status: Option<(Moment, Arc<str>)>,
}

impl PartialEq for Pin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Pin {}

impl Pin {
    /// Pins this process. It is not pinned where there are no pidfds.
    ///
    /// # Errors
    /// If it has ended, or cannot be opened.
    pub(super) fn open(process: Identity) -> Result<Self, NotOpened> {
        let pidfd = pidfd::open(process)?.map(Arc::new);
        Ok(Self { pidfd, status: None })
    }

    /// The pidfd, and whether the process has ended since it was pinned; `None` if it is not pinned.
    pub(super) fn look(&self) -> Option<(Arc<OwnedFd>, bool)> {
        let pidfd = Arc::clone(self.pidfd.as_ref()?);
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        let polled = loop {
            match poll(&mut ended, Some(&Timespec::default())) {
                Err(Errno::INTR) => {}
                polled => break polled,
            }
        };
        let has_ended = polled.is_ok_and(|count| count > 0);
        Some((pidfd, has_ended))
    }

    /// `/proc/PID/status`, unless it was just read; `None` if the process has ended.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn status(&self, pid: i32) -> Result<Option<Arc<str>>, Reason> {
        match &self.status {
            Some((read, status)) if proc::now().since(*read) < FRESH => {
                Ok(Some(Arc::clone(status)))
            }
            _ => Ok(proc::status(pid)?.map(Arc::from)),
        }
    }

    /// Reads `/proc/PID/status`, and keeps it; `None` if the process has ended.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn read_status(&mut self, pid: i32) -> Result<Option<Arc<str>>, Reason> {
        let now = proc::now();
        let status: Option<Arc<str>> = proc::status(pid)?.map(Arc::from);
        self.status = status.clone().map(|status| (now, status));
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn pinned(child: &std::process::Child) -> (Pin, i32) {
        let pid = i32::try_from(child.id()).expect("it is a pid");
        let stat = proc::stat(pid).expect("it can be read").expect("it runs");
        (Pin::open(Identity { pid, start_ticks: stat.start_ticks }).expect("it runs"), pid)
    }

    #[test]
    fn a_pinned_process_has_ended_also_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("it can be started");
        let (pin, pid) = pinned(&child);
        assert!(matches!(pin.look(), Some((_, false))));
        child.kill().expect("it can be killed");
        while matches!(pin.look(), Some((_, false))) {
            std::thread::yield_now();
        }
        child.wait().expect("it can be reaped");
        assert!(matches!(pin.look(), Some((_, true))));
        assert!(Pin::default().look().is_none());
        Pin::open(Identity { pid, start_ticks: 1 }).expect_err("it has ended");
    }

    #[test]
    fn a_status_is_read_again_after_a_millisecond() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("it can be started");
        let (mut pin, pid) = pinned(&child);
        pin.read_status(pid).expect("it can be read").expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it can be reaped");
        while pin.status(pid).expect("it can be read").is_some() {
            std::thread::yield_now();
        }
        let (read, _) = pin.status.as_ref().expect("it was read");
        assert!(proc::now().since(*read) >= FRESH);
    }
}
