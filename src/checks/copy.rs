//! Copies a rule's volumes to a private directory, for programs that check them.
//!
//! Reads the volumes; creates and removes one directory, which only podnudge's own uid may enter, and
//! whose name nobody can foresee.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, unlinkat};
use rustix::io::Errno;
use tracing::warn;

use crate::system::folder::{Folder, enter_all, new_file, new_folder, temporary_name, write};
use crate::volume::contents::{self, Content, Volume};
use podnudge_config::KeyFilter;
use podnudge_core::event::Checked;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// A copy of the volumes, each at its own path below a root. Dropping it removes the files.
#[derive(Debug)]
pub struct PrivateCopy {
    work_dir: Folder,
    name: String,
    root: PathBuf,
    first: PathBuf,
    full_digest: Digest,
}

impl PrivateCopy {
    /// Copies all keys of the volumes to a new directory in `work_dir`, if the included ones still have
    /// the expected digest. Its name begins with `prefix`.
    ///
    /// # Errors
    /// The verdict if no copy can be made.
    pub fn make(
        volumes: &[PathBuf],
        keys: &KeyFilter,
        expected: Digest,
        work_dir: &Path,
        prefix: &str,
    ) -> Result<Self, Checked> {
        let failed = |error: Errno| {
            let reason =
                Reason::new(format!("cannot copy to `{}`: {error}", shown::path(work_dir)));
            Checked::Failed(reason.hint(
                "checks by programs need a directory that podnudge can write to: mount an emptyDir and set agent.work-dir",
            ))
        };
        let name = temporary_name(prefix).map_err(failed)?;
        let root = work_dir.join(&name);
        let work_dir = Folder::open(work_dir).map_err(failed)?;
        let fd = new_folder(work_dir.as_fd(), &name).map_err(failed)?;
        let mut copy =
            Self { work_dir, name, first: root.clone(), root: root.clone(), full_digest: expected };
        let paths = volumes.iter().map(PathBuf::as_path);
        let volumes = contents::read_all(paths, keys, expected)?;
        copy.full_digest = contents::full_digest(&volumes);
        let mut folders = Vec::new();
        for Volume { folder, contents } in volumes {
            let below = folder.strip_prefix("/").unwrap_or(&folder);
            for (key, content) in &contents {
                let file = below.join(OsStr::from_bytes(&key.0));
                add(fd.as_fd(), &file, content).map_err(failed)?;
            }
            enter_all(fd.as_fd(), below).map_err(failed)?;
            folders.push(root.join(below));
        }
        copy.first = folders.into_iter().next().unwrap_or(root);
        Ok(copy)
    }

    /// The copy of the first volume.
    #[must_use]
    pub fn first(&self) -> &Path {
        &self.first
    }

    /// The root of the copy, with each volume at its own path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The digest over all copied keys, including ignored ones.
    #[must_use]
    pub fn full_digest(&self) -> Digest {
        self.full_digest
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        if let Err(error) = self.work_dir.remove(self.name.as_str()) {
            let path = shown::path(&self.root);
            let hint = "it may contain Secrets: the next start of podnudge tries again";
            warn!(event = "left-over", path, %error, hint, "cannot remove a copy");
        }
    }
}

/// Keeps programs in the volume executable for podnudge.
const RUNNABLE: u32 = 0o100;

/// Adds a file at this path below the root of the copy.
fn add(root: BorrowedFd<'_>, path: &Path, content: &Content) -> Result<(), Errno> {
    let folder = enter_all(root, path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().unwrap_or_default();
    // If one volume lies within another, its keys are written twice.
    _ = unlinkat(&folder, name, AtFlags::empty());
    let mode = Mode::from_raw_mode(0o600 | content.mode & RUNNABLE);
    write(&mut new_file(folder.as_fd(), name, mode)?, content)
}
