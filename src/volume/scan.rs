//! Performs `Scan` and `Resync`: reads a volume as one consistent generation, or only identifies
//! its generation.
//!
//! Reads the watched path and everything below it; changes nothing. File contents are hashed in
//! pieces and never held in memory as a whole.
//!
//! The kubelet swaps a volume by renaming `..data`, and then removes the old generation. A reader
//! that follows the volume's links can see one key of the old and another of the new generation. So
//! this one opens the directory that `..data` points to, reads below it, and compares `..data`
//! afterwards: if it was replaced, or a file was missing, it reads again.

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

use super::level::Level;
use super::link::Links;
use super::mounts;
pub(crate) use super::reader::Root;
use super::reader::{DIRECTORY, MAX_ATTEMPTS, Purpose, Reader, identity, is_mounted, modified};
pub use super::reader::{Directory, ReadError, Reading};
use super::reads::OwnRead;
use super::tree::{Entry, LISTING_BUFFER, Siblings, kind_behind};
use podnudge_config::{KeyFilter, SMALL};
use podnudge_core::clock::UnixTime;
use podnudge_core::snapshot::{Digest, Generation, Snapshot};

/// The kubelet's link to the current generation.
const DATA: &CStr = c"..data";

/// Reads a kubelet volume, another directory, or a single file.
///
/// # Errors
/// If it cannot be read, or not as one generation. A missing path is not an error.
pub fn read(path: &Path, keys: &KeyFilter) -> Result<Reading, ReadError> {
    Reader::new(path, keys, Purpose::Hash).read()
}

/// Like [`read`], but only if the volume is small: otherwise it is [`ReadError::TooManyBytes`].
///
/// # Errors
/// If it cannot be read, or not as one generation, or is not small.
pub fn read_small(path: &Path, keys: &KeyFilter) -> Result<Reading, ReadError> {
    let mut reader = Reader::new(path, keys, Purpose::Hash);
    reader.most = SMALL;
    reader.read()
}

/// Like [`read`], for podnudge's own files: does not change the access times of files that podnudge
/// owns.
///
/// # Errors
/// If it cannot be read.
pub fn read_own(path: &Path, keys: &KeyFilter) -> Result<Reading, ReadError> {
    Reader::new(path, keys, Purpose::HashOwn).read()
}

/// Identifies the generation at `path`; `None` if nothing is there. Cheaper than [`read`]: one
/// `readlink` for a kubelet volume, one `stat` per file otherwise.
///
/// # Errors
/// If it cannot be read.
pub fn generation(path: &Path, keys: &KeyFilter) -> Result<Option<Generation>, ReadError> {
    generation_of(path, keys, Root::Any)
}

/// Like [`generation`], but `None` also if something else than `root` is there.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn generation_of(
    path: &Path,
    keys: &KeyFilter,
    root: Root,
) -> Result<Option<Generation>, ReadError> {
    let reading = Reader::new(path, keys, Purpose::Fingerprint).read()?;
    let snapshot = reading.snapshot.filter(|_| !root.lacks_mount(reading.is_mounted));
    Ok(snapshot.map(|snapshot| snapshot.generation))
}

/// For access below a directory, not for listing it. The kernel sends no event for an open with
/// `O_PATH`, so podnudge's own reading does not wake notify, which subscribes to every open.
const DIRECTORY_PATH: OFlags = DIRECTORY.union(OFlags::PATH);

/// Opens a directory; fails if its path contains a link, or before Linux 5.6, which has no
/// `openat2(2)`.
fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    let no_links = ResolveFlags::NO_SYMLINKS;
    openat2(rustix::fs::CWD, path, DIRECTORY_PATH, Mode::empty(), no_links)
}

