//! The state, the result and the errors of one reading of a volume. `scan.rs` identifies what is at
//! the path, and `tree.rs` walks the files.
//!
//! Changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, OFlags, Stat, StatxAttributes, StatxFlags, fstat, statx};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use podnudge_config::KeyFilter;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{Digest, Key, Snapshot};

/// The most bytes of a rule's volumes that are kept for checks and for publishing; a ConfigMap or Secret
/// holds at most 1 MiB.
pub(super) const MAX_KEPT_BYTES: u64 = 8 * 1024 * 1024;
/// How often a reading is repeated because the volume was swapped meanwhile.
pub(super) const MAX_ATTEMPTS: usize = 20;
/// The deepest nesting of directories.
pub(super) const MAX_DEPTH: usize = 32;
/// The most keys and directories of a volume, ignored ones included.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// The most bytes of their names: podnudge holds them up to four times. 20,000 names of 50 bytes.
pub(super) const MAX_NAMES: usize = 1_000_000;
/// How many bytes of a file are read at once.
const READ_BUFFER: usize = 16 * 1024;

/// The result of one reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// `None` if there is nothing at the path.
    pub snapshot: Option<Snapshot>,
    /// The directories to watch for the next change.
    pub directories: Vec<Directory>,
    /// Whether all of its keys are files of one directory, with nothing else in it.
    pub is_flat: bool,
    /// Whether something is mounted at the path itself; `None` if that is unknown or does not apply.
    pub is_mounted: Option<bool>,
}

/// What must be at a watched path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Any,
    /// A mount, because one was there before: the directory below it is not the volume.
    Mount,
}

impl Root {
    /// Whether a mount must be at the path, and is not.
    pub(crate) fn lacks_mount(self, is_mounted: Option<bool>) -> bool {
        self == Self::Mount && is_mounted == Some(false)
    }
}

/// A directory to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// Device and inode: later the same path may be another directory.
    pub id: (u64, u64),
    /// The one relevant entry besides `..data`; `None` if all are.
    pub entry: Option<Vec<u8>>,
}

/// Why a path could not be read. All of these may be temporary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The kubelet swapped the volume during each reading.
    #[error("`{}` changed during each of {MAX_ATTEMPTS} readings", path.display())]
    Moving {
        /// The watched path.
        path: PathBuf,
    },
    /// The kubelet did not swap the volume, and a link of it leads nowhere.
    #[error("`..data` of `{}`, or a link behind it, leads to nothing", path.display())]
    Dangling {
        /// The watched path.
        path: PathBuf,
    },
    /// There are too many files or levels.
    #[error("`{}` has more than {MAX_ENTRIES} files and folders, {MAX_DEPTH} levels or {MAX_NAMES} bytes of names", path.display())]
    TooLarge {
        /// The watched path.
        path: PathBuf,
    },
    /// A file, or all files of a volume, are too large.
    #[error("`{}` holds more than {}", path.display(), amount(*most))]
    TooManyBytes {
        /// The watched path, or the key below it.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
    /// What is kept of all volumes of the rule is too large.
    #[error("`{}` exceeds the {} that podnudge keeps of a rule's volumes", path.display(), amount(MAX_KEPT_BYTES))]
    TooManyKept {
        /// The key that is too much.
        path: PathBuf,
    },
    /// A link leads out of the volume, and the content is to be published, copied or sent.
    #[error("`{}` is a link that leads out of the volume", path.display())]
    Leaves {
        /// The key below the watched path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot read `{}`: {source}", path.display())]
    System {
        /// The watched path, or the key below it.
        path: PathBuf,
        /// The system's error.
        source: Errno,
    },
}

impl ReadError {
    /// The error with a hint.
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
            Self::TooLarge { .. } | Self::TooManyBytes { .. } => reason.hint(
                "watch a directory that contains only the configuration, or select keys by `only`; `max-bytes` says how much is read",
            ),
            Self::TooManyKept { .. } => reason.hint(
                "checks, copies and `[rule.publish]` need all keys of all volumes, `[rule.expand]` only its `file`: select keys by `only`, exclude some by `ignore`, or watch the rest with another rule",
            ),
            Self::Leaves { .. } => reason.hint(
                "podnudge does not publish, copy or send what is outside of the volume: put the file itself there, or exclude it by `ignore`",
            ),
            Self::Moving { .. } | Self::Dangling { .. } | Self::System { .. } => reason,
        }
    }
}

/// A number of bytes, for messages.
fn amount(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{bytes} bytes")
    }
}

/// The contents of a volume's keys. Only `volume`, `checks` and `publish` handle them.
pub(crate) type Contents = BTreeMap<Key, Content>;

