//! Waiting for the end of a process, by its pidfd (`pidfd_open(2)`), or without one.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

use super::Identity;
use super::life::{Life, life};

/// Between two looks at a process for which there is no pidfd.
const POLL: Duration = Duration::from_millis(50);

/// The end of a process that still goes on.
pub(crate) fn of(identity: Identity) -> Option<Ending> {
    let pid = Pid::from_raw(identity.pid)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The pid may have been another process's by then.
    (life(identity) == Life::Runs).then(|| Ending::of(pidfd).ok()).flatten()
}

/// A pidfd whose process can be waited for.
#[derive(Debug)]
pub(crate) struct Ending(AsyncFd<OwnedFd>);

impl Ending {
    /// Takes the pidfd.
    ///
    /// # Errors
    /// If the event loop has no room for it.
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for types that change their descriptor; this one does not"
    )]
    pub(crate) fn of(pidfd: OwnedFd) -> io::Result<Self> {
        AsyncFd::new(pidfd).map(Self)
    }

    /// Waits until the process has ended; it is not reaped by that.
    pub(crate) async fn wait(&self) {
        // An error would mean that it cannot be waited for: then it is over, too.
        drop(self.0.readable().await);
    }
}

/// Waits until a process has ended for which there is no pidfd (before Linux 5.3, or refused by
/// seccomp): looks again and again. When to give up is decided by whoever waits for this.
#[expect(
    clippy::disallowed_methods,
    reason = "without a pidfd nothing tells of the end of a process that is not a child"
)]
pub(crate) async fn wait_without_pidfd(identity: Identity) {
    while matches!(life(identity), Life::Runs) {
        tokio::time::sleep(POLL).await;
    }
}
