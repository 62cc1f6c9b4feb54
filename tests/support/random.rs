//! Random numbers with a seed.

use std::time::Duration;

/// A small generator (`SplitMix64`), so that a seed gives the same numbers everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_environment() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the seed is this test's only input")]
        let seed = std::env::var("PODNUDGE_FLEET_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_121);
        println!("PODNUDGE_FLEET_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_nanos()).expect("a limit of hours fits");
        Duration::from_nanos(self.number() % limit)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
