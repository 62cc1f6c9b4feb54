//! Walks the files below a directory, through descriptors only: hashes files, adds them to the
//! fingerprint, or skips them.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, openat, openat2, statat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::filter;
use super::level::Level;
use super::reader::{
    Content, DIRECTORY, Directory, MAX_DEPTH, MAX_ENTRIES, MAX_KEPT_BYTES, MAX_NAMES, Purpose,
    ReadError, Reader, changed, identity,
};
use podnudge_core::snapshot::{Digest, Key};

/// The buffer for listing a directory, in bytes; an entry takes at most 280 (getdents(2)).
pub(super) const LISTING_BUFFER: usize = 2048;

/// The other files in a file's directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Siblings {
    /// The files that the kubelet puts beside a service account token.
    TokenFiles,
    Others,
}

/// A name in a directory.
pub(super) struct Entry {
    pub(super) name: CString,
    pub(super) kind: FileType,
}

/// Why the reading of a file was stopped.
enum Stopped {
    By(Errno),
    /// The file is too large.
    File,
    /// All files of the volume are too large.
    Volume,
    /// What is kept of all volumes is too large.
    Kept,
}

impl Reader<'_> {
    /// Reads a directory and everything below it; `None` if something disappeared meanwhile, which
    /// only matters in a generation of the kubelet.
    pub(super) fn walk(&mut self, level: &Level<'_>) -> Result<Option<()>, ReadError> {
        if level.depth > MAX_DEPTH {
            return Err(ReadError::TooLarge { path: self.path.to_owned() });
        }
        if let Some(path) = &level.path {
            let stat = self.stat_fd(level.fd)?;
            self.newest = self.newest.max(changed(&stat));
            let id = identity(&stat);
            self.directories.push(Directory { path: path.clone(), id, entry: None });
        }
        let entries = self.entries(level)?;
        let has = |name: &CStr| entries.iter().any(|entry| entry.name.as_c_str() == name);
        let is_token_folder = has(c"ca.crt") && has(c"namespace");
        let siblings = if is_token_folder { Siblings::TokenFiles } else { Siblings::Others };
        let mut whole = Some(());
        if level.depth == 0 {
            self.is_flat = entries.iter().all(|entry| entry.kind == FileType::RegularFile);
        }
        for entry in &entries {
            let read = match entry.kind {
                FileType::Directory => self.enter_directory(level, entry)?,
                FileType::RegularFile => self.file_entry(level, entry, siblings)?,
                FileType::Symlink | FileType::Unknown => match kind_behind(level, entry) {
                    Some(FileType::Directory) => self.follow_link(level, entry)?,
                    Some(FileType::RegularFile) | None => {
                        self.file_entry(level, entry, siblings)?
                    }
                    Some(_) => Some(()),
                },
                // To open a FIFO would end its writer.
                _ => Some(()),
            };
            // In a plain directory a missing file is just not a key.
            if read.is_none() && level.path.is_none() {
                whole = None;
            }
        }
        Ok(whole)
    }

    fn enter_directory(
        &mut self,
        level: &Level<'_>,
        entry: &Entry,
    ) -> Result<Option<()>, ReadError> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let fd = match openat(level.fd, &entry.name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(self.error_at(level, entry, error)),
        };
        self.descend(level, entry, fd.as_fd(), false)
    }

    /// Reads the directory that a link points to, such as a nested volume's folder of keys. Ignores
    /// a link to one of its own ancestors.
    fn follow_link(&mut self, level: &Level<'_>, entry: &Entry) -> Result<Option<()>, ReadError> {
        // To list it tells nothing: what leaves podnudge is opened from the top.
        let fd = match openat(level.fd, &entry.name, DIRECTORY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(self.error_at(level, entry, error)),
        };
        let id = identity(&self.stat_fd(fd.as_fd())?);
        for level in level.upwards() {
            if identity(&self.stat_fd(level.fd)?) == id {
                return Ok(Some(()));
            }
        }
        self.descend(level, entry, fd.as_fd(), true)
    }

    fn descend(
        &mut self,
        level: &Level<'_>,
        entry: &Entry,
        fd: BorrowedFd<'_>,
        is_behind_link: bool,
    ) -> Result<Option<()>, ReadError> {
        let mut prefix = level.prefix.clone();
        prefix.extend_from_slice(entry.name.to_bytes());
        prefix.push(b'/');
        let name = OsStr::from_bytes(entry.name.to_bytes());
        let path = level.path.as_ref().map(|path| path.join(name));
        let depth = level.depth + 1;
        self.walk(&Level { fd, prefix, depth, path, above: Some(level), is_behind_link })
    }

    /// Reads one file; `None` if it has disappeared. Skips ignored keys and everything that is not
    /// a regular file.
    pub(super) fn file_entry(
        &mut self,
        level: &Level<'_>,
        entry: &Entry,
        siblings: Siblings,
    ) -> Result<Option<()>, ReadError> {
        let key = Key([level.prefix.as_slice(), entry.name.to_bytes()].concat());
        let pauses = filter::pauses(self.filter, &key.0);
        self.pauses |= pauses;
        if pauses && let Ok(stat) = statat(level.fd, &entry.name, AtFlags::empty()) {
            self.add_to_fingerprint(&key, &stat);
        }
        let is_included = filter::is_included(self.filter, &key.0);
        if !is_included && self.purpose != Purpose::KeepAll {
            return Ok(Some(()));
        }
        if self.purpose == Purpose::Fingerprint {
            return match statat(level.fd, &entry.name, AtFlags::empty()) {
                Ok(stat) => {
                    self.add_to_fingerprint(&key, &stat);
                    Ok(Some(()))
                }
                Err(Errno::NOENT | Errno::LOOP) => Ok(None),
                Err(error) => Err(self.error_at(level, entry, error)),
            };
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let keeps = self.purpose.keeps(&key);
        let open = |flags| self.open(level, entry, flags, keeps && self.purpose.is_confined());
        let opened = match self.purpose {
            Purpose::HashOwn | Purpose::KeepKey(..) => {
                open(flags | OFlags::NOATIME).or_else(|_| open(flags))
            }
            _ => open(flags),
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            // A socket, or a device without a driver.
            Err(Errno::NXIO | Errno::NODEV) => return Ok(Some(())),
            Err(_) if !is_included => return Ok(Some(())),
            Err(error) => return Err(self.error_at(level, entry, error)),
        };
        let stat = self.stat_fd(fd.as_fd())?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Some(()));
        }
        let mut kept = keeps.then(Vec::new);
        let hash = self.hash(&fd, stat.st_size, siblings, kept.as_mut());
        self.add_to_fingerprint(&key, &stat);
        if let Some(digest) = hash.map_err(|why| self.stopped(level, entry, &why))? {
            if let Some(bytes) = kept {
                let mode = stat.st_mode & 0o777;
                self.contents.insert(key.clone(), Content { bytes, mode });
            }
            if is_included {
                self.keys.insert(key, digest);
            }
        }
        Ok(Some(()))
    }

    /// Opens an entry. `is_confined`: only below the watched path ([`Origin::Volume`](super::reader::Origin)).
    fn open(
        &self,
        level: &Level<'_>,
        entry: &Entry,
        flags: OFlags,
        is_confined: bool,
    ) -> Result<OwnedFd, Errno> {
        if !is_confined {
            return openat(level.fd, &entry.name, flags, Mode::empty());
        }
        let top = level.upwards().last();
        let path = [level.prefix.as_slice(), entry.name.to_bytes()].concat();
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if !self.needs_fingerprint {
            // The kubelet makes none inside a generation.
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let top = top.map_or(level.fd, |top| top.fd);
        match openat2(top, path.as_slice(), flags, Mode::empty(), resolve) {
            Err(Errno::LOOP) if !self.needs_fingerprint => Err(Errno::XDEV),
            // An absolute link may lead back into the volume.
            Err(Errno::XDEV) if self.needs_fingerprint => {
                let real = self.real_path_below(level, entry).ok_or(Errno::XDEV)?;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                openat2(top, real.as_path(), flags, Mode::empty(), resolve).map_err(|_| Errno::XDEV)
            }
            // Before Linux 5.6, or forbidden by an old seccomp profile: no links at all, also not to a directory.
            Err(Errno::NOSYS | Errno::PERM) => {
                if level.upwards().any(|level| level.is_behind_link) {
                    return Err(Errno::XDEV);
                }
                openat(level.fd, &entry.name, flags | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(|error| if error == Errno::LOOP { Errno::XDEV } else { error })
            }
            opened => opened,
        }
    }

    /// The path below the watched one that a link leads to, if it does.
    fn real_path_below(&self, level: &Level<'_>, entry: &Entry) -> Option<PathBuf> {
        let below = [level.prefix.as_slice(), entry.name.to_bytes()].concat();
        let real = fs::canonicalize(self.path.join(OsStr::from_bytes(&below))).ok()?;
        let top = fs::canonicalize(self.path).ok()?;
        Some(real.strip_prefix(top).ok()?.to_owned())
    }

    fn stopped(&self, level: &Level<'_>, entry: &Entry, why: &Stopped) -> ReadError {
        match why {
            Stopped::By(error) => self.error_at(level, entry, *error),
            Stopped::File => {
                ReadError::TooManyBytes { path: self.path_of(level, entry), most: self.most }
            }
            Stopped::Volume => {
                ReadError::TooManyBytes { path: self.path.to_owned(), most: self.most }
            }
            Stopped::Kept => ReadError::TooManyKept { path: self.path_of(level, entry) },
        }
    }

    /// The digest of a file; `None` for a service account token, which the kubelet rotates and no
    /// application needs a reload for.
    fn hash(
        &mut self,
        fd: &OwnedFd,
        size: i64,
        siblings: Siblings,
        mut kept: Option<&mut Vec<u8>>,
    ) -> Result<Option<Digest>, Stopped> {
        if u64::try_from(size).is_ok_and(|size| size > self.most) {
            return Err(Stopped::File);
        }
        if let Some(kept) = &mut kept {
            // A vector that grows has room for twice as much.
            let size = u64::try_from(size).unwrap_or(0).min(MAX_KEPT_BYTES);
            kept.reserve_exact(usize::try_from(size).unwrap_or(0));
        }
        let mut hash = Sha256::new();
        let mut read = 0_u64;
        loop {
            self.buffer.clear();
            let room = spare_capacity(&mut self.buffer);
            let length = rustix::io::read(fd, room).map_err(Stopped::By)?;
            let piece = self.buffer.as_slice();
            let first = read == 0;
            read += length as u64;
            self.read += length as u64;
            if self.read > self.most {
                return Err(Stopped::Volume);
            }
            // A token fits into the buffer.
            let is_whole = first && i64::try_from(read) == Ok(size);
            if is_whole && siblings == Siblings::TokenFiles && filter::is_token(piece) {
                return Ok(None);
            }
            hash.update(piece);
            if let Some(kept) = &mut kept {
                self.kept += length as u64;
                if self.kept_elsewhere + self.kept > MAX_KEPT_BYTES {
                    return Err(Stopped::Kept);
                }
                kept.extend_from_slice(piece);
            }
            // Stop at the size from `fstat`: that saves a system call for each key. A file that
            // grows meanwhile is read again. On file systems that report no size, read until the
            // end.
            if piece.is_empty() || i64::try_from(read) == Ok(size) {
                return Ok(Some(Digest(hash.finalize().into())));
            }
        }
    }

    /// Adds a file to the fingerprint. A change of mode changes it, too; that only costs a reading,
    /// because the digest decides.
    fn add_to_fingerprint(&mut self, key: &Key, stat: &Stat) {
        if !self.needs_fingerprint || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        {
            return;
        }
        self.newest = self.newest.max(changed(stat));
        self.fingerprint.update(key.0.len().to_le_bytes());
        self.fingerprint.update(&key.0);
        for number in [
            i128::from(stat.st_size),
            i128::from(stat.st_ino),
            i128::from(stat.st_mtime),
            i128::from(stat.st_mtime_nsec),
            i128::from(stat.st_ctime),
            i128::from(stat.st_ctime_nsec),
        ] {
            self.fingerprint.update(number.to_le_bytes());
        }
    }

    /// The entries of a directory, sorted, without the kubelet's own (`..data`, `..2006_…`).
    fn entries(&mut self, level: &Level<'_>) -> Result<Vec<Entry>, ReadError> {
        let mut entries = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); LISTING_BUFFER];
        // It starts at the descriptor's offset: each descriptor is listed once.
        let mut listing = RawDir::new(level.fd, &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = match entry {
                // It was removed during the listing: the link to it was replaced, which the caller
                // detects.
                Err(Errno::NOENT) => break,
                entry => entry.map_err(|error| self.error(error))?,
            };
            let name = entry.file_name();
            if name.to_bytes().starts_with(b"..") || name == c"." {
                continue;
            }
            self.visited += 1;
            self.names += level.prefix.len() + name.to_bytes().len();
            if self.visited > MAX_ENTRIES || self.names > MAX_NAMES {
                return Err(ReadError::TooLarge { path: self.path.to_owned() });
            }
            entries.push(Entry { name: name.to_owned(), kind: entry.file_type() });
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    fn error_at(&self, level: &Level<'_>, entry: &Entry, source: Errno) -> ReadError {
        let path = self.path_of(level, entry);
        match source {
            Errno::XDEV => ReadError::Leaves { path },
            source => ReadError::System { path, source },
        }
    }

    /// The path of an entry, for messages.
    fn path_of(&self, level: &Level<'_>, entry: &Entry) -> PathBuf {
        if !self.path.is_dir() {
            return self.path.to_owned();
        }
        let below = [level.prefix.as_slice(), entry.name.to_bytes()].concat();
        self.path.join(Key(below).to_string())
    }
}

/// What an entry is, after following links.
pub(super) fn kind_behind(level: &Level<'_>, entry: &Entry) -> Option<FileType> {
    let stat = statat(level.fd, &entry.name, AtFlags::empty()).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}
