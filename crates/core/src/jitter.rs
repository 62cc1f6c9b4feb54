//! The per-replica wait before a rollout, as a function of the replica and the digest.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::snapshot::Digest;

/// A wait before each action, which spreads replicas over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// Replicas are spread over this time.
    pub window: Duration,
    /// What a replica's wait is computed from.
    pub by: JitterBy,
}

/// What a replica's wait is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterBy {
    /// The pod's identity and the digest, which gives another order for each change.
    Pod,
    /// The `StatefulSet` ordinal at the end of the pod's name.
    Ordinal,
    /// A random number.
    Random,
}

/// The replica that waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replica {
    /// The pod's UID or name, or the host name: any value that differs between replicas.
    pub identity: String,
    /// The StatefulSet ordinal, if the pod's name ends in one.
    pub ordinal: Option<u32>,
    /// A number from a random source, drawn once at start: for random waits, and for the names of holders without a pod.
    pub seed: u64,
}

impl Replica {
    /// A number that follows from its identity.
    pub(super) fn number(&self) -> u32 {
        u32::try_from(first_bits(&[self.identity.as_bytes()]) >> 32).unwrap_or_default()
    }
}

/// The wait of this replica for this digest: at least zero, and less than the window unless that is
/// zero. `draw` counts the draws of this process, so that `random` returns a different value each
/// time.
///
/// The number of replicas is unknown. `ordinal` therefore fills the window like a ruler, ½, ¼, ¾,
/// ⅛, …, which keeps any number of replicas apart by at least `window / (2 × replicas)`. A replica
/// without an ordinal falls back to `pod`.
#[must_use]
pub fn wait(jitter: Jitter, replica: &Replica, digest: &Digest, draw: u64) -> Duration {
    let by_pod = || first_bits(&[replica.identity.as_bytes(), &[0], &digest.0]);
    let place = match jitter.by {
        JitterBy::Pod => by_pod(),
        JitterBy::Ordinal => {
            replica.ordinal.map_or_else(by_pod, |ordinal| u64::from(ordinal).reverse_bits())
        }
        JitterBy::Random => {
            first_bits(&[&replica.seed.to_le_bytes(), &draw.to_le_bytes(), &digest.0])
        }
    };
    // place / 2^64 of the window, in integers: exact, and always less than the window.
    let nanos = (jitter.window.as_nanos() * u128::from(place)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The ordinal at the end of a StatefulSet pod's name: 3 for `web-3`. A Deployment's pod name ends
/// in a hash, which is rarely all digits; if it is, the number serves as well.
#[must_use]
pub fn ordinal_of(pod_name: &str) -> Option<u32> {
    pod_name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok())
}

fn first_bits(parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let hash: [u8; 32] = hash.finalize().into();
    hash.first_chunk().map_or(0, |bits| u64::from_be_bytes(*bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(32);

    fn place(by: JitterBy, replica: &Replica, digest: u8, draw: u64) -> Duration {
        wait(Jitter { window: WINDOW, by }, replica, &Digest([digest; 32]), draw)
    }

    fn pod(name: &str) -> Replica {
        Replica { identity: name.to_owned(), ordinal: ordinal_of(name), seed: 7 }
    }

    #[test]
    fn ordinals_fill_the_window_like_a_ruler() {
        let places = (0..8).map(|n| place(JitterBy::Ordinal, &pod(&format!("web-{n}")), 0, 0));
        assert_eq!(places.map(|p| p.as_secs()).collect::<Vec<_>>(), [0, 16, 8, 24, 4, 20, 12, 28]);
    }

    #[test]
    fn the_same_pod_waits_the_same_time_for_the_same_digest_and_another_for_another() {
        let web = pod("web-7d9f-abcde");
        assert_eq!(place(JitterBy::Pod, &web, 1, 0), place(JitterBy::Pod, &web, 1, 9));
        assert_ne!(place(JitterBy::Pod, &web, 1, 0), place(JitterBy::Pod, &web, 2, 0));
        assert_ne!(place(JitterBy::Pod, &web, 1, 0), place(JitterBy::Pod, &pod("x"), 1, 0));
    }

    #[test]
    fn a_pod_without_an_ordinal_falls_back_to_its_identity() {
        let web = pod("web-7d9f-abcde");
        assert_eq!(place(JitterBy::Ordinal, &web, 1, 0), place(JitterBy::Pod, &web, 1, 0));
    }

    #[test]
    fn random_draws_differ_and_stay_inside_the_window() {
        let draws: Vec<_> = (0..64).map(|n| place(JitterBy::Random, &pod("x"), 1, n)).collect();
        assert!(draws.iter().all(|wait| *wait < WINDOW));
        assert_eq!(draws.iter().collect::<std::collections::BTreeSet<_>>().len(), 64);
    }

    #[test]
    fn no_window_is_no_wait() {
        let none = Jitter { window: Duration::ZERO, by: JitterBy::Pod };
        assert_eq!(wait(none, &pod("x"), &Digest([9; 32]), 0), Duration::ZERO);
    }
}
