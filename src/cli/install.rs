//! `podnudge install DIR`: copies podnudge to a directory that another container mounts, so
//! that it can run there, in the application's own image and with its programs.
//!
//! Reads its own executable; writes `DIR/podnudge`, by a rename, so that one that runs from there
//! is not disturbed.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::system::folder::{Folder, errno};
use podnudge_core::reason::Reason;

/// The name of the copy.
const FILE: &str = "podnudge";
/// How temporary names begin.
const TEMPORARY: &str = ".podnudge-";
/// The kernel's link to the running executable (proc(5)).
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Copies the running executable to `folder`, and returns its path there.
///
/// # Errors
/// If it cannot be read or written; an existing file is then unchanged.
pub fn install(folder: &Path) -> Result<PathBuf, Reason> {
    copy(folder).map(|()| folder.join(FILE)).map_err(|error| {
        let reason = Reason::new(format!("cannot install into `{}`: {error}", folder.display()));
        let uid = rustix::process::geteuid().as_raw();
        match error.kind() {
            ErrorKind::NotFound => reason.hint("mount an emptyDir there, in both containers"),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                reason.hint(format!("uid {uid} must be able to write there"))
            }
            ErrorKind::IsADirectory => {
                reason.hint(format!("remove the directory `{FILE}` that is there"))
            }
            _ => reason,
        }
    })
}

fn copy(folder: &Path) -> io::Result<()> {
    let mut own = File::open(OWN_EXECUTABLE)?;
    let folder = Folder::open(folder)?;
    // If what a killed one has left cannot be removed, that does not matter.
    _ = folder.remove_own(format!(".podnudge.{}", std::process::id()).as_str());
    _ = folder.remove_own_leftovers(TEMPORARY);
    // For all: another container runs it as another user.
    let new = folder.temporary_file(TEMPORARY, Mode::from_raw_mode(0o755), |mut new| {
        // Closed on return, because a program that is open for writing cannot be run (ETXTBSY).
        let copied = io::copy(&mut own, &mut new).and_then(|_| new.sync_all());
        copied.map_err(|error| errno(&error))
    })?;
    new.rename(FILE).inspect_err(|_| new.remove())?;
    Ok(folder.sync()?)
}
