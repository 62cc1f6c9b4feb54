//! Writes the files and directories of a generation with their modes and owners, and syncs each.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Gid, Mode, Uid, fchmod, fchown, fstat, fsync, openat};
use rustix::io::Errno;

use crate::system::folder::{DIRECTORY, enter_all, new_file, new_folder, write_and_sync};
use crate::volume::contents::Contents;
use podnudge_config::Publish;

/// The contents of each volume, with its directory in the generation.
pub(super) type Parts<'a> = [(&'a PathBuf, &'a Contents)];

/// Writes the files and directories of a generation.
pub(super) struct Writer<'a> {
    pub(super) publish: &'a Publish,
}

impl Writer<'_> {
    /// Writes all contents to a new directory.
    pub(super) fn write(
        &self,
        at: BorrowedFd<'_>,
        name: &str,
        parts: &Parts<'_>,
    ) -> Result<(), Errno> {
        let root = new_folder(at, name)?;
        for (part, contents) in parts {
            enter_all(root.as_fd(), part)?;
            for (key, content) in *contents {
                let path = part.join(OsStr::from_bytes(&key.0));
                let at = enter_all(root.as_fd(), path.parent().unwrap_or(Path::new("")))?;
                self.file(at.as_fd(), path.file_name().unwrap_or_default(), content, content.mode)?;
            }
        }
        self.finish(root.as_fd())
    }

    fn file(
        &self,
        at: BorrowedFd<'_>,
        name: &OsStr,
        content: &[u8],
        mode: u32,
    ) -> Result<(), Errno> {
        let mut file = new_file(at, name, Mode::RUSR | Mode::WUSR)?;
        // podnudge, as the owner, must be able to read a file that it read by its group.
        let mode = self.publish.mode.unwrap_or(mode | 0o400);
        // Before podnudge gives the file away.
        fchmod(&file, Mode::from_raw_mode(mode))?;
        self.set_owner(file.as_fd())?;
        write_and_sync(&mut file, content)
    }

    /// Sets the modes and owners of directories, from the innermost outwards, and syncs them.
    fn finish(&self, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match openat(folder, name, DIRECTORY, Mode::empty()) {
                Ok(inner) => self.finish(inner.as_fd())?,
                Err(Errno::NOTDIR) => {}
                Err(error) => return Err(error),
            }
        }
        // Keep the setgid bit, by which an emptyDir hands down its group.
        let handed_down = fstat(folder)?.st_mode & 0o2000;
        let mode = self.publish.mode.map_or(0o755, searchable) | handed_down;
        fchmod(folder, Mode::from_raw_mode(mode))?;
        self.set_owner(folder)?;
        fsync(folder)
    }

    fn set_owner(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let (uid, gid) = (self.publish.uid, self.publish.gid);
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        fchown(fd, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
    }
}

/// Allows everybody who may read a file to search the directories above it.
fn searchable(mode: u32) -> u32 {
    mode | (mode & 0o444) >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_can_be_searched_by_those_who_may_read_the_files() {
        assert_eq!(searchable(0o640), 0o750);
        assert_eq!(searchable(0o444), 0o555);
    }
}
