//! Reads the contents of keys: for checks, for the proof by a certificate, for the body of a request, and for
//! copies of whole volumes.
//!
//! Reads the volumes; changes nothing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

pub(crate) use super::reader::{Content, Contents};
use super::reader::{Purpose, ReadError, Reader, Reading};
use super::scan;
use crate::system::files::{self, FileError};
use podnudge_config::KeyFilter;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Key;
use podnudge_core::snapshot::{self, Digest};

/// The contents of one volume.
#[derive(Debug)]
pub(crate) struct Volume {
    /// The directory that key names are relative to: for a watched file, its parent.
    pub(crate) folder: PathBuf,
    pub(crate) contents: Contents,
}

/// Why the contents of volumes cannot be used.
#[derive(Debug)]
pub(crate) enum ContentsError {
    /// The contents do not have the expected digest.
    Moved,
    /// The contents are larger than the limit.
    TooLarge(Reason),
    /// The contents cannot be read now.
    Failed(Reason),
}

impl From<Reason> for ContentsError {
    fn from(reason: Reason) -> Self {
        Self::Failed(reason)
    }
}

/// Reads the included keys of each volume, if they have the expected digest.
pub(crate) fn read_included<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
) -> Result<Vec<Volume>, ContentsError> {
    read(volumes, keys, expected, |_, _| Purpose::Keep)
}

/// Reads one file of the volumes, if they have the expected digest. Of all other keys it keeps nothing, so
/// that the limit does not apply to them.
#[cfg(feature = "compat")]
pub(crate) fn read_file<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
    file: &Path,
) -> Result<Vec<Volume>, ContentsError> {
    read(volumes, keys, expected, |folder, read| match file.strip_prefix(folder) {
        // A file may be in a watched directory, and be watched as well.
        Ok(key) if read.iter().all(|volume| volume.contents.is_empty()) => Purpose::KeepKey(key),
        _ => Purpose::Hash,
    })
}

/// Reads all keys of each volume, and skips ignored keys that are unreadable.
pub(crate) fn read_all<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
) -> Result<Vec<Volume>, ContentsError> {
    read(volumes, keys, expected, |_, _| Purpose::KeepAll).map_err(|error| match error {
        // Ignored keys may be the cause, so this must not reject the included ones.
        ContentsError::TooLarge(Reason { message, .. }) => ContentsError::Failed(Reason::new(message).hint(
            "copies contain all keys of a volume, including ignored ones, and hold at most 8 MiB",
        )),
        error => error,
    })
}

/// Reads the volumes, each for the purpose that follows from its directory and from what was read before.
fn read<'a, 'b>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
    purpose: impl Fn(&Path, &[Volume]) -> Purpose<'b>,
) -> Result<Vec<Volume>, ContentsError> {
    let (mut digests, mut read) = (Vec::new(), Vec::new());
    let mut kept = 0;
    for path in volumes {
        let folder = folder(path);
        let mut reader = Reader::new(path, keys, purpose(folder, &read));
        reader.kept_elsewhere = kept;
        let snapshot = match reader.read() {
            Ok(Reading { snapshot: Some(snapshot), .. }) => snapshot,
            Ok(_) | Err(ReadError::Moving { .. }) => return Err(ContentsError::Moved),
            Err(error @ (ReadError::TooManyBytes { .. } | ReadError::TooManyKept { .. })) => {
                return Err(ContentsError::TooLarge(error.reason()));
            }
            Err(error) => return Err(ContentsError::Failed(error.reason())),
        };
        digests.push(snapshot.digest());
        kept += reader.contents.values().map(|content| content.len() as u64).sum::<u64>();
        read.push(Volume { folder: folder.to_owned(), contents: reader.contents });
    }
    if snapshot::digest(digests) == expected { Ok(read) } else { Err(ContentsError::Moved) }
}

/// Reads one key of these volumes, if they have the expected digest: its content in each volume, if that has
/// it, of at most so many bytes. Does not change the access times of files that podnudge owns, and keeps
/// nothing else.
///
/// # Errors
/// If they cannot be read, or have another digest.
pub(crate) fn read_key(
    volumes: &[PathBuf],
    keys: &KeyFilter,
    expected: Option<Digest>,
    key: &Key,
    most: u64,
) -> Result<Vec<Option<Vec<u8>>>, Reason> {
    let changed = || Reason::new("the content has changed meanwhile");
    let (mut digests, mut contents) = (Vec::new(), Vec::new());
    for path in volumes {
        let reading = scan::read_own(path, keys).map_err(|error| error.reason())?;
        let snapshot = reading.snapshot.ok_or_else(changed)?;
        digests.push(snapshot.digest());
        let Some(digest) = snapshot.keys.get(key) else {
            contents.push(None);
            continue;
        };
        let path = folder(path).join(OsStr::from_bytes(&key.0));
        let bytes = read_own(&path, most).map_err(|error| {
            Reason::new(format!("cannot read `{}`: {error}", shown::path(&path)))
        })?;
        if digest.0 != <[u8; 32]>::from(Sha256::digest(&bytes)) {
            return Err(changed());
        }
        contents.push(Some(bytes));
    }
    if expected.is_some_and(|expected| snapshot::digest(digests) != expected) {
        return Err(changed());
    }
    Ok(contents)
}

fn read_own(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |flags| rustix::fs::open(path, flags, Mode::empty());
    let file = open(flags | OFlags::NOATIME).or_else(|_| open(flags)).map_err(io::Error::from)?;
    files::read_to_end(file.into(), most)
}

/// The directory that the names of a volume's keys are relative to: for a watched file, its parent.
pub(crate) fn folder(volume: &Path) -> &Path {
    if volume.is_dir() { volume } else { volume.parent().unwrap_or(volume) }
}

/// The digest over all keys of all volumes, including ignored ones.
pub(crate) fn full_digest(volumes: &[Volume]) -> Digest {
    let of_one = |Volume { contents, .. }: &Volume| {
        let mut hash = Sha256::new();
        for (key, content) in contents {
            hash.update(key.0.len().to_le_bytes());
            hash.update(&key.0);
            hash.update(content.len().to_le_bytes());
            hash.update(&content.bytes);
        }
        Digest(hash.finalize().into())
    };
    snapshot::digest(volumes.iter().map(of_one))
}
