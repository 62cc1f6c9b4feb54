//! All that a rule's volumes hold, for copies of it.
//!
//! Reads the volumes; changes nothing.

use std::path::PathBuf;

use super::read::{self, Contents, ReadError};
use super::snapshot::{self, Digest};
use crate::config::KeyFilter;
use crate::core::event::Reason;

/// Why the volumes cannot be copied.
#[derive(Debug)]
pub(super) enum Unread {
    /// They hold something else than was asked about.
    Moved,
    /// They cannot be read now.
    Failed(Reason),
}

/// The contents of all keys, volume by volume, if what counts of them has the digest that was
/// asked about.
pub(super) fn read(
    volumes: &[PathBuf],
    keys: &KeyFilter,
    asked: Digest,
) -> Result<Vec<Contents>, Unread> {
    let (mut digests, mut all) = (Vec::new(), Vec::new());
    for path in volumes {
        let (snapshot, contents) = match read::all_contents(path, keys) {
            Ok(Some(read)) => read,
            Ok(None) | Err(ReadError::Moving { .. }) => return Err(Unread::Moved),
            // That there is too much says nothing of the keys that count.
            Err(error) => return Err(Unread::Failed(error.reason())),
        };
        digests.push(snapshot.digest());
        all.push(contents);
    }
    if snapshot::digest(digests) == asked { Ok(all) } else { Err(Unread::Moved) }
}
