//! Locks a publish directory: two podnudges would roll back each other's content, and remove the
//! generations that the other needs for a rollback.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tracing::warn;

use super::directory::Dir;

/// The exclusive lock of a publish directory. It is held until it is dropped or podnudge ends in
/// any way: then the kernel releases it (flock(2)). Programs that podnudge starts do not inherit
/// its descriptor.
pub struct Lock {
    /// The lock belongs to this descriptor.
    _dir: Dir,
}

impl Lock {
    /// Locks the directory; `None` if another process holds the lock.
    pub(super) fn acquire(dir: Dir) -> Option<Self> {
        match flock(dir.fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return None,
            Err(error) => {
                let path = dir.path().display().to_string();
                warn!(
                    event = "not-locked",
                    path,
                    %error,
                    hint = "make sure that no other podnudge publishes there",
                    "the file system does not support locks"
                );
            }
            Ok(()) => {}
        }
        Some(Self { _dir: dir })
    }
}
