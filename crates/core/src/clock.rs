//! Points in time as values. `run/clock.rs` reads the clocks and passes the values on.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point of the monotonic clock, as the time since the machine booted. So events before
/// podnudge's start have a moment, too, and changes of the wall clock do not move it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment `wait` later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Serialize for Moment {
    /// Milliseconds since the boot.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|millis| Self(Duration::from_millis(millis)))
    }
}

/// File times come from a coarse clock and process start times are counted in ticks: each may be up
/// to 10 ms early. Only times that differ by more than both together have a certain order.
pub(crate) const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// A point of the wall clock, as the time since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct UnixTime(pub Duration);

impl UnixTime {
    /// The last second of the year 9999: later times cannot be written.
    pub(super) const LATEST: Self = Self(Duration::from_secs(253_402_300_799));

    /// Reads a time as Kubernetes writes it, in whole seconds.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let time = humantime::parse_rfc3339(text).ok()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self(Duration::from_secs(since.as_secs())))
    }

    /// The time from `earlier` to this one; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// In the form of RFC 3339; of times after the year 9999, which it cannot write, the last second of that year.
impl std::fmt::Display for UnixTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = SystemTime::UNIX_EPOCH + self.0.min(Self::LATEST.0);
        humantime::format_rfc3339_millis(time).fmt(f)
    }
}

impl Serialize for UnixTime {
    /// Seconds since the epoch, with millisecond precision.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit 52 bits")]
        serializer.serialize_f64(self.0.as_millis() as f64 / 1000.0)
    }
}

/// Both clocks at one instant. The core never reads a clock: each call passes this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// The monotonic clock, for delays.
    pub mono: Moment,
    /// The wall clock, for comparison with file times, and for display.
    pub wall: UnixTime,
}

impl Now {
    /// The moment of a past wall time, if the wall clock was not changed in between. A future time
    /// counts as now, and a time before the boot as the boot.
    #[must_use]
    pub fn moment_of(self, time: UnixTime) -> Moment {
        Moment(self.mono.0.saturating_sub(self.wall.since(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_in_rfc_3339() {
        let text = |seconds| UnixTime(Duration::from_secs(seconds)).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(1_795_850_281), "2026-11-28T07:18:01.000Z");
        assert_eq!(text(u64::MAX), "9999-12-31T23:59:59.000Z");
    }
}
