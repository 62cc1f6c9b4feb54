//! The identity of a process. Pure.

use std::time::Duration;

use podnudge_core::clock::Moment;

/// Identifies one process for good: the kernel reuses a pid, but not a pid with the same start
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The process id, as podnudge sees it.
    pub pid: i32,
    /// The start time in clock ticks since boot: field 22 of `/proc/PID/stat` (proc(5)).
    pub start_ticks: u64,
}

impl Identity {
    /// The start time, up to one clock tick (10 ms) early.
    #[must_use]
    pub fn started(self) -> Moment {
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        let (seconds, ticks) =
            (self.start_ticks / ticks_per_second, self.start_ticks % ticks_per_second);
        Moment(
            Duration::from_secs(seconds) + Duration::from_millis(ticks * 1000 / ticks_per_second),
        )
    }

    /// Whether it may have started after `moment`. Within the same clock tick the answer is yes.
    #[must_use]
    pub fn may_have_started_after(self, moment: Moment) -> bool {
        let next_tick = Self { start_ticks: self.start_ticks.saturating_add(1), ..self };
        next_tick.started() > moment
    }
}
