//! Random numbers with a seed.

use std::time::Duration;

use podnudge_core::random;

/// The numbers of a test.
pub(crate) struct Random(random::Random);

impl Random {
    pub(crate) fn from_environment() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the seed is this test's only input")]
        let seed = std::env::var("PODNUDGE_FLEET_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_121);
        println!("PODNUDGE_FLEET_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    pub(crate) fn below(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_nanos()).expect("a limit of hours fits");
        Duration::from_nanos(self.number() % limit)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.bits()
    }
}