impl Reader<'_> {
    pub(super) fn read(&mut self) -> Result<Reading, ReadError> {
        let _own = (self.purpose != Purpose::Fingerprint).then(OwnRead::begin);
        // Before the reading, so that a link that is replaced meanwhile shows in the next one.
        let (links, is_mounted, opened) = if let Ok(root) = open_without_links(self.path) {
            (Links::none(), is_mounted(root.as_fd()), Ok(root))
        } else {
            // A link may lead to a mount now, and to a directory later.
            let links = Links::of(self.path);
            (links, None, openat(rustix::fs::CWD, self.path, DIRECTORY_PATH, Mode::empty()))
        };
        let mut reading = self.at_path(opened)?;
        reading.is_mounted = is_mounted;
        if let Some(snapshot) = &mut reading.snapshot {
            links.add_to(snapshot);
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
                    Ok(target) => self.kubelet_volume(root.as_fd(), target, None, watch),
                    Err(Errno::NOENT) if self.is_incomplete(root.as_fd())? => {
                        Ok(nothing(vec![watch]))
                    }
                    Err(Errno::NOENT | Errno::INVAL) => {
                        self.plain_directory(self.reopen(root.as_fd())?.as_fd())
                    }
                    Err(error) => Err(self.error(error)),
                }
            }
            Err(Errno::NOTDIR) => self.single_file(),
            Err(Errno::NOENT) => self.absent(),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Reads a kubelet volume, or one key of it.
    fn kubelet_volume(
        &mut self,
        root: BorrowedFd<'_>,
        mut target: CString,
        key: Option<&CStr>,
        watch: Directory,
    ) -> Result<Reading, ReadError> {
        self.needs_fingerprint = false;
        let mut leads_nowhere = true;
        for _ in 0..MAX_ATTEMPTS {
            self.keys.clear();
            self.pauses = false;
            (self.visited, self.names) = (0, 0);
            self.contents.clear();
            (self.read, self.kept) = (0, 0);
            let whole = self.one_generation(root, &target, key)?;
            let again = match readlinkat(root, DATA, Vec::new()) {
                Ok(again) => again,
                Err(Errno::NOENT) => return self.absent(),
                Err(error) => return Err(self.error(error)),
            };
            if whole.is_none() || again != target {
                leads_nowhere &= again == target;
                target = again;
                continue;
            }
            let link = statat(root, DATA, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| self.error(e))?;
            let generation = target.to_string_lossy().into_owned();
            return Ok(self.finish(generation, modified(&link), vec![watch]));
        }
        let path = self.path.to_owned();
        Err(if leads_nowhere { ReadError::Dangling { path } } else { ReadError::Moving { path } })
    }

    /// Reads one generation; `None` if it disappeared meanwhile.
    fn one_generation(
        &mut self,
        root: BorrowedFd<'_>,
        target: &CStr,
        key: Option<&CStr>,
    ) -> Result<Option<()>, ReadError> {
        if self.purpose == Purpose::Fingerprint {
            return Ok(Some(()));
        }
        // The generations of the kubelet are in the volume.
        let is_confined = self.purpose.is_confined();
        let leaves = || ReadError::Leaves { path: self.path.join("..data") };
        if is_confined && target.to_bytes().contains(&b'/') {
            return Err(leaves());
        }
        let flags = if is_confined { DIRECTORY | OFlags::NOFOLLOW } else { DIRECTORY };
        let content = match openat(root, target, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) if is_confined => return Err(leaves()),
            opened => opened.map_err(|error| self.error(error))?,
        };
        let level = Level::top(content.as_fd(), None);
        match key {
            None => self.walk(&level),
            Some(name) => {
                let entry = Entry { name: name.to_owned(), kind: FileType::RegularFile };
                self.file_entry(&level, &entry, Siblings::Others)
            }
        }
    }

    /// Whether the kubelet is just creating or removing the volume: there is a generation without a
    /// link to it.
    fn is_incomplete(&self, root: BorrowedFd<'_>) -> Result<bool, ReadError> {
        let root = self.reopen(root)?;
        let mut buffer = [MaybeUninit::uninit(); LISTING_BUFFER];
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

    /// Reopens a directory for listing.
    fn reopen(&self, root: BorrowedFd<'_>) -> Result<OwnedFd, ReadError> {
        openat(root, c".", DIRECTORY, Mode::empty()).map_err(|error| self.error(error))
    }

    /// Reads a directory that the kubelet does not manage.
    fn plain_directory(&mut self, root: BorrowedFd<'_>) -> Result<Reading, ReadError> {
        let path = Some(self.path.to_owned());
        self.walk(&Level::top(root, path))?;
        Ok(self.finish_fingerprint())
    }

    /// Reads a single file. Its directory is watched, since the file itself is replaced at some
    /// time.
    fn single_file(&mut self) -> Result<Reading, ReadError> {
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
            return self.kubelet_volume(root.as_fd(), target, Some(&name), watch);
        }
        let level = Level::top(root.as_fd(), None);
        let entry = Entry { name, kind: FileType::RegularFile };
        let is_file = matches!(kind_behind(&level, &entry), Some(FileType::RegularFile) | None);
        if is_file && self.file_entry(&level, &entry, Siblings::Others)?.is_none() {
            return self.absent();
        }
        self.directories.push(watch);
        Ok(self.finish_fingerprint())
    }

    /// Nothing exists at the path: watches the nearest existing directory above it.
    fn absent(&self) -> Result<Reading, ReadError> {
        for above in self.path.ancestors().skip(1) {
            let Ok(fd) = openat(rustix::fs::CWD, above, DIRECTORY, Mode::empty()) else { continue };
            let id = identity(&self.stat_fd(fd.as_fd())?);
            let below = self.path.strip_prefix(above).ok().and_then(|path| path.iter().next());
            let entry = below.map(|name| name.as_bytes().to_vec());
            let directories = vec![Directory { path: above.to_owned(), id, entry }];
            return Ok(nothing(directories));
        }
        Ok(nothing(Vec::new()))
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
        let is_flat = self.is_flat && !snapshot.keys.is_empty();
        Reading { snapshot: Some(snapshot), directories, is_flat, is_mounted: None }
    }
}

/// There is nothing at the path.
fn nothing(directories: Vec<Directory>) -> Reading {
    Reading { snapshot: None, directories, is_flat: false, is_mounted: None }
}
