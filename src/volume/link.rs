//! The symbolic links in a watched path: replacing one changes the content without any event in a
//! watched directory.
//!
//! Reads the links and the directories that hold them; changes nothing.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, lstat, stat};

use super::reader::{Directory, changed, identity};
use podnudge_core::clock::UnixTime;
use podnudge_core::snapshot::Snapshot;

/// The symbolic links in a path at one moment.
pub(super) struct Links(Vec<(PathBuf, Stat)>);

impl Links {
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn of(path: &Path) -> Self {
        let link = |part: &Path| {
            let stat = lstat(part).ok()?;
            let is_link = FileType::from_raw_mode(stat.st_mode).is_symlink();
            is_link.then(|| (part.to_owned(), stat))
        };
        Self(path.ancestors().filter_map(link).collect())
    }

    /// Adds the links to the snapshot's generation: other links make another generation, and its
    /// commit is not older than the newest link.
    pub(super) fn add_to(&self, snapshot: &mut Snapshot) {
        for (_, stat) in &self.0 {
            snapshot.committed = snapshot.committed.max(UnixTime(changed(stat)));
            let (device, inode) = identity(stat);
            let time = changed(stat).as_nanos();
            // Writing to a `String` cannot fail.
            _ = write!(snapshot.generation.0, " by {device}:{inode}:{time}");
        }
    }

    /// The directories to watch for a replaced link: the directory of each link, and that of the
    /// file that the last one leads to.
    pub(super) fn directories(&self, path: &Path) -> Vec<Directory> {
        let mut found: Vec<Directory> = self.0.iter().filter_map(|(link, _)| entry(link)).collect();
        if !self.0.is_empty()
            && let Ok(real) = fs::canonicalize(path)
            && real.is_file()
        {
            found.extend(entry(&real));
        }
        found
    }
}

fn entry(path: &Path) -> Option<Directory> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let id = identity(&stat(parent).ok()?);
    Some(Directory { path: parent.to_owned(), id, entry: Some(name.as_bytes().to_vec()) })
}
