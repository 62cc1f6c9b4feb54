//! How long a pod waits with its first request after an edit, which all replicas see at the same time: about a hundred
//! requests a second for all of them. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use podnudge_core::jitter::ordinal_of;
use podnudge_core::random::Random;

/// Between two replicas.
const STEP: Duration = Duration::from_millis(10);
/// The time for replicas whose number is not known.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Kubernetes is made for so many pods in a namespace. A greater number at the end of a name is a part of a Deployment's.
const MOST_PODS: u32 = 3000;

/// The waits of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread {
    /// Below this time, by the identity of the pod and the edit: another order of the replicas for each edit.
    Within(Duration, String),
    /// The turn of an ordinal.
    Turn(Duration),
}

impl Spread {
    /// The spread that is configured; or else by the number of replicas; or else by the pod's ordinal in its
    /// StatefulSet, which shows how many replicas are before it.
    #[must_use]
    pub fn new(configured: Option<Duration>, replicas: Option<u32>, pod: &str) -> Self {
        let known = configured.or_else(|| replicas.map(|replicas| STEP * replicas.min(MOST_PODS)));
        let ordinal = ordinal_of(pod).filter(|ordinal| *ordinal < MOST_PODS);
        match (known, ordinal) {
            (None, Some(ordinal)) => Self::Turn(STEP * ordinal),
            (known, _) => Self::Within(known.unwrap_or(UNKNOWN), pod.to_owned()),
        }
    }

    /// The wait after the edit that made this version.
    pub(super) fn wait(&self, version: &str) -> Duration {
        match self {
            Self::Turn(wait) => *wait,
            Self::Within(time, pod) => {
                let mut hasher = DefaultHasher::new();
                (pod, version).hash(&mut hasher);
                Random::new(hasher.finish()).below(*time)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_is_what_is_configured_or_else_follows_from_the_number_of_replicas() {
        let within = |time, pod: &str| Spread::Within(time, pod.to_owned());
        for (configured, replicas, pod, expected) in [
            (Some(secs(7)), Some(300), "web-5", within(secs(7), "web-5")),
            (None, Some(300), "web-5", within(secs(3), "web-5")),
            (None, None, "web-5", Spread::Turn(STEP * 5)),
            (None, None, "web-7d9f-x2x4b", within(UNKNOWN, "web-7d9f-x2x4b")),
            // A hash can be all digits.
            (None, None, "web-7d9f-24567", within(UNKNOWN, "web-7d9f-24567")),
            (None, Some(100_000), "web-5", within(secs(30), "web-5")),
        ] {
            assert_eq!(Spread::new(configured, replicas, pod), expected, "{pod}");
        }
        assert_eq!(Spread::new(Some(Duration::ZERO), None, "web-5").wait("1"), Duration::ZERO);
    }

    #[test]
    fn replicas_are_spread_evenly_and_in_another_order_after_each_edit() {
        let waits = |version: &str| -> Vec<Duration> {
            let spread = |n| Spread::new(None, Some(1000), &format!("web-{n}"));
            (0..1000).map(|n| spread(n).wait(version)).collect()
        };
        let first = waits("7");
        for second in 0..10 {
            let in_it = first.iter().filter(|wait| wait.as_secs() == second).count();
            assert!((60..=140).contains(&in_it), "{in_it} in second {second}");
        }
        assert_eq!(first, waits("7"));
        let other = waits("8");
        let earlier = first.iter().zip(&other).filter(|(one, other)| one < other).count();
        assert!((400..=600).contains(&earlier), "{earlier}");
    }
}
