//! A model of the kubelet: when it synchronizes the volumes of a pod.

use std::time::Duration;

use super::random::Random;
use podnudge_core::clock::Moment;

/// The times at which one pod is synchronized.
#[derive(Debug)]
pub(super) struct Syncs {
    period: Duration,
    next: Moment,
}

/// When all pods are synchronized at once, they are so within this time (measured).
const AT_ONCE: Duration = Duration::from_millis(100);

impl Syncs {
    /// A pod that has run for long at `now`. The kubelet queues it again after the period, lengthened by
    /// up to a half (`workerResyncIntervalJitterFactor` in `pkg/kubelet/kubelet.go`).
    pub(super) fn new(period: Duration, now: Moment, random: &mut Random) -> Self {
        // A longer interval is more likely to be the current one: with x in units of the period, its density
        // is proportional to x, from 1 to 1.5.
        let current = period.mul_f64((1.25 * random.part() + 1.0).sqrt());
        Self { period, next: now.after(random.below(current)) }
    }

    /// The first time at or after `change` at which the volume is written.
    pub(super) fn after(&mut self, change: Moment, random: &mut Random) -> Moment {
        if self.period.is_zero() {
            return change.after(random.below(AT_ONCE));
        }
        while self.next < change {
            self.next = self.next.after(self.period).after(random.below(self.period / 2));
        }
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn the_delay_of_a_change_is_that_of_a_random_point_between_two_syncs() {
        let period = Duration::from_mins(1);
        let mut random = Random::new(1, 0, 0);
        let mut delay = |change| {
            let mut syncs = Syncs::new(period, seconds(0), &mut random);
            syncs.after(seconds(change), &mut random).since(seconds(change)).as_secs_f64()
        };
        // The mean wait for the next of intervals x is E(x²) / 2E(x): 38 s for 60 to 90 s.
        for change in [0, 1000] {
            let delays: Vec<f64> = (0..20_000).map(|_| delay(change)).collect();
            let mean = delays.iter().sum::<f64>() / 20_000.0;
            assert!((mean - 38.0).abs() < 0.6, "{mean} after {change} s");
            assert!(delays.iter().all(|delay| *delay <= 90.0));
        }
    }
}
