//! Performs `Scan` and `Resync`: reads a volume as one consistent generation, through the directory's
//! own descriptor, or tells only which generation is there.
//!
//! Reads the watched path and what is below it; changes nothing. File contents go through SHA-256
//! in pieces and are never held.
//!
//! The kubelet swaps a volume by renaming `..data` and then removes the old generation. A reader
//! that goes through the volume's links can see one key of the old and another of the new one, so
//! this one opens the directory that `..data` names, reads below it, and looks at `..data` again:
//! if it moved, or a file was gone, the reading is repeated.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use sha2::Digest as _;

use super::link::Links;
use super::mounts;
use super::reader::{ATTEMPTS, DIRECTORY, Purpose, Reader, identity, modified};
pub use super::reader::{Directory, ReadError, Reading};
use super::snapshot::{Digest, Generation, Snapshot};
use super::tree::{Beside, Entry, LISTING, Level};
use crate::clock::UnixTime;
use crate::config::KeyFilter;

/// The kubelet's link to the generation that counts.
const DATA: &CStr = c"..data";

/// Reads what is at `path`: a volume of the kubelet, another directory, or a single file.
///
/// # Errors
/// If it cannot be read, or not as one generation. Nothing being there is no error.
pub fn read(path: &Path, keys: &KeyFilter) -> Result<Reading, ReadError> {
    Reader::new(path, keys, Purpose::Hash).look()
}

/// The same for what podnudge has written itself: the files' times of access stay as they are, where
/// podnudge owns them.
///
/// # Errors
/// If it cannot be read.
pub fn read_own(path: &Path, keys: &KeyFilter) -> Result<Reading, ReadError> {
    Reader::new(path, keys, Purpose::HashOwn).look()
}

/// Which generation is at `path`, or `None` if there is nothing. Cheaper than reading: one
/// `readlink` for a volume of the kubelet, one `stat` a file otherwise.
///
/// # Errors
/// If that cannot be told.
pub fn generation(path: &Path, keys: &KeyFilter) -> Result<Option<Generation>, ReadError> {
    let reading = Reader::new(path, keys, Purpose::Fingerprint).look()?;
    Ok(reading.snapshot.map(|snapshot| snapshot.generation))
}

/// For looking below a directory, not for listing it. The kernel tells nobody of an open with
/// `O_PATH`: notify, which asks to be told of every open, is not woken by podnudge's own look.
const DIRECTORY_PATH: OFlags = DIRECTORY.union(OFlags::PATH);

/// Opens a directory, unless there is a link in its path, or the system cannot tell (`openat2(2)`,
/// since Linux 5.6).
fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    let no_links = ResolveFlags::NO_SYMLINKS;
    openat2(rustix::fs::CWD, path, DIRECTORY_PATH, Mode::empty(), no_links)
}

