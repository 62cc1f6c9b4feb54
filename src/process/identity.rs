//! Which process it is. Pure.

use std::time::Duration;

use crate::clock::Moment;

/// A process that can never be mistaken for another one: a pid is used again, a pid with its
/// start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The process id, as podnudge sees it.
    pub pid: i32,
    /// The start time in clock ticks since boot: field 22 of `/proc/PID/stat` (proc(5)).
    pub start_ticks: u64,
}

impl Identity {
    /// When it started; up to one clock tick (10 ms) early.
    #[must_use]
    pub fn started(self) -> Moment {
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        let (seconds, ticks) =
            (self.start_ticks / ticks_per_second, self.start_ticks % ticks_per_second);
        Moment(
            Duration::from_secs(seconds) + Duration::from_millis(ticks * 1000 / ticks_per_second),
        )
    }

    /// Whether it can have started after `moment`; in the clock tick of it, that cannot be told.
    #[must_use]
    pub fn may_be_newer_than(self, moment: Moment) -> bool {
        let next_tick = Self { start_ticks: self.start_ticks.saturating_add(1), ..self };
        next_tick.started() > moment
    }
}
