//! The requests to the API server.

use podnudge_core::clock::Moment;

/// How many requests there were in each second since the machine booted.
#[derive(Debug, Default)]
pub(super) struct Requests(Vec<(u64, u32)>);

impl Requests {
    pub(super) fn add(&mut self, at: Moment, count: u32) {
        match self.0.last_mut().filter(|(second, _)| *second == at.0.as_secs()) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None if count > 0 => self.0.push((at.0.as_secs(), count)),
            None => {}
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// All of them, and the most within one second of the clock.
    pub(super) fn sum(mut self) -> (u64, u32) {
        self.0.sort_unstable();
        let seconds = self.0.chunk_by(|one, other| one.0 == other.0);
        let sums = seconds.map(|second| second.iter().map(|(_, count)| *count).sum());
        let sums: Vec<u32> = sums.collect();
        (sums.iter().map(|sum| u64::from(*sum)).sum(), sums.iter().copied().max().unwrap_or(0))
    }
}