impl Reader<'_> {
    pub(super) fn look(&mut self) -> Result<Reading, ReadError> {
        // Before the reading: a link that is turned meanwhile gives another generation next time.
        let (links, opened) = if let Ok(root) = open_without_links(self.path) {
            (Links::none(), Ok(root))
        } else {
            let links = Links::of(self.path);
            (links, openat(rustix::fs::CWD, self.path, DIRECTORY_PATH, Mode::empty()))
        };
        let mut reading = self.at_path(opened)?;
        if let Some(snapshot) = &mut reading.snapshot {
            links.mark(snapshot);
        }
        if self.purpose != Purpose::Fingerprint {
            reading.directories.extend(links.directories(self.path));
        }
        Ok(reading)
    }

    fn at_path(&mut self, opened: Result<OwnedFd, Errno>) -> Result<Reading, ReadError> {
        match opened {
            Ok(root) => {
                let id = self.stat_fd(root.as_fd())?;
                let watch =
                    Directory { path: self.path.to_owned(), id: identity(&id), entry: None };
                match readlinkat(&root, DATA, Vec::new()) {
                    Ok(target) => self.kubelet(root.as_fd(), target, None, watch),
                    Err(Errno::NOENT) if self.is_half_made(root.as_fd())? => {
                        Ok(Reading { snapshot: None, directories: vec![watch] })
                    }
                    Err(Errno::NOENT | Errno::INVAL) => {
                        self.directory(self.readable(root.as_fd())?.as_fd())
                    }
                    Err(error) => Err(self.error(error)),
                }
            }
            Err(Errno::NOTDIR) => self.file(),
            Err(Errno::NOENT) => self.absent(),
            Err(error) => Err(self.error(error)),
        }
    }

    /// A volume of the kubelet, or one key of it.
    fn kubelet(
        &mut self,
        root: BorrowedFd<'_>,
        mut target: CString,
        key: Option<&CStr>,
        watch: Directory,
    ) -> Result<Reading, ReadError> {
        self.is_marked = false;
        for _ in 0..ATTEMPTS {
            self.keys.clear();
            self.pauses = false;
            self.visited = 0;
            self.contents.clear();
            self.kept = 0;
            let whole = self.one_generation(root, &target, key)?;
            let again = match readlinkat(root, DATA, Vec::new()) {
                Ok(again) => again,
                Err(Errno::NOENT) => return self.absent(),
                Err(error) => return Err(self.error(error)),
            };
            if whole.is_none() || again != target {
                target = again;
                continue;
            }
            let link = statat(root, DATA, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| self.error(e))?;
            let generation = target.to_string_lossy().into_owned();
            return Ok(self.finish(generation, modified(&link), vec![watch]));
        }
        Err(ReadError::Moving { path: self.path.to_owned() })
    }

    /// Reads what one generation holds; `None` if it went away meanwhile.
    fn one_generation(
        &mut self,
        root: BorrowedFd<'_>,
        target: &CStr,
        key: Option<&CStr>,
    ) -> Result<Option<()>, ReadError> {
        if self.purpose == Purpose::Fingerprint {
            return Ok(Some(()));
        }
        let content = match openat(root, target, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|error| self.error(error))?,
        };
        let level =
            Level { fd: content.as_fd(), prefix: Vec::new(), depth: 0, path: None, above: None };
        match key {
            None => self.walk(&level),
            Some(name) => {
                let entry = Entry { name: name.to_owned(), kind: FileType::RegularFile };
                self.file_entry(&level, &entry, Beside::Others)
            }
        }
    }

    /// Whether the kubelet is only making the volume, or taking it down: there is a generation,
    /// and no link to it.
    fn is_half_made(&self, root: BorrowedFd<'_>) -> Result<bool, ReadError> {
        let root = self.readable(root)?;
        let mut buffer = [MaybeUninit::uninit(); LISTING];
        let mut entries = RawDir::new(root, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The volume is gone.
                Err(Errno::NOENT) => return Ok(false),
                entry => entry.map_err(|error| self.error(error))?,
            };
            if mounts::is_generation_name(entry.file_name().to_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same directory, to list what is in it.
    fn readable(&self, root: BorrowedFd<'_>) -> Result<OwnedFd, ReadError> {
        openat(root, c".", DIRECTORY, Mode::empty()).map_err(|error| self.error(error))
    }

    /// A directory that the kubelet does not manage, read as it stands.
    fn directory(&mut self, root: BorrowedFd<'_>) -> Result<Reading, ReadError> {
        let path = Some(self.path.to_owned());
        self.walk(&Level { fd: root, prefix: Vec::new(), depth: 0, path, above: None })?;
        Ok(self.finish_fingerprint())
    }

    /// A single file: its directory is watched, since the file itself is replaced sooner or later.
    fn file(&mut self) -> Result<Reading, ReadError> {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return self.absent();
        };
        let Ok(name) = CString::new(name.as_bytes()) else { return self.absent() };
        let root = match openat(rustix::fs::CWD, parent, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return self.absent(),
            opened => opened.map_err(|error| self.error(error))?,
        };
        let id = identity(&self.stat_fd(root.as_fd())?);
        let entry = Some(name.to_bytes().to_vec());
        let watch = Directory { path: parent.to_owned(), id, entry };
        if let Ok(target) = readlinkat(&root, DATA, Vec::new()) {
            return self.kubelet(root.as_fd(), target, Some(&name), watch);
        }
        let level =
            Level { fd: root.as_fd(), prefix: Vec::new(), depth: 0, path: None, above: None };
        let entry = Entry { name, kind: FileType::RegularFile };
        if self.file_entry(&level, &entry, Beside::Others)?.is_none() {
            return self.absent();
        }
        self.directories.push(watch);
        Ok(self.finish_fingerprint())
    }

    /// Nothing is there: the nearest directory above tells when that changes.
    fn absent(&self) -> Result<Reading, ReadError> {
        for above in self.path.ancestors().skip(1) {
            let Ok(fd) = openat(rustix::fs::CWD, above, DIRECTORY, Mode::empty()) else { continue };
            let id = identity(&self.stat_fd(fd.as_fd())?);
            let below = self.path.strip_prefix(above).ok().and_then(|path| path.iter().next());
            let entry = below.map(|name| name.as_bytes().to_vec());
            let directories = vec![Directory { path: above.to_owned(), id, entry }];
            return Ok(Reading { snapshot: None, directories });
        }
        Ok(Reading { snapshot: None, directories: Vec::new() })
    }

    fn finish_fingerprint(&mut self) -> Reading {
        let fingerprint = Digest(std::mem::take(&mut self.fingerprint).finalize().into());
        let directories = std::mem::take(&mut self.directories);
        self.finish(fingerprint.to_string(), self.newest, directories)
    }

    fn finish(
        &mut self,
        generation: String,
        committed: Duration,
        directories: Vec<Directory>,
    ) -> Reading {
        let snapshot = Snapshot {
            generation: Generation(generation),
            committed: UnixTime(committed),
            keys: std::mem::take(&mut self.keys),
            pauses: self.pauses,
        };
        Reading { snapshot: Some(snapshot), directories }
    }
}
