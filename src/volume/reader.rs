//! One reading of a volume: what it collects, what it comes to, and why it fails. Walking the files
//! (`tree.rs`) and finding out what is at a path (`scan.rs`) fill it.
//!
//! Changes nothing.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::snapshot::{Digest, Key, Snapshot};
use crate::config::KeyFilter;
use crate::reason::Reason;

/// How many bytes are kept at most, for checks: a ConfigMap or Secret holds at most 1 MiB.
pub(super) const MOST_KEPT: usize = 16 * 1024 * 1024;
/// How often a volume may move under the reader before it is left for later.
pub(super) const ATTEMPTS: usize = 20;
/// How deep directories may be nested.
pub(super) const DEEPEST: usize = 32;
/// How many keys and folders a volume may have, counted or not.
pub(super) const MOST_KEYS: usize = 20_000;

/// What one look at a path brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// `None` if there is nothing at the path.
    pub snapshot: Option<Snapshot>,
    /// What must be watched to hear of the next change.
    pub directories: Vec<Directory>,
}

/// A directory to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// Device and inode: the same path may be another directory later.
    pub id: (u64, u64),
    /// The one entry besides `..data` that matters; `None` if all do.
    pub entry: Option<Vec<u8>>,
}

/// Why a path could not be read. All of these may pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The kubelet swapped faster than the reader read.
    #[error("`{}` changed during each of {ATTEMPTS} readings", path.display())]
    Moving {
        /// The watched path.
        path: PathBuf,
    },
    /// There is more than a configuration.
    #[error("`{}` has more than {MOST_KEYS} files and folders or {DEEPEST} levels", path.display())]
    TooLarge {
        /// The watched path.
        path: PathBuf,
    },
    /// There is more than can be kept.
    #[error("`{}` holds more than {} MiB", path.display(), MOST_KEPT / 1024 / 1024)]
    TooMuch {
        /// The watched path.
        path: PathBuf,
    },
    /// The system says no.
    #[error("cannot read `{}`: {source}", path.display())]
    System {
        /// The watched path, or the key below it.
        path: PathBuf,
        /// What the system says.
        source: Errno,
    },
}

impl ReadError {
    /// The error with what can be done about it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let reason = Reason::new(self.to_string());
        match self {
            Self::System { source: Errno::ACCESS | Errno::PERM, .. } => {
                let uid = rustix::process::geteuid().as_raw();
                reason.hint(format!(
                    "podnudge runs as uid {uid}; set the volume's defaultMode to 0444, or fsGroup in the pod's securityContext"
                ))
            }
            Self::TooLarge { .. } | Self::TooMuch { .. } => reason
                .hint("watch the directory with the configuration alone, or narrow it by `only`"),
            Self::Moving { .. } | Self::System { .. } => reason,
        }
    }
}

/// The contents of a volume's keys. Only `volume`, `checks` and `publish` handle them.
pub(crate) type Contents = BTreeMap<Key, Content>;

/// What a key holds, and the mode of its file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Digests of what podnudge has written itself, without a trace in its times of access.
    HashOwn,
    Hash,
    /// The same, and the contents are kept.
    Keep,
    /// The same, and the contents of keys that do not count are kept, too.
    KeepAll,
    Fingerprint,
}

impl Purpose {
    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::KeepAll)
    }
}

/// One reading in progress.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) filter: &'a KeyFilter,
    pub(super) purpose: Purpose,
    /// The keys read so far.
    pub(super) keys: BTreeMap<Key, Digest>,
    /// Whether the key is there that pauses the rule.
    pub(super) pauses: bool,
    /// What they hold, if that is to be kept.
    pub(super) contents: Contents,
    /// How many bytes that is.
    pub(super) kept: usize,
    /// Whether the fingerprint is needed: a volume of the kubelet tells its generation itself.
    pub(super) is_marked: bool,
    /// Over names, sizes, inodes and times.
    pub(super) fingerprint: Sha256,
    pub(super) newest: Duration,
    /// How many names were seen, counted or not.
    pub(super) visited: usize,
    pub(super) directories: Vec<Directory>,
    pub(super) buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &'a Path, filter: &'a KeyFilter, purpose: Purpose) -> Self {
        Self {
            path,
            filter,
            purpose,
            keys: BTreeMap::new(),
            pauses: false,
            contents: Contents::new(),
            kept: 0,
            is_marked: true,
            fingerprint: Sha256::new(),
            newest: Duration::ZERO,
            visited: 0,
            directories: Vec::new(),
            buffer: Vec::new(),
        }
    }

    pub(super) fn stat_fd(&self, fd: BorrowedFd<'_>) -> Result<Stat, ReadError> {
        fstat(fd).map_err(|error| self.error(error))
    }

    pub(super) fn error(&self, source: Errno) -> ReadError {
        ReadError::System { path: self.path.to_owned(), source }
    }
}

pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// When a link was made, since the epoch; zero for times before it.
pub(super) fn modified(stat: &Stat) -> Duration {
    since_epoch(stat.st_mtime, stat.st_mtime_nsec)
}

/// When a file came to be here, at the earliest: a file that is moved or restored may keep its
/// modification time, but not its change time (inode(7)).
pub(crate) fn changed(stat: &Stat) -> Duration {
    modified(stat).max(since_epoch(stat.st_ctime, stat.st_ctime_nsec))
}

/// When a file was last read, as far as its mount keeps that (`relatime`, mount(8)).
pub(crate) fn accessed(stat: &Stat) -> Duration {
    since_epoch(stat.st_atime, stat.st_atime_nsec)
}

fn since_epoch(seconds: i64, nanos: impl TryInto<u32>) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or(0), nanos.try_into().unwrap_or(0))
}
