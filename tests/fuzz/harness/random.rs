//! Random numbers with a seed.

use podnudge_core::random;

pub(crate) struct Random(random::Random);

impl Random {
    /// Of one target, so that each has its own numbers.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        // FNV-1a, which no version of the compiler changes.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(random::Random::new(hash ^ seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap()
    }

    /// A number from 1 to `most`: small ones are as frequent as large ones.
    pub(crate) fn up_to(&mut self, most: usize) -> usize {
        let limit = self.below(most.ilog2() as usize + 1);
        1 + self.below(2 << limit).min(most - 1)
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| from[self.below(from.len())])
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
