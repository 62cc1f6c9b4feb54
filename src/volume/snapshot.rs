//! What a volume holds, as values: keys and their SHA-256, the digest over them, and what differs
//! between two of them. Pure: the reading is done in `read.rs`.
//!
//! File contents never get here, only their hashes: contents are secrets.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::core::event::UnixTime;

/// SHA-256 over the sorted keys and contents of a rule's volumes. Modes, owners, times and
/// timestamped directory names have no part in it, so equal content gives equal digests on every
/// replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// Which version of a volume was looked at: the target of the `..data` link, or for a volume
/// without one a fingerprint of names, sizes, inodes and modification times. Only good for the
/// question "is it still the same?".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Generation(pub String);

/// All keys of a volume, read from one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The generation that was read.
    pub generation: Generation,
    /// When this generation was put in place: for a kubelet volume the modification time of the
    /// `..data` link (made just before the rename), otherwise the newest modification time of
    /// any file or directory in it.
    pub committed: UnixTime,
    /// The SHA-256 of each key that counts.
    pub keys: BTreeMap<Key, Digest>,
}

/// A file in a volume, by its path relative to the volume's content root. Not necessarily UTF-8;
/// displayed with control characters and invalid bytes escaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub Vec<u8>);

/// What differs between two snapshots of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Keys that only the newer one has.
    pub added: Vec<Key>,
    /// Keys whose content differs.
    pub changed: Vec<Key>,
    /// Keys that only the older one has.
    pub removed: Vec<Key>,
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Digest {
    /// Lower-case hexadecimal; `{:.12}` gives the short form used in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = String::with_capacity(64);
        for byte in self.0 {
            for nibble in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or('?'));
            }
        }
        f.pad(&hex)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Snapshot {
    pub fn changes(&self, newer: &Snapshot) -> Changes {
        let mut changes = Changes::default();
        for (key, digest) in &newer.keys {
            match self.keys.get(key) {
                None => changes.added.push(key.clone()),
                Some(known) if known != digest => changes.changed.push(key.clone()),
                Some(_) => {}
            }
        }
        for key in self.keys.keys() {
            if !newer.keys.contains_key(key) { changes.removed.push(key.clone()); }
        }
        changes
    }
}
impl Changes { pub fn is_empty(&self) -> bool { self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty() } }
pub fn digest<'a>(volumes: impl IntoIterator<Item = &'a Snapshot>) -> Digest {
    use sha2::Digest as _;
    let mut h = sha2::Sha256::new();
    for v in volumes { h.update(b"v"); for (k, d) in &v.keys { h.update((k.0.len() as u64).to_le_bytes()); h.update(&k.0); h.update(d.0); } }
    Digest(h.finalize().into())
}
