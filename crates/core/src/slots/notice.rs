//! What is to be written for the other replicas: which digests failed. Pure.

use super::halt::{self, Halt};
use super::lease::Lease;
use crate::snapshot::Digest;

/// A change of the digests that failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Notice {
    Halt(Halt),
    /// Content that failed works after all. What was said of it since stays.
    Clear(Halt),
}

impl Notice {
    pub(super) fn digest(&self) -> Digest {
        match self {
            Self::Halt(halt) | Self::Clear(halt) => halt.digest,
        }
    }

    /// The digest that the other replicas are not to use any more, if it says so.
    pub(super) fn halted(&self) -> Option<Digest> {
        match self {
            Self::Halt(halt) => Some(halt.digest),
            Self::Clear(_) => None,
        }
    }

    pub(super) fn applied_to(&self, mut halts: Vec<Halt>) -> Vec<Halt> {
        match self {
            Self::Halt(halt) => halt::add(&mut halts, halt.clone()),
            Self::Clear(halt) => halts.retain(|other| other != halt),
        }
        halts
    }

    /// Whether the Lease says so already.
    pub(super) fn is_told(&self, first: &Lease) -> bool {
        let mut halts = first.halts().into_iter();
        match self {
            Self::Halt(halt) => halts.any(|other| other.digest == halt.digest),
            Self::Clear(halt) => halts.all(|other| other != *halt),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::UnixTime;
    use crate::reason::Reason;

    fn halt(n: u8, by: &str) -> Halt {
        Halt::new(Digest([n; 32]), by, UnixTime(Duration::from_secs(1)), &Reason::new("503"))
    }

    fn lease(halts: &[Halt]) -> Lease {
        Lease::new("web-0").with_halts(halts)
    }

    #[test]
    fn a_halt_is_told_if_the_lease_names_its_digest_whoever_has_written_that() {
        let notice = Notice::Halt(halt(1, "web-1_uid_rule"));
        assert!(!notice.is_told(&lease(&[])));
        assert!(!notice.is_told(&lease(&[halt(2, "web-1_uid_rule")])));
        let others = [halt(2, "web-1_uid_rule"), halt(1, "web-2_uid_rule")];
        assert!(notice.is_told(&lease(&others)));
    }

    #[test]
    fn a_halt_is_cleared_if_the_lease_does_not_have_it_any_more() {
        let notice = Notice::Clear(halt(1, "web-1_uid_rule"));
        assert!(notice.is_told(&lease(&[])));
        assert!(notice.is_told(&lease(&[halt(1, "web-2_uid_rule")])), "it failed again since");
        assert!(!notice.is_told(&lease(&[halt(2, "web-1_uid_rule"), halt(1, "web-1_uid_rule")])));
    }
}
