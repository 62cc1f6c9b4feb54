//! Random numbers with a seed.

use std::time::Duration;

/// `SplitMix64`: a seed gives the same numbers everywhere.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The numbers of one replica in one run: they do not depend on what the other replicas draw.
    pub(super) fn new(seed: u64, run: u32, replica: u32) -> Self {
        let mut random = Self(seed);
        for part in [u64::from(run), u64::from(replica)] {
            random = Self(random.bits() ^ part);
        }
        random
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// At least zero, and less than `limit` unless that is zero.
    pub(super) fn below(&mut self, limit: Duration) -> Duration {
        let nanos = (limit.as_nanos() * u128::from(self.bits())) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// At least 0, and less than 1.
    pub(super) fn part(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "32 bits are exact, and fine enough")]
        let bits = (self.bits() >> 32) as f64;
        bits / 4_294_967_296.0
    }
}
