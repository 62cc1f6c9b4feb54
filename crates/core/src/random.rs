//! Random numbers with a seed, for waits that must differ and for simulations. Pure.

use std::time::Duration;

/// `SplitMix64`: a seed gives the same numbers everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// At least 0, and less than 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn part(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// At least zero, and less than `limit` unless that is zero.
    pub fn below(&mut self, limit: Duration) -> Duration {
        let nanos = (limit.as_nanos() * u128::from(self.bits())) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation for the seed 1234567
    /// (<https://prng.di.unimi.it/splitmix64.c>).
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.bits());
        let wanted =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, wanted);
    }

    #[test]
    fn a_time_is_below_its_limit() {
        let mut random = Random::new(7);
        for limit in [1, 1000, u64::MAX].map(Duration::from_nanos) {
            assert!((0..100).all(|_| random.below(limit) < limit));
        }
        assert_eq!(random.below(Duration::ZERO), Duration::ZERO);
    }
}
