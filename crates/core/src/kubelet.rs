//! The kubelet's back-off (`CrashLoopBackOff`): when it starts a container that has ended. Pure.
//!
//! The kubelet counts every end, also a wanted one (`doBackOff` in pkg/kubelet/kuberuntime, and
//! client-go's flowcontrol). It starts a container at once after the first end, and after 10 s, 20 s, 40 s and
//! so on up to 5 min after each further end, until the container has run for 10 min. What is computed here is an
//! estimate: the kubelet looks up to 10 s later, a node may be configured otherwise, and ends before
//! podnudge's first start are unknown.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::backoff;
use crate::clock::Moment;
use crate::reason::Reason;

/// The wait after the second end.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_mins(5);
/// The kubelet forgets earlier ends once a container has run for longer.
const STABLE: Duration = Duration::from_mins(10);
/// The default of `min-interval` between two restarts of a container: it is stable then, even if it takes a minute
/// to end and to start.
pub const MIN_INTERVAL: Duration = STABLE.saturating_add(Duration::from_mins(1));
/// No container ends twice within this time: its end was observed twice.
const SAME_END: Duration = Duration::from_secs(1);

/// How often the target's container has ended without running for 10 min in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The number of ends; 0 if none was observed.
    pub count: u32,
    /// When the container is expected to start, or started, after the last of them.
    pub start: Moment,
}

/// How long the kubelet waits until it starts a container, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartDelay {
    /// From the end of the container to its start.
    pub delay: Duration,
    /// The ends that led to it.
    pub ends: u32,
}

impl Ends {
    /// The container was seen to end. Its end may be the one that was counted last.
    #[must_use]
    pub fn observed(self, at: Moment) -> Self {
        let is_known = self.count > 0 && at < self.start.after(SAME_END);
        if is_known { self } else { self.ended(at) }
    }

    /// podnudge has ended the container.
    #[must_use]
    pub fn ended(self, at: Moment) -> Self {
        let is_stable = at > self.start.after(STABLE);
        let count = if is_stable { 1 } else { self.count.saturating_add(1) };
        Self { count, start: at.after(delay(count)) }
    }

    /// What an earlier podnudge has counted. After a change of the clock, a start that is too late is taken for one with the longest delay.
    #[must_use]
    pub(super) fn as_of(self, now: Moment) -> Self {
        Self { start: self.start.min(now.after(LONGEST)), ..self }
    }

    /// How long the kubelet waits after the last end; `None` if it does not.
    #[must_use]
    pub fn last_delay(self) -> Option<StartDelay> {
        let delay = delay(self.count);
        (delay > Duration::ZERO).then(|| StartDelay { delay, ends: self.count.saturating_sub(1) })
    }

    /// How long it would wait if the container ended now.
    #[must_use]
    pub fn next_delay(self, now: Moment) -> Option<StartDelay> {
        (self.count > 0).then(|| self.ended(now.max(self.start)).last_delay())?
    }

    /// When the kubelet is expected to start the container, if that is still ahead.
    #[must_use]
    pub fn expected_start(self, now: Moment) -> Option<Moment> {
        (self.count > 1 && self.start > now).then_some(self.start)
    }
}

impl StartDelay {
    /// What is said of it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let (delay, times) = (humantime::format_duration(self.delay), self.ends);
        let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
        Reason::new(format!(
            "the kubelet will start the container in about {delay}, because it has ended {times} before without running for 10 min"
        ))
    }
}

/// The wait after this many ends.
fn delay(count: u32) -> Duration {
    count.checked_sub(2).map_or(Duration::ZERO, |times| backoff::doubled(FIRST, times, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(100_000 + seconds))
    }

    #[test]
    fn the_delay_doubles_with_each_end_up_to_five_minutes() {
        let (mut ends, mut now, mut delays) = (Ends::default(), at(0), Vec::new());
        for _ in 0..8 {
            ends = ends.ended(now);
            delays.push(ends.last_delay().map_or(0, |delay| delay.delay.as_secs()));
            now = ends.start.after(Duration::from_mins(1));
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_delay_says_how_often_the_container_has_ended() {
        let said = |ends| StartDelay { delay: Duration::from_secs(10), ends }.reason().message;
        assert!(said(1).contains("in about 10s, because it has ended once before"), "{}", said(1));
        assert!(said(2).contains("because it has ended 2 times before"), "{}", said(2));
    }

    #[test]
    fn ends_are_forgotten_after_ten_minutes_from_the_start_of_the_container() {
        let twice = Ends::default().ended(at(0)).ended(at(60));
        assert_eq!(twice, Ends { count: 2, start: at(70) });
        assert_eq!(
            twice.next_delay(at(670)).map(|next| (next.delay.as_secs(), next.ends)),
            Some((20, 2))
        );
        assert_eq!(twice.next_delay(at(671)), None);
        assert_eq!(twice.ended(at(671)), Ends { count: 1, start: at(671) });
        assert_eq!(twice.ended(at(670)).count, 3);
    }

    #[test]
    fn an_end_that_is_seen_twice_counts_once() {
        let once = Ends::default().ended(at(0));
        assert_eq!(once.observed(at(0)), once);
        assert_eq!(once.ended(at(0)).count, 2);
        assert_eq!(once.last_delay(), None);
        assert_eq!(once.next_delay(at(0)).map(|next| next.delay.as_secs()), Some(10));
        let twice = once.observed(at(5));
        assert_eq!((twice.observed(at(14)), twice.expected_start(at(14))), (twice, Some(at(15))));
        assert_eq!(twice.expected_start(at(15)), None);
        assert_eq!(Ends::default().next_delay(at(0)), None);
    }
}
