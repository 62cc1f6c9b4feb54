//! Removes an entry of a directory and everything below it, however deep: programs that check a private
//! copy make what they like in it.
//!
//! Changes only what is below that entry, and follows no link. Directories below it are moved up to its
//! top, so that neither the depth of the calls nor the number of descriptors grows with the tree.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, chmodat, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{DIRECTORY, temporary_name};

/// The most entries that one call looks at. What remains is removed by the next call.
const MAX_ENTRIES: u32 = 100_000;
/// Needs no permission on the directory itself.
const UNREAD: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Removes an entry and everything below it, if it exists. Removes what it can, and then returns the first
/// error.
pub(super) fn remove(at: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    if remove_one(at, name)? {
        return Ok(());
    }
    let top = open(at, name)?;
    let mut work = Work { remaining: MAX_ENTRIES, error: None };
    // A pass removes one level, and reports the errors that remain.
    let flattened = loop {
        work.error = None;
        match work.flatten(top.as_fd()) {
            Ok(true) => {}
            flattened => break flattened,
        }
    };
    match remove_one(at, name) {
        Ok(true) => Ok(()),
        removed => {
            let error = removed.err().unwrap_or(Errno::NOTEMPTY);
            Err(work.error.or(flattened.err()).unwrap_or(error))
        }
    }
}

/// Removes a file, a link or an empty directory. Returns whether it is gone.
fn remove_one(at: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    let error = match unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(error @ (Errno::ISDIR | Errno::PERM)) => error,
        Err(error) => return Err(error),
    };
    match unlinkat(at, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(Errno::NOTDIR) => Err(error),
        Err(error) => Err(error),
    }
}

/// Opens a directory. One of our own uid is made accessible first, as a program may have closed it.
fn open(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let unread = openat(at, name, UNREAD, Mode::empty())?;
    let stat = fstat(&unread)?;
    let is_closed = stat.st_mode & Mode::RWXU.as_raw_mode() != Mode::RWXU.as_raw_mode();
    if is_closed && stat.st_uid == geteuid().as_raw() {
        let path = format!("/proc/self/fd/{}", unread.as_raw_fd());
        // If this fails, opening it says why.
        _ = chmodat(CWD, path, Mode::RWXU, AtFlags::empty());
    }
    openat(&unread, c".", DIRECTORY, Mode::empty())
}

struct Work {
    /// How many more entries are looked at.
    remaining: u32,
    /// The first error of this pass.
    error: Option<Errno>,
}

impl Work {
    /// Removes the entries of a directory, and moves what is in its directories up to it. Returns whether
    /// there was something to remove or to move.
    fn flatten(&mut self, top: BorrowedFd<'_>) -> Result<bool, Errno> {
        let mut has_changed = false;
        for entry in Dir::read_from(top)? {
            let entry = entry?;
            let name = entry.file_name();
            if self.is_dots(name)? {
                continue;
            }
            match remove_one(top, name) {
                Ok(true) => has_changed = true,
                Ok(false) => match self.empty(top, name) {
                    Ok(has_moved) => has_changed |= has_moved,
                    // Work without end ends here.
                    Err(error @ Errno::FBIG) => return Err(error),
                    Err(error) => self.failed(error),
                },
                Err(error) => self.failed(error),
            }
        }
        Ok(has_changed)
    }

    /// Removes the entries of a directory, moves those that are directories with entries to `top`, and
    /// removes it. Returns whether something was removed or moved.
    fn empty(&mut self, top: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
        let folder = open(top, name)?;
        let mut has_changed = false;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let below = entry.file_name();
            if self.is_dots(below)? {
                continue;
            }
            let removed = match remove_one(folder.as_fd(), below) {
                Ok(false) => move_up(folder.as_fd(), below, top),
                removed => removed.map(drop),
            };
            match removed {
                Ok(()) => has_changed = true,
                Err(error) => self.failed(error),
            }
        }
        drop(folder);
        Ok(remove_one(top, name)? || has_changed)
    }

    /// Whether this is `.` or `..`. Every other entry counts.
    fn is_dots(&mut self, name: &CStr) -> Result<bool, Errno> {
        if [c".", c".."].contains(&name) {
            return Ok(true);
        }
        self.remaining = self.remaining.checked_sub(1).ok_or(Errno::FBIG)?;
        Ok(false)
    }

    fn failed(&mut self, error: Errno) {
        self.error.get_or_insert(error);
    }
}

/// Moves a directory to another one, under a name that is not used there.
fn move_up(from: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>) -> Result<(), Errno> {
    // The kernel wants to write to it: its `..` changes.
    drop(open(from, name)?);
    renameat(from, name, to, temporary_name("")?)
}
