//! The content of a volume as values: keys and their SHA-256, the digest over them, and the
//! differences between two snapshots. Pure: `volume/scan.rs` does the reading.
//!
//! Only hashes of file contents get here, because contents may be secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::clock::UnixTime;

/// SHA-256 over the sorted keys and contents of a rule's volumes. Modes, owners, times and
/// timestamped directory names are not part of it, so equal content has the same digest on every
/// replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// Identifies one version of a volume: the target of the `..data` link, or for a volume without
/// that link a fingerprint of names, sizes, inodes and modification times. Only useful for
/// comparing two readings.
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
    /// The SHA-256 of each included key.
    pub keys: BTreeMap<Key, Digest>,
    /// Whether the key that pauses the rule exists.
    pub pauses: bool,
}

/// A file in a volume, by its path relative to the volume's content root. Not necessarily UTF-8;
/// displayed with control characters and invalid bytes escaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub Vec<u8>);

/// The differences between two snapshots of one volume.
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

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
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
    /// The digest over all keys. Every name is preceded by its length, so that no byte can move
    /// from one key to another unnoticed.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for (key, content) in &self.keys {
            hash.update(key.0.len().to_le_bytes());
            hash.update(&key.0);
            hash.update(content.0);
        }
        Digest(hash.finalize().into())
    }

    /// The differences between this snapshot and a newer one.
    #[must_use]
    pub fn changes(&self, newer: &Self) -> Changes {
        let mut changes = Changes::default();
        for (key, digest) in &newer.keys {
            match self.keys.get(key) {
                None => changes.added.push(key.clone()),
                Some(known) if known != digest => changes.changed.push(key.clone()),
                Some(_) => {}
            }
        }
        let gone = self.keys.keys().filter(|key| !newer.keys.contains_key(key));
        changes.removed.extend(gone.cloned());
        changes
    }
}

impl Generation {
    /// Whether it is the target of a `..data` link, and not a fingerprint.
    #[must_use]
    pub fn is_link(&self) -> bool {
        self.0.starts_with("..") && !self.0.contains('/')
    }
}

impl Changes {
    /// Whether there are no differences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// The digest over a rule's volumes, in the rule's order: over the digest of each volume, so that a
/// change in one of many is cheap. Mount paths and generation names are not part of it.
#[must_use]
pub fn digest(volumes: impl IntoIterator<Item = Digest>) -> Digest {
    let mut hash = Sha256::new();
    for volume in volumes {
        hash.update(volume.0);
    }
    Digest(hash.finalize().into())
}

impl FromStr for Digest {
    type Err = NotADigest;

    /// From 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or(NotADigest)?;
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(Self(bytes))
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct NotADigest;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_64_hexadecimal_digits() {
        let text = "0aF9".repeat(16);
        assert_eq!(text.parse(), Ok(Digest([[0x0a, 0xf9]; 16].concat().try_into().unwrap())));
        for wrong in [&text[1..], &format!("{text}0"), "", &text.replace('F', "G")] {
            assert_eq!(wrong.parse::<Digest>(), Err(NotADigest), "{wrong}");
        }
    }
}
