//! The name of a published generation: the time of its writing, and the digest of its content.
//! Pure.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use podnudge_core::clock::UnixTime;
use podnudge_core::snapshot::Digest;

/// A generation's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) at: UnixTime,
    pub(super) digest: Digest,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = humantime::format_rfc3339_nanos(UNIX_EPOCH + self.at.0).to_string();
        let time = time.trim_end_matches('Z').replace(['-', 'T', ':'], "_");
        write!(f, "..{time}.{}", self.digest)
    }
}

impl Name {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (time, digest) = text.strip_prefix("..")?.rsplit_once('.')?;
        let digest = digest.parse().ok()?;
        let (day, nanos) = time.split_once('.')?;
        let parts: Vec<&str> = day.split('_').collect();
        let [year, month, day, hour, minute, second] = parts.as_slice() else { return None };
        let time = format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{nanos}Z");
        let time = humantime::parse_rfc3339(&time).ok()?;
        let at = UnixTime(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO));
        Some(Self { at, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_generation_can_be_read_back() {
        let name = Name {
            at: UnixTime(Duration::new(1_795_255_580, 120_000_000)),
            digest: Digest([7; 32]),
        };
        let text = name.to_string();
        assert!(text.starts_with("..2026_11_21_10_06_20.120000000.0707"), "{text}");
        assert!(crate::volume::mounts::is_generation_name(text.as_bytes()));
        assert_eq!(Name::parse(&text), Some(name));
        assert_eq!(Name::parse("..2026_11_21_10_06_20.123"), None);
        assert_eq!(Name::parse("..data"), None);
    }
}
