//! What keys hold: for checks, and for copies of whole volumes.
//!
//! Reads the volumes; changes nothing.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

pub(crate) use super::reader::{Content, Contents};
use super::reader::{Purpose, ReadError, Reader, Reading};
use super::snapshot::{self, Digest};
use crate::config::KeyFilter;
use crate::reason::Reason;

/// One volume, read.
#[derive(Debug)]
pub(crate) struct Volume {
    /// What its keys are named from: a watched file is a key of its directory.
    pub(crate) folder: PathBuf,
    pub(crate) contents: Contents,
}

/// Why the volumes' contents are not to be had.
#[derive(Debug)]
pub(crate) enum Unread {
    /// They hold something else than was asked about.
    Moved,
    /// They hold more than is ever read.
    TooMuch(Reason),
    /// They cannot be read now.
    Failed(Reason),
}

impl From<Reason> for Unread {
    fn from(reason: Reason) -> Self {
        Self::Failed(reason)
    }
}

/// The contents of the keys that count, volume by volume, if they have the digest that was asked
/// about.
pub(crate) fn counted<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    asked: Digest,
) -> Result<Vec<Volume>, Unread> {
    read(volumes, keys, asked, Purpose::Keep)
}

/// The contents of all keys, those that do not count as far as they can be read.
pub(crate) fn whole<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    asked: Digest,
) -> Result<Vec<Volume>, Unread> {
    read(volumes, keys, asked, Purpose::KeepAll).map_err(|unread| match unread {
        // It may be too much by the keys that do not count: this says nothing against the others.
        Unread::TooMuch(Reason { message, .. }) => Unread::Failed(Reason::new(message).hint(
            "copies are of the whole volume, also of keys that do not count, and hold at most 16 MiB",
        )),
        unread => unread,
    })
}

fn read<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    asked: Digest,
    purpose: Purpose,
) -> Result<Vec<Volume>, Unread> {
    let (mut digests, mut read) = (Vec::new(), Vec::new());
    for path in volumes {
        let mut reader = Reader::new(path, keys, purpose);
        let snapshot = match reader.look() {
            Ok(Reading { snapshot: Some(snapshot), .. }) => snapshot,
            Ok(_) | Err(ReadError::Moving { .. }) => return Err(Unread::Moved),
            Err(error @ ReadError::TooMuch { .. }) => return Err(Unread::TooMuch(error.reason())),
            Err(error) => return Err(Unread::Failed(error.reason())),
        };
        digests.push(snapshot.digest());
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        read.push(Volume { folder: folder.to_owned(), contents: reader.contents });
    }
    if snapshot::digest(digests) == asked { Ok(read) } else { Err(Unread::Moved) }
}

/// The digest over all keys of all volumes, also over those that do not count.
pub(crate) fn digest_of_all(volumes: &[Volume]) -> Digest {
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
