//! Having a publish directory to oneself: two podnudges would each roll back what the other
//! publishes, and remove what the other goes back to.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tracing::warn;

use super::directory::Dir;

/// A directory that no other podnudge publishes to: until this is dropped, or podnudge ends in
/// whatever way, since then the kernel lets go (flock(2)). Programs that podnudge starts do not
/// have its descriptor.
pub struct Lock {
    /// The lock belongs to it.
    _dir: Dir,
}

impl Lock {
    /// Takes the directory, unless somebody else has it.
    pub(super) fn take(dir: Dir) -> Option<Self> {
        match flock(dir.fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return None,
            Err(error) => {
                let path = dir.path().display().to_string();
                warn!(
                    event = "not-locked",
                    path,
                    %error,
                    hint = "make sure that no other podnudge publishes there",
                    "the file system has no locks"
                );
            }
            Ok(()) => {}
        }
        Some(Self { _dir: dir })
    }
}
