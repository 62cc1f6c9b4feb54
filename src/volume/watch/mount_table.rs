//! Reports changes of podnudge's mount table: inotify reports nothing when a volume is mounted, and
//! a volume that is mounted anew may have the same device and inode as before.
//!
//! Waits for `/proc/self/mountinfo`, without reading it; changes nothing.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The mount table of podnudge's mount namespace, if the system reports its changes.
#[derive(Debug)]
pub(crate) struct MountTable(Option<AsyncFd<OwnedFd>>);

impl MountTable {
    /// Registers the mount table with the event loop. Changes from then on are reported.
    pub(crate) fn open() -> Self {
        Self(register().ok())
    }

    /// Whether changes are reported. Some sandboxes have a mount table that cannot be polled.
    pub(crate) fn is_reported(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until something was mounted or unmounted since the last call; `None` at once if that is
    /// not reported.
    pub(crate) async fn changed(&self) -> Option<()> {
        self.0.as_ref()?.ready(Interest::PRIORITY).await.ok()?.clear_ready();
        Some(())
    }
}

/// The kernel reports a change as a priority event (`proc_pid_mountinfo(5)`), once to each open file
/// (`mounts_poll` in Linux `fs/proc_namespace.c`), so nothing has to be read.
#[expect(
    deprecated,
    reason = "the replacement is unsafe, for types that change their descriptor, unlike this one"
)]
fn register() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let table = openat(CWD, c"/proc/self/mountinfo", flags, Mode::empty())?;
    AsyncFd::with_interest(table, Interest::PRIORITY)
}
