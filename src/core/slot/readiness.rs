//! The looks whether podnudge's own pod is Ready, while a slot is kept for that.

use std::time::Duration;

use crate::clock::Moment;
use crate::core::backoff::doubled;
use crate::core::event::Readiness;
use crate::reason::Reason;

/// The wait between two looks, at first.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two looks.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// The longest pause that the API server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After so many refusals in a row it is not known whether the pod is Ready. A single one may be of a token
/// that is being renewed.
const MOST_REFUSALS: u32 = 3;

/// The looks so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Looks {
    since: Moment,
    /// The time of the next one; `None` while looking.
    next: Option<Moment>,
    /// How many were refused in a row.
    refusals: u32,
    /// Why the pod is not Ready, or why that is not known.
    reason: Option<Reason>,
}

/// What follows from a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Ready,
    LookAgain,
    /// It will not be known, for this reason.
    Unknown(Reason),
}

impl Looks {
    /// The first one is due at once.
    pub(super) fn new(now: Moment) -> Self {
        Self { since: now, next: Some(now), refusals: 0, reason: None }
    }

    /// Begins a look if one is due. Returns whether it is.
    pub(super) fn take_due(&mut self, now: Moment) -> bool {
        self.next.take_if(|at| *at <= now).is_some()
    }

    /// Takes the answer to a look. `share` differs between replicas, so that those that wait for the same
    /// server do not keep looking at the same time.
    pub(super) fn answered(&mut self, now: Moment, readiness: Readiness, share: u32) -> Finding {
        let refusals = std::mem::take(&mut self.refusals).saturating_add(1);
        let (reason, pause) = match readiness {
            Readiness::Ready => return Finding::Ready,
            Readiness::NotReady(reason) => (reason, None),
            Readiness::Unknown(reason, pause) => (reason, pause),
            Readiness::Refused(reason) if refusals >= MOST_REFUSALS => {
                return Finding::Unknown(reason);
            }
            Readiness::Refused(reason) => {
                self.refusals = refusals;
                (reason, Some(doubled(FIRST_WAIT, refusals, LONGEST_WAIT)))
            }
        };
        let wait = self.wait(now, share).max(pause.unwrap_or_default().min(LONGEST_PAUSE));
        (self.next, self.reason) = (Some(now.after(wait)), Some(reason));
        Finding::LookAgain
    }

    /// A part of the time already waited, so the pod is not Ready for much longer than needed.
    fn wait(&self, now: Moment, share: u32) -> Duration {
        let wait = (now.since(self.since) / 4).clamp(FIRST_WAIT, LONGEST_WAIT);
        wait + (wait / 4).mul_f64(f64::from(share) / f64::from(u32::MAX))
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.next
    }

    /// Why the slot is kept.
    pub(super) fn reason(&self) -> Reason {
        let until = "keeps its slot until the pod is Ready";
        match &self.reason {
            Some(Reason { message, hint }) => {
                Reason { message: format!("{until}: {message}"), hint: hint.clone() }
            }
            None => Reason::new(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The waits in milliseconds until the pod is given up, or at most so many.
    fn waits(share: u32, mut answer: impl FnMut(usize) -> Readiness) -> Vec<u128> {
        let (mut now, mut waits) = (Moment(SECOND * 100), Vec::new());
        let mut looks = Looks::new(now);
        while waits.len() < 30 {
            assert!(looks.take_due(now) && !looks.take_due(now));
            if looks.answered(now, answer(waits.len()), share) != Finding::LookAgain {
                break;
            }
            let next = looks.next().expect("it looks again");
            waits.push(next.since(now).as_millis());
            now = next;
        }
        waits
    }

    #[test]
    fn the_waits_grow_with_the_time_waited_and_differ_between_replicas() {
        let not_ready = |_| Readiness::NotReady(Reason::new("it starts"));
        let same = waits(0, not_ready);
        assert_eq!(same[..5], [1000; 5]);
        assert!(
            same.iter().all(|wait| (1000..=8000).contains(wait)) && same[29] == 8000,
            "{same:?}"
        );
        let other = waits(u32::MAX, not_ready);
        assert!(other[0] == 1250 && other[29] == 10_000, "{other:?}");
    }

    #[test]
    fn only_refusals_in_a_row_mean_that_it_is_not_known() {
        let refused = || Readiness::Refused(Reason::new("401"));
        assert_eq!(waits(0, |_| refused()), [2000, 4000]);
        let often = |n| match n % 3 {
            2 => Readiness::Unknown(Reason::new("500"), None),
            _ => refused(),
        };
        assert_eq!(waits(0, often).len(), 30);
    }

    #[test]
    fn the_server_gets_the_pause_that_it_asks_for() {
        let asks = |pause| move |_| Readiness::Unknown(Reason::new("429"), Some(SECOND * pause));
        assert_eq!(waits(0, asks(20))[0], 20_000);
        assert_eq!(waits(0, asks(7200))[0], 60_000);
    }
}
