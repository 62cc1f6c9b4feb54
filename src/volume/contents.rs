//! Reads the contents of keys, for checks and for copies of whole volumes.
//!
//! Reads the volumes; changes nothing.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

pub(crate) use super::reader::{Content, Contents};
use super::reader::{Purpose, ReadError, Reader, Reading};
use super::snapshot::{self, Digest};
use crate::config::KeyFilter;
use crate::reason::Reason;

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
    /// They do not have the expected digest.
    Moved,
    /// They are larger than the limit.
    TooLarge(Reason),
    /// They cannot be read now.
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
    read(volumes, keys, expected, Purpose::Keep)
}

/// Reads all keys of each volume, and skips ignored keys that are unreadable.
pub(crate) fn read_all<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
) -> Result<Vec<Volume>, ContentsError> {
    read(volumes, keys, expected, Purpose::KeepAll).map_err(|error| match error {
        // Ignored keys may be the cause, so this must not reject the included ones.
        ContentsError::TooLarge(Reason { message, .. }) => ContentsError::Failed(Reason::new(message).hint(
            "copies contain all keys of a volume, including ignored ones, and hold at most 8 MiB",
        )),
        error => error,
    })
}

fn read<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
    purpose: Purpose,
) -> Result<Vec<Volume>, ContentsError> {
    let (mut digests, mut read) = (Vec::new(), Vec::new());
    let mut kept = 0;
    for path in volumes {
        let mut reader = Reader::new(path, keys, purpose);
        reader.kept_elsewhere = kept;
        let snapshot = match reader.read() {
            Ok(Reading { snapshot: Some(snapshot), .. }) => snapshot,
            Ok(_) | Err(ReadError::Moving { .. }) => return Err(ContentsError::Moved),
            Err(error @ ReadError::TooManyBytes { .. }) => {
                return Err(ContentsError::TooLarge(error.reason()));
            }
            Err(error) => return Err(ContentsError::Failed(error.reason())),
        };
        digests.push(snapshot.digest());
        kept += reader.contents.values().map(|content| content.len() as u64).sum::<u64>();
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        read.push(Volume { folder: folder.to_owned(), contents: reader.contents });
    }
    if snapshot::digest(digests) == expected { Ok(read) } else { Err(ContentsError::Moved) }
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
