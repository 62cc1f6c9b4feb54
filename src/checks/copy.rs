//! Copies a rule's volumes to a private directory, for programs that check them.
//!
//! Reads the volumes; creates and removes one directory, which only podnudge's own uid may enter.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::config::KeyFilter;
use crate::core::event::Checked;
use crate::reason::Reason;
use crate::volume::contents::{self, Content, Volume};
use crate::volume::snapshot::Digest;

/// A copy of the volumes, each at its own path below a root. Dropping it removes the files.
#[derive(Debug)]
pub struct PrivateCopy {
    root: PathBuf,
    first: PathBuf,
    full_digest: Digest,
}

impl PrivateCopy {
    /// Copies all keys of the volumes into `root`, if the included ones still have the expected
    /// digest. Removes the files of an earlier copy there.
    ///
    /// # Errors
    /// The verdict if no copy can be made.
    pub fn make(
        volumes: &[PathBuf],
        keys: &KeyFilter,
        expected: Digest,
        root: PathBuf,
    ) -> Result<Self, Checked> {
        let failed = |error: io::Error| {
            let reason = Reason::new(format!("cannot copy to `{}`: {error}", root.display()));
            Checked::Failed(reason.hint(
                "checks by programs need a directory that podnudge can write to: mount an emptyDir and set agent.work-dir",
            ))
        };
        let (first, full_digest) = (root.clone(), expected);
        let mut copy = Self { first, root: root.clone(), full_digest };
        copy.remove().and_then(|()| private().create(&root)).map_err(failed)?;
        let paths = volumes.iter().map(PathBuf::as_path);
        let volumes = contents::read_all(paths, keys, expected)?;
        copy.full_digest = contents::full_digest(&volumes);
        let mut folders = Vec::new();
        for Volume { folder, contents } in volumes {
            let folder = root.join(folder.strip_prefix("/").unwrap_or(&folder));
            for (key, content) in &contents {
                let file = folder.join(OsStr::from_bytes(&key.0));
                write(&file, content).map_err(failed)?;
            }
            private().recursive(true).create(&folder).map_err(failed)?;
            folders.push(folder);
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

    fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // If this fails, the next copy removes it.
        drop(self.remove());
    }
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Keeps programs in the volume executable for podnudge.
const RUNNABLE: u32 = 0o100;

fn write(file: &Path, content: &Content) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        private().recursive(true).create(folder)?;
    }
    // If one volume lies within another, its keys are written twice.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600 | content.mode & RUNNABLE);
    options.open(file)?.write_all(content)
}
