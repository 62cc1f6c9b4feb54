//! The digests that failed on a replica and are not to be used by the others: the content of an
//! annotation. Pure.
//!
//! It is on the first Lease only, `NAME-0`. A replica writes it before it gives back its slot, and reads
//! it after it has got one, so whoever gets a slot after a failure knows of it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::clock::UnixTime;
use crate::memory::Memory;
use crate::reason::Reason;
use crate::shown;
use crate::snapshot::Digest;

/// The key of the annotation.
pub(super) const ANNOTATION: &str = "podnudge.io/halted";
/// The longest reason, in bytes.
const LONGEST: usize = 300;

/// The pod of a holder, for people.
pub(super) fn pod_of(holder: &str) -> &str {
    holder.split('_').next().unwrap_or_default()
}

/// A digest that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// The digest that failed.
    pub digest: Digest,
    /// The pod on which it failed.
    pub pod: String,
    /// When, by that pod's clock, for people.
    pub at: String,
    /// Why the digest failed.
    pub reason: String,
}

impl Halt {
    /// A digest that failed now, where `holder` runs.
    #[must_use]
    pub fn new(digest: Digest, holder: &str, at: UnixTime, reason: &Reason) -> Self {
        let reason = shown::block(&reason.message.replace(['\n', '\r'], " "), LONGEST);
        Self { digest, pod: shown::text(pod_of(holder)), at: rfc3339(at), reason }
    }

    /// The reason for other replicas not to use the digest.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let escaped = |text: &str| shown::one_line(text.as_bytes());
        let (pod, at, why) = (escaped(&self.pod), escaped(&self.at), escaped(&self.reason));
        Reason::new(format!("this content failed on pod {pod} at {at}: {why}"))
            .hint("change the content; or run `podnudge trigger` in that pod, or in another one, to try it again there: if it works, the others follow")
    }
}

/// The text of a time in an object of Kubernetes (`MicroTime`).
pub(super) fn rfc3339(time: UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(time.min(UnixTime::LATEST).0);
    humantime::format_rfc3339_micros(time.unwrap_or(SystemTime::UNIX_EPOCH)).to_string()
}

/// Reads the annotation, the oldest first. What is not of podnudge counts as nothing.
pub(super) fn parse(annotation: &str) -> Vec<Halt> {
    let mut halts: Vec<Halt> = serde_json::from_str(annotation).unwrap_or_default();
    halts.drain(..halts.len().saturating_sub(Memory::MOST_HALTS));
    halts
}

/// The annotation; `None` if there is nothing to write.
pub(super) fn write(halts: &[Halt]) -> Option<String> {
    if halts.is_empty() { None } else { serde_json::to_string(halts).ok() }
}

/// Adds a digest, or replaces what is said of it.
pub(super) fn add(halts: &mut Vec<Halt>, halt: Halt) {
    halts.retain(|other| other.digest != halt.digest);
    halts.push(halt);
    halts.drain(..halts.len().saturating_sub(Memory::MOST_HALTS));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn halt(n: u8) -> Halt {
        let reason = Reason::new(format!("line {n}\n\u{1b}[31m{}", "x".repeat(1000)));
        Halt::new(Digest([n; 32]), "web-1_uid_rule", UnixTime(Duration::from_secs(1)), &reason)
    }

    #[test]
    fn the_last_digests_are_remembered_and_what_is_said_of_them_is_short_and_harmless() {
        let mut halts = Vec::new();
        (0..20).chain([15]).for_each(|n| add(&mut halts, halt(n)));
        let written = write(&halts).expect("there are some");
        assert!(written.len() < Memory::MOST_HALTS * 600, "{} bytes", written.len());
        assert_eq!(parse(&written), halts);
        let digests: Vec<u8> = halts.iter().map(|halt| halt.digest.0[0]).collect();
        assert_eq!(digests, [12, 13, 14, 16, 17, 18, 19, 15]);
        let reason = halts[0].reason().message;
        assert!(reason.starts_with("this content failed on pod web-1 at 1970-01-01T00:00:01.000000Z: line 12 \\u{1b}[31mx"), "{reason}");
    }

    #[test]
    fn an_annotation_of_somebody_else_halts_nothing() {
        for text in ["", "no", "{}", "[1]", r#"[{"digest":"12"}]"#] {
            assert_eq!(parse(text), []);
        }
        assert_eq!(write(&[]), None);
    }

    #[test]
    fn the_pod_of_a_holder_is_what_it_begins_with() {
        assert_eq!(pod_of("web-0_12_a"), "web-0");
    }

    #[test]
    fn any_time_can_be_written() {
        assert_eq!(rfc3339(UnixTime(Duration::MAX)), "9999-12-31T23:59:59.000000Z");
    }
}
