//! The watch of one Lease. Pure.
//!
//! It tells the present state first, and then each change, until the server ends it after some minutes. So it need not
//! be continued from a version: it begins anew.

use std::time::Duration;

use crate::api_error::ApiError;
use crate::clock::Moment;
use crate::pace::Pace;

/// How long to do without a watch that the server refuses: somebody has to change a Role.
const REFUSED: Duration = Duration::from_mins(5);
/// A watch that ends earlier has failed, however it ended.
const SHORTEST: Duration = Duration::from_secs(10);
/// The waits after a failure.
const RETRIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A failure counts for so long.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// The replicas whose watches ended together do not come back together.
const RENEWAL: Duration = Duration::from_secs(1);

/// The watch of at most one Lease.
#[derive(Debug)]
pub(super) struct Watching {
    step: Step,
    pace: Pace,
    failures: u32,
    /// When the last one failed.
    failed_at: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There is no watch; none may begin before this.
    Closed(Moment),
    /// The request was sent then.
    Opening(usize, Moment),
    /// The server has begun to answer then.
    Open(usize, Moment),
}

impl Watching {
    pub(super) fn new(seed: u64) -> Self {
        let (step, failed_at) = (Step::Closed(Moment::default()), Moment::default());
        Self { step, pace: Pace::new(seed), failures: 0, failed_at }
    }

    /// Watches this slot from now on, or none. Returns which one is watched, and whether that is new.
    pub(super) fn watch(&mut self, now: Moment, slot: Option<usize>) -> (Option<usize>, bool) {
        let before = self.slot();
        match slot {
            Some(slot) if before == Some(slot) => return (before, false),
            // Another one is no reason to ask more often.
            Some(slot) if self.opens_at() <= now => self.step = Step::Opening(slot, now),
            Some(_) | None if before.is_some() => self.step = Step::Closed(now),
            _ => {}
        }
        (self.slot(), self.slot() != before)
    }

    /// The slot that is watched, or is going to be.
    pub(super) fn slot(&self) -> Option<usize> {
        match self.step {
            Step::Closed(_) => None,
            Step::Opening(slot, _) | Step::Open(slot, _) => Some(slot),
        }
    }

    /// Since when this slot is watched, or the watch begins.
    pub(super) fn since(&self, slot: usize) -> Option<Moment> {
        match self.step {
            Step::Opening(of, since) | Step::Open(of, since) if of == slot => Some(since),
            _ => None,
        }
    }

    /// When a watch may be opened.
    pub(super) fn opens_at(&self) -> Moment {
        match self.step {
            Step::Closed(at) => at,
            Step::Opening(..) | Step::Open(..) => Moment::default(),
        }
    }

    /// The server has begun to answer.
    pub(super) fn opened(&mut self, now: Moment) {
        if let Step::Opening(slot, _) = self.step {
            self.step = Step::Open(slot, now);
        }
    }

    /// Takes the end of the watch, and chooses when the next one may begin.
    pub(super) fn ended(&mut self, now: Moment, how: &Result<(), ApiError>) {
        let has_lasted = matches!(self.step, Step::Open(_, at) if now.since(at) >= SHORTEST);
        if has_lasted {
            self.failures /= 2;
        }
        if now.since(self.failed_at) >= FORGOTTEN {
            // Few watches last: they end with the wait for a slot.
            self.failures = 0;
        }
        let wait = match how {
            Err(error) if error.is_refusal() => REFUSED,
            Ok(()) if has_lasted => self.pace.jittered(RENEWAL),
            how => {
                let asked_for = how.as_ref().err().and_then(ApiError::retry_after);
                let wait = crate::backoff::doubled(RETRIES.0, self.failures, RETRIES.1);
                self.failures = self.failures.saturating_add(1).min(8);
                self.failed_at = now;
                self.pace.jittered(wait).max(asked_for.unwrap_or_default().min(REFUSED))
            }
        };
        self.step = Step::Closed(now.after(wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    #[test]
    fn a_pause_that_the_server_asks_for_has_a_limit() {
        let mut watching = Watching::new(1);
        watching.watch(Moment::default(), Some(0));
        let pause = Some(Duration::from_hours(1000));
        watching.ended(Moment::default(), &Err(ApiError::Throttled(Reason::new("429"), pause)));
        assert_eq!(watching.opens_at(), Moment(REFUSED));
    }
}
