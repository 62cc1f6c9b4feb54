//! A token bucket: permits a few requests at once, and in the long run one for each interval. Pure.

use std::time::Duration;

use podnudge_core::clock::Moment;

/// The bucket, which is full at first.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The time in which one token is added.
    interval: Duration,
    /// The most tokens.
    burst: u32,
    /// When it is full, if no token is taken until then.
    full_at: Moment,
}

impl Bucket {
    pub(super) fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, full_at: Moment::default() }
    }

    /// From when on there is a token.
    pub(super) fn next(&self) -> Moment {
        let others = self.interval * self.burst.saturating_sub(1);
        Moment(self.full_at.0.saturating_sub(others))
    }

    /// Takes a token. One that is not there yet is owed.
    pub(super) fn take(&mut self, now: Moment) {
        self.full_at = self.full_at.max(now).after(self.interval);
    }

    /// Adds the tokens of this time at once.
    pub(super) fn add(&mut self, time: Duration) {
        self.full_at = Moment(self.full_at.0.saturating_sub(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    /// Takes all tokens that are there, and returns their number.
    fn empty(bucket: &mut Bucket, now: Moment) -> usize {
        let taken = std::iter::from_fn(|| (bucket.next() <= now).then(|| bucket.take(now)));
        taken.take(1000).count()
    }

    #[test]
    fn all_tokens_of_a_full_bucket_can_be_taken_at_once_and_then_one_for_each_interval() {
        let mut bucket = Bucket::new(INTERVAL, 3);
        assert_eq!(empty(&mut bucket, at(1000)), 3);
        assert_eq!(bucket.next(), at(1010));
        assert_eq!(empty(&mut bucket, at(1009)), 0);
        assert_eq!(empty(&mut bucket, at(1010)), 1);
        assert_eq!(empty(&mut bucket, at(1035)), 2);
        assert_eq!(bucket.next(), at(1040));
    }

    #[test]
    fn a_bucket_never_has_more_tokens_than_at_first() {
        let mut bucket = Bucket::new(INTERVAL, 3);
        assert_eq!(empty(&mut bucket, at(1000)), 3);
        bucket.add(INTERVAL * 100);
        assert_eq!(empty(&mut bucket, at(1000)), 3);
        assert_eq!(empty(&mut bucket, at(9000)), 3);
    }

    #[test]
    fn what_is_added_is_a_part_of_a_token() {
        let mut bucket = Bucket::new(INTERVAL, 1);
        bucket.take(at(1000));
        bucket.add(Duration::from_secs(9));
        assert_eq!(bucket.next(), at(1001));
        bucket.take(at(1001));
        bucket.take(at(1001));
        assert_eq!(bucket.next(), at(1021), "one is owed");
    }
}
