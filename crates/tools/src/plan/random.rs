//! The random numbers of a simulation.

use std::time::Duration;

use podnudge_core::random;

/// The numbers of one replica in one run.
#[derive(Debug, Clone)]
pub(super) struct Random(random::Random);

impl Random {
    /// Numbers that do not depend on what the other replicas draw.
    pub(super) fn new(seed: u64, run: u32, replica: u32) -> Self {
        let mut random = random::Random::new(seed);
        for part in [u64::from(run), u64::from(replica)] {
            random = random::Random::new(random.bits() ^ part);
        }
        Self(random)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// At least zero, and less than `limit` unless that is zero.
    pub(super) fn below(&mut self, limit: Duration) -> Duration {
        self.0.below(limit)
    }

    /// At least 0, and less than 1.
    pub(super) fn part(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "32 bits are exact, and fine enough")]
        let bits = (self.bits() >> 32) as f64;
        bits / 4_294_967_296.0
    }
}
