//! A process that was pinned before it was looked at, so that what was seen is true of whatever gets the signal.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use podnudge_supervise::pidfd;

/// The pidfd of a process (`pidfd_open(2)`), if it was opened before the process was looked at. Two are always equal.
#[derive(Debug, Clone, Default)]
pub struct Pin(Option<Arc<OwnedFd>>);

impl PartialEq for Pin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Pin {}

impl Pin {
    /// Pins the process that has this pid now. Nothing is pinned if there is none, or no pidfd.
    pub(super) fn open(pid: i32) -> Self {
        Self(pidfd::open_pid(pid).ok().map(Arc::new))
    }

    /// The pidfd, and whether the process has ended since it was pinned; `None` if it is not pinned.
    pub(super) fn look(&self) -> Option<(Arc<OwnedFd>, bool)> {
        let pidfd = Arc::clone(self.0.as_ref()?);
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
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pinned_process_has_ended_also_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("it can be started");
        let pin = Pin::open(i32::try_from(child.id()).expect("it is a pid"));
        assert!(matches!(pin.look(), Some((_, false))));
        child.kill().expect("it can be killed");
        while matches!(pin.look(), Some((_, false))) {
            std::thread::yield_now();
        }
        child.wait().expect("it can be reaped");
        assert!(matches!(pin.look(), Some((_, true))));
        assert!(Pin::open(0).look().is_none() && Pin::default().look().is_none());
    }
}
