//! `podnudge install DIR`: copies podnudge to a directory that another container mounts, so
//! that it can run there, in the application's own image and with its programs.
//!
//! Reads its own executable; writes `DIR/podnudge`, by a rename, so that one that runs from there
//! is not disturbed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::reason::Reason;

/// The kernel's link to the running executable (proc(5)).
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Copies the running executable to `folder`, and returns its path there.
///
/// # Errors
/// If it cannot be read or written; an existing file is then unchanged.
pub fn install(folder: &Path) -> Result<PathBuf, Reason> {
    let target = folder.join("podnudge");
    let new = folder.join(format!(".podnudge.{}", std::process::id()));
    let copied = copy(&new).and_then(|()| fs::rename(&new, &target));
    copied.map(|()| target).map_err(|error| {
        drop(fs::remove_file(&new));
        let reason = Reason::new(format!("cannot install into `{}`: {error}", folder.display()));
        let uid = rustix::process::geteuid().as_raw();
        match error.kind() {
            io::ErrorKind::NotFound => reason.hint("mount an emptyDir there, in both containers"),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                reason.hint(format!("uid {uid} must be able to write there"))
            }
            _ => reason,
        }
    })
}

fn copy(to: &Path) -> io::Result<()> {
    let mut own = File::open(OWN_EXECUTABLE)?;
    // An installation that was killed may have left it. In a container, the pid is the same again.
    drop(fs::remove_file(to));
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o755).open(to)?;
    // Whatever the umask is: another container runs it as another user.
    new.set_permissions(fs::Permissions::from_mode(0o755))?;
    io::copy(&mut own, &mut new)?;
    // Closed on return, because a program that is open for writing cannot be run (ETXTBSY).
    new.sync_all()
}
