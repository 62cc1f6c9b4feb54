//! What a person can ask of a running podnudge: `podnudge trigger`, `approve`, `pause` and `resume`, and the paths of
//! their requests. Pure.

use std::time::Duration;

use podnudge_core::duration::bounded_duration;
use podnudge_core::reason::Reason;

/// The shortest and the longest pause.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24 * 7));

/// What a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Act now, whatever is held, and even if nothing has changed.
    Trigger,
    /// Roll out what is held.
    Approve,
    /// Begin no rollout for this long.
    Pause(Duration),
    /// End the pause.
    Resume,
}

impl Order {
    /// The pause, unless another time is given.
    pub const HOUR: Self = Self::Pause(Duration::from_hours(1));

    /// The order that a request to this path gives.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        [Self::Trigger, Self::Approve, Self::HOUR, Self::Resume]
            .into_iter()
            .find(|order| order.path() == path)
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Trigger => "/reload",
            Self::Approve => "/approve",
            Self::Pause(_) => "/pause",
            Self::Resume => "/resume",
        }
    }

    /// What a person is told when podnudge has taken it.
    pub(super) fn answer(self) -> String {
        match self {
            Self::Trigger | Self::Approve => "accepted; `podnudge status` shows it\n".to_owned(),
            Self::Pause(time) => {
                let time = humantime::format_duration(time);
                format!("paused for {time}; `podnudge resume` ends it\n")
            }
            Self::Resume => "resumed; `podnudge status` shows it\n".to_owned(),
        }
    }

    /// The order, for this time if it is a pause.
    ///
    /// # Errors
    /// If that is not a time from 1 s to a week.
    pub fn with_time(self, time: Option<&str>) -> Result<Self, Reason> {
        match (self, time) {
            (Self::Pause(_), Some(time)) => {
                bounded_duration(time, PAUSE.0, PAUSE.1).map(Self::Pause)
            }
            _ => Ok(self),
        }
    }
}
