//! Reads the contents of keys: for checks, for the proof by a certificate, for the body of a request, and for
//! copies of whole volumes.
//!
//! Reads the volumes; changes nothing.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

pub(crate) use super::reader::Origin;
pub(crate) use super::reader::{Content, Contents};
use super::reader::{Purpose, ReadError, Reader, Reading};
use podnudge_config::KeyFilter;
use podnudge_core::reason::Reason;
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

impl ContentsError {
    /// Why they cannot be used, where that is only said.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Moved => Reason::new("the content has changed meanwhile"),
            Self::TooLarge(reason) | Self::Failed(reason) => reason,
        }
    }
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
    read(&mut volumes.into_iter(), keys, Some(expected), &|_, _| Purpose::Keep)
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
    read(&mut volumes.into_iter(), keys, Some(expected), &|folder, read| match file
        .strip_prefix(folder)
    {
        // A file may be in a watched directory, and be watched as well.
        Ok(key) if read.iter().all(|volume| volume.contents.is_empty()) => {
            Purpose::KeepKey(key, Origin::Volume)
        }
        _ => Purpose::Hash,
    })
}

/// Reads all keys of each volume, and skips ignored keys that are unreadable.
pub(crate) fn read_all<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
) -> Result<Vec<Volume>, ContentsError> {
    read(&mut volumes.into_iter(), keys, Some(expected), &|_, _| Purpose::KeepAll).map_err(|error| match error {
        // Ignored keys may be the cause, so this must not reject the included ones.
        ContentsError::TooLarge(Reason { message, .. }) => ContentsError::Failed(Reason::new(message).hint(
            "copies contain all keys of a volume, including ignored ones, and hold at most 8 MiB",
        )),
        error => error,
    })
}

/// Reads the volumes, each for the purpose that follows from its directory and from what was read before. Not generic,
/// so that there is one of it.
fn read<'a, 'b>(
    volumes: &mut dyn Iterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Option<Digest>,
    purpose: &dyn Fn(&Path, &[Volume]) -> Purpose<'b>,
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
    let is_expected = expected.is_none_or(|expected| snapshot::digest(digests) == expected);
    if is_expected { Ok(read) } else { Err(ContentsError::Moved) }
}

/// Reads one key of each volume, if they have the expected digest; empty where a volume has no such key. Does not change
/// the access times of files that podnudge owns.
pub(crate) fn read_key(
    volumes: &[PathBuf],
    keys: &KeyFilter,
    expected: Option<Digest>,
    key: &Path,
    from: Origin,
) -> Result<Vec<Volume>, ContentsError> {
    let volumes = &mut volumes.iter().map(PathBuf::as_path);
    read(volumes, keys, expected, &|_, _| Purpose::KeepKey(key, from))
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
