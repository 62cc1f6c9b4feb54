//! Detects whether a process has read the published generation, by the access times of its files.
//!
//! Reads the publish directory; changes nothing. The first read after a change sets the access time
//! (`relatime`, mount(8)), and podnudge's own reads leave it alone (`O_NOATIME`, open(2)).
//!
//! Some reads are not detected: all on a mount without access times (`noatime`, or `readOnly` in
//! the volumeMount); one within the clock tick of the write (4 or 10 ms), if it is the only one;
//! and for a day one of a generation that was read before and then rolled back to.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir as Entries, FileType, Mode, OFlags, Stat, openat, statat};

use super::directory::Dir;
use crate::system::folder::DIRECTORY;
use crate::volume::reader::{accessed, changed};
use crate::volume::reads::OwnRead;

/// The most files and directories to examine.
const MAX_ENTRIES: u32 = 1000;
/// The deepest nesting to examine: each level holds descriptors.
const MAX_DEPTH: u32 = 40;
/// Opens podnudge's own files without changing their access times.
const NO_ATIME: OFlags = OFlags::RDONLY
    .union(OFlags::NOATIME)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Whether a key of the current generation was read since it was published. `false` if unknown.
pub(super) fn was_read(dir: &Dir) -> bool {
    let Ok(Some((name, published))) = dir.current() else { return false };
    let generation = openat(dir.fd(), name.to_string(), DIRECTORY, Mode::empty());
    let mut search = AccessSearch { published: published.0, left: MAX_ENTRIES };
    generation.is_ok_and(|generation| search.finds_access(generation.as_fd(), MAX_DEPTH))
}

/// A search for access times, and its remaining budget of entries.
struct AccessSearch {
    published: Duration,
    left: u32,
}

impl AccessSearch {
    fn finds_access(&mut self, folder: BorrowedFd<'_>, depth: u32) -> bool {
        let Ok(entries) = Entries::read_from(folder) else { return false };
        for entry in entries.flatten().filter(|entry| ![c".", c".."].contains(&entry.file_name())) {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let name = entry.file_name();
            let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let was_read = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth > 0 => openat(folder, name, DIRECTORY, Mode::empty())
                    .is_ok_and(|below| self.finds_access(below.as_fd(), depth - 1)),
                FileType::RegularFile => {
                    self.is_accessed(&stat) && can_read_without_atime(folder, name)
                }
                _ => false,
            };
            if was_read {
                return true;
            }
        }
        false
    }

    fn is_accessed(&self, stat: &Stat) -> bool {
        let accessed = accessed(stat);
        // Within the tick of the write, the write itself sets the access time; within the tick of
        // the publication, only a read does.
        accessed > changed(stat) && accessed >= self.published
    }
}

/// Whether podnudge's own read did not change the access time: it must own the file, or have the
/// capability FOWNER.
fn can_read_without_atime(folder: BorrowedFd<'_>, name: &CStr) -> bool {
    let _own = OwnRead::begin();
    openat(folder, name, NO_ATIME, Mode::empty()).is_ok()
}