/// The content of a key, and the mode of its file.
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

/// Where kept content may come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The volume: the content may leave podnudge, and a link may lead to the token of a service account or to
    /// podnudge's own memory.
    Volume,
    /// Wherever links lead, as for the application: the content stays in podnudge.
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "only the proof by a TLS handshake reads so")
    )]
    Anywhere,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// Compute digests of podnudge's own files, without changing their access times.
    HashOwn,
    Hash,
    /// Compute digests, and keep the contents.
    Keep,
    /// Compute digests, and keep the content of one key, if it is there, without changing the access times of
    /// podnudge's own files.
    KeepKey(&'a Path, Origin),
    /// Compute digests, and keep the contents, those of ignored keys included.
    KeepAll,
    Fingerprint,
}

impl Purpose<'_> {
    /// Whether what is kept comes from the volume only.
    pub(super) fn is_confined(self) -> bool {
        match self {
            Self::Keep | Self::KeepAll | Self::KeepKey(_, Origin::Volume) => true,
            Self::KeepKey(_, Origin::Anywhere) | Self::HashOwn | Self::Hash | Self::Fingerprint => {
                false
            }
        }
    }

    /// Whether the content of this key is kept.
    pub(super) fn keeps(self, key: &Key) -> bool {
        match self {
            Self::Keep | Self::KeepAll => true,
            Self::KeepKey(path, _) => Path::new(OsStr::from_bytes(&key.0)) == path,
            Self::HashOwn | Self::Hash | Self::Fingerprint => false,
        }
    }
}

/// One reading in progress.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) filter: &'a KeyFilter,
    pub(super) purpose: Purpose<'a>,
    /// The keys read so far.
    pub(super) keys: BTreeMap<Key, Digest>,
    /// Whether the key that pauses the rule exists.
    pub(super) pauses: bool,
    /// Their contents, if the purpose is to keep them.
    pub(super) contents: Contents,
    /// The most bytes that are read.
    pub(super) most: u64,
    /// How many bytes were read so far.
    pub(super) read: u64,
    /// How many bytes are kept so far, and how many of the rule's other volumes.
    pub(super) kept: u64,
    pub(super) kept_elsewhere: u64,
    /// Whether a fingerprint is needed: a kubelet volume names its generation itself.
    pub(super) needs_fingerprint: bool,
    /// The hash over names, sizes, inodes and times.
    pub(super) fingerprint: Sha256,
    pub(super) newest: Duration,
    /// The number of entries so far, ignored ones included.
    pub(super) visited: usize,
    /// The bytes of their names, with those of the directories above.
    pub(super) names: usize,
    pub(super) directories: Vec<Directory>,
    /// Whether the directory holds files only.
    pub(super) is_flat: bool,
    pub(super) buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &'a Path, filter: &'a KeyFilter, purpose: Purpose<'a>) -> Self {
        Self {
            path,
            filter,
            purpose,
            keys: BTreeMap::new(),
            pauses: false,
            contents: Contents::new(),
            most: filter.most_bytes,
            read: 0,
            kept: 0,
            kept_elsewhere: 0,
            needs_fingerprint: true,
            fingerprint: Sha256::new(),
            newest: Duration::ZERO,
            visited: 0,
            names: 0,
            directories: Vec::new(),
            is_flat: false,
            buffer: Vec::with_capacity(READ_BUFFER),
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

/// Whether a directory is the root of a mount; `None` if the kernel does not say so (before Linux
/// 5.8, or where a sandbox has no `statx(2)`).
pub(super) fn is_mounted(directory: BorrowedFd<'_>) -> Option<bool> {
    let root = StatxAttributes::MOUNT_ROOT;
    let found = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE).ok()?;
    found.stx_attributes_mask.contains(root).then(|| found.stx_attributes.contains(root))
}

pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The time at which a link was made, since the epoch; zero for earlier times.
pub(super) fn modified(stat: &Stat) -> Duration {
    since_epoch(stat.st_mtime, stat.st_mtime_nsec)
}

/// The earliest time at which a file can have appeared: a file that was moved or restored may keep
/// its modification time, but not its change time (inode(7)).
pub(crate) fn changed(stat: &Stat) -> Duration {
    modified(stat).max(since_epoch(stat.st_ctime, stat.st_ctime_nsec))
}

/// The last access time, if the mount keeps it (`relatime`, mount(8)).
pub(crate) fn accessed(stat: &Stat) -> Duration {
    since_epoch(stat.st_atime, stat.st_atime_nsec)
}

fn since_epoch(seconds: i64, nanos: impl TryInto<u32>) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or(0), nanos.try_into().unwrap_or(0))
}
