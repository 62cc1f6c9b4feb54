//! What keys hold: for checks, and for copies of whole volumes.
//!
//! Reads the volumes; changes nothing.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::read::{Purpose, ReadError, Reader};
use super::snapshot::{self, Digest, Key, Snapshot};
use crate::config::KeyFilter;
use crate::core::event::Reason;

/// The contents of a volume's keys. They never leave `volume`.
pub(super) type Contents = BTreeMap<Key, Content>;

/// What a key holds, and the mode of its file.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads what is at `path`, and keeps the contents of the keys that count.
///
/// # Errors
/// If it cannot be read, not as one generation, or if it is too much.
pub(super) fn of(path: &Path, keys: &KeyFilter) -> Result<Option<(Snapshot, Contents)>, ReadError> {
    kept(path, keys, Purpose::Keep)
}

/// The same, with the contents of all keys, those that do not count as far as they can be read.
/// The snapshot is of those that count.
///
/// # Errors
/// As for [`of`].
fn of_all(path: &Path, keys: &KeyFilter) -> Result<Option<(Snapshot, Contents)>, ReadError> {
    kept(path, keys, Purpose::KeepAll)
}

fn kept(
    path: &Path,
    keys: &KeyFilter,
    purpose: Purpose,
) -> Result<Option<(Snapshot, Contents)>, ReadError> {
    let mut reader = Reader::new(path, keys, purpose);
    let snapshot = reader.look()?.snapshot;
    Ok(snapshot.map(|snapshot| (snapshot, reader.contents)))
}

/// Why the volumes cannot be copied.
#[derive(Debug)]
pub(super) enum Unread {
    /// They hold something else than was asked about.
    Moved,
    /// They cannot be read now.
    Failed(Reason),
}

impl From<Reason> for Unread {
    fn from(reason: Reason) -> Self {
        Self::Failed(reason)
    }
}

/// The contents of all keys, volume by volume, if what counts of them has the digest that was
/// asked about.
pub(super) fn whole(
    volumes: &[PathBuf],
    keys: &KeyFilter,
    asked: Digest,
) -> Result<Vec<Contents>, Unread> {
    let (mut digests, mut all) = (Vec::new(), Vec::new());
    for path in volumes {
        let (snapshot, contents) = match of_all(path, keys) {
            Ok(Some(read)) => read,
            Ok(None) | Err(ReadError::Moving { .. }) => return Err(Unread::Moved),
            Err(ReadError::TooMuch { .. }) => {
                let reason = Reason::new(format!("`{}` holds too much", path.display()));
                return Err(Unread::Failed(reason.hint(
                    "copies are of the whole volume, also of keys that do not count, and hold at most 16 MiB",
                )));
            }
            Err(error) => return Err(Unread::Failed(error.reason())),
        };
        digests.push(snapshot.digest());
        all.push(contents);
    }
    if snapshot::digest(digests) == asked { Ok(all) } else { Err(Unread::Moved) }
}

/// The digest over all keys of all volumes, also over those that do not count.
pub(super) fn digest_of_all(volumes: &[Contents]) -> Digest {
    let of_one = |contents: &Contents| {
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
