//! The looks whether podnudge's own pod is as a rule needs it: out of its Services before an action, or Ready
//! and back in them after it.

use std::time::Duration;

use crate::backoff::doubled;
use crate::clock::Moment;
use crate::event::PodLook;
use crate::reason::Reason;

/// The wait between two looks, at first.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two looks.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// The longest pause that the API server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After so many refusals in a row it will not be known. A single one may be of a token that is being
/// renewed.
const MOST_REFUSALS: u32 = 3;

/// The looks so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Looks {
    since: Moment,
    step: Pending,
    /// How many were refused in a row.
    refusals: u32,
    /// Since when the pod is Ready and not in its Services, by all answers.
    unlisted_since: Option<Moment>,
    /// What the last answer said.
    reason: Option<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// The next look is due then.
    Waiting(Moment),
    /// The look with this number is in progress.
    Looking(u32),
}

/// What follows from a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// The pod is as it is needed.
    Yes,
    LookAgain,
    /// Whether the pod is as it is needed will not be known, for this reason.
    Unknown(Reason),
}

impl Looks {
    /// The first one is due at once.
    pub(super) fn new(now: Moment) -> Self {
        Self::first_at(now, now)
    }

    /// The first one is due at `at`.
    pub(super) fn first_at(now: Moment, at: Moment) -> Self {
        Self {
            since: now,
            step: Pending::Waiting(at),
            refusals: 0,
            unlisted_since: None,
            reason: None,
        }
    }

    /// Begins a look if one is due. Returns its number: the one after `last`.
    pub(super) fn take_due(&mut self, now: Moment, last: &mut u32) -> Option<u32> {
        let is_due = matches!(self.step, Pending::Waiting(at) if at <= now);
        is_due.then(|| {
            *last = last.wrapping_add(1);
            self.step = Pending::Looking(*last);
            *last
        })
    }

    /// Whether the look with this number is in progress. The answer to an older one counts no more.
    pub(super) fn awaits(&self, number: u32) -> bool {
        self.step == Pending::Looking(number)
    }

    /// Takes the answer to a look. `share` differs between replicas, so that those that wait for the same
    /// server do not keep looking at the same time. `patience`: how long a pod that is Ready may be missing in
    /// its Services.
    pub(super) fn answered(
        &mut self,
        now: Moment,
        look: PodLook,
        share: u32,
        patience: Duration,
    ) -> Finding {
        let refusals = std::mem::take(&mut self.refusals).saturating_add(1);
        let unlisted_since = self.unlisted_since.take();
        let (reason, pause) = match look {
            PodLook::Yes => return Finding::Yes,
            PodLook::No(reason) => (reason, None),
            PodLook::Unlisted(reason) => {
                let since = unlisted_since.unwrap_or(now);
                if now >= since.after(patience) {
                    self.step = Pending::Waiting(now.after(LONGEST_WAIT));
                    return Finding::Unknown(reason);
                }
                self.unlisted_since = Some(since);
                (reason, None)
            }
            PodLook::Unknown(reason, pause) => (reason, pause),
            PodLook::Refused(reason) if refusals >= MOST_REFUSALS => {
                self.step = Pending::Waiting(now.after(LONGEST_WAIT));
                return Finding::Unknown(reason);
            }
            PodLook::Refused(reason) => {
                self.refusals = refusals;
                (reason, Some(doubled(FIRST_WAIT, refusals, LONGEST_WAIT)))
            }
        };
        let wait = self.wait(now, share).max(pause.unwrap_or_default().min(LONGEST_PAUSE));
        (self.step, self.reason) = (Pending::Waiting(now.after(wait)), Some(reason));
        Finding::LookAgain
    }

    /// A part of the time already waited, so it does not take much longer than needed.
    fn wait(&self, now: Moment, share: u32) -> Duration {
        let wait = (now.since(self.since) / 4).clamp(FIRST_WAIT, LONGEST_WAIT);
        wait + (wait / 4).mul_f64(f64::from(share) / f64::from(u32::MAX))
    }

    /// Since when it has been looked.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// Looks again at this time, although the pod is as it is needed.
    pub(super) fn look_at(&mut self, at: Moment) {
        (self.step, self.reason) = (Pending::Waiting(at), None);
    }

    pub(super) fn next(&self) -> Option<Moment> {
        match self.step {
            Pending::Waiting(at) => Some(at),
            Pending::Looking(_) => None,
        }
    }

    /// What the last look has found, if there was one.
    pub(crate) fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The waits in milliseconds until the pod is given up, or at most so many.
    fn waits(share: u32, mut answer: impl FnMut(usize) -> PodLook) -> Vec<u128> {
        let (mut now, mut waits, mut last) = (Moment(SECOND * 100), Vec::new(), 0);
        let mut looks = Looks::new(now);
        while waits.len() < 30 {
            let number = looks.take_due(now, &mut last).expect("a look is due");
            assert!(looks.take_due(now, &mut last).is_none());
            assert!(looks.awaits(number) && !looks.awaits(number.wrapping_sub(1)));
            if looks.answered(now, answer(waits.len()), share, SECOND * 20) != Finding::LookAgain {
                break;
            }
            assert!(!looks.awaits(number));
            let next = looks.next().expect("it looks again");
            waits.push(next.since(now).as_millis());
            now = next;
        }
        waits
    }

    #[test]
    fn the_waits_grow_with_the_time_waited_and_differ_between_replicas() {
        let not_ready = |_| PodLook::No(Reason::new("it starts"));
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
        let refused = || PodLook::Refused(Reason::new("401"));
        assert_eq!(waits(0, |_| refused()), [2000, 4000]);
        let often = |n| match n % 3 {
            2 => PodLook::Unknown(Reason::new("500"), None),
            _ => refused(),
        };
        assert_eq!(waits(0, often).len(), 30);
    }

    #[test]
    fn a_pod_that_its_services_do_not_take_back_is_waited_for_only_so_long() {
        let unlisted = || PodLook::Unlisted(Reason::new("not in web"));
        let total: u128 = waits(0, |_| unlisted()).iter().sum();
        assert!((20_000..30_000).contains(&total), "{total}");
        // While the server does not answer, nobody can list it.
        let cut = |n| match n % 4 {
            3 => PodLook::Unknown(Reason::new("no connection"), None),
            _ => unlisted(),
        };
        assert_eq!(waits(0, cut).len(), 30);
    }

    #[test]
    fn the_server_gets_the_pause_that_it_asks_for() {
        let asks = |pause| move |_| PodLook::Unknown(Reason::new("429"), Some(SECOND * pause));
        assert_eq!(waits(0, asks(20))[0], 20_000);
        assert_eq!(waits(0, asks(7200))[0], 60_000);
    }
}
