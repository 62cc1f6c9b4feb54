//! Waits for the exit of a process, by its pidfd (`pidfd_open(2)`) or by polling.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::unix::AsyncFd;

use super::{Identity, ProcessState, process_state};
use podnudge_supervise::pidfd;

/// The poll interval for a process without a pidfd.
const POLL: Duration = Duration::from_millis(50);

/// Opens an exit watch for a process; `None` if it has ended or there is no pidfd.
pub(crate) fn open(identity: Identity) -> Option<ExitWatch> {
    pidfd::open(identity).ok().flatten().and_then(|pidfd| ExitWatch::new(pidfd).ok())
}

/// A pidfd that is registered with the event loop.
#[derive(Debug)]
pub(crate) struct ExitWatch(AsyncFd<OwnedFd>);

impl ExitWatch {
    /// Registers the pidfd.
    ///
    /// # Errors
    /// If the event loop cannot register it.
    #[expect(
        deprecated,
        reason = "the replacement is unsafe, for types that change their descriptor, unlike this one"
    )]
    pub(crate) fn new(pidfd: OwnedFd) -> io::Result<Self> {
        AsyncFd::new(pidfd).map(Self)
    }

    /// Waits until the process has ended. Does not reap it.
    pub(crate) async fn wait(&self) {
        // On an error there is nothing left to wait for.
        drop(self.0.readable().await);
    }
}

/// Waits until a process without a pidfd has ended (before Linux 5.3, or where seccomp forbids it),
/// by polling. The caller sets the time limit.
#[expect(
    clippy::disallowed_methods,
    reason = "without a pidfd there is no event for the exit of a process that is not a child"
)]
pub(crate) async fn wait_without_pidfd(identity: Identity) {
    while matches!(process_state(identity), ProcessState::Running) {
        tokio::time::sleep(POLL).await;
    }
}
