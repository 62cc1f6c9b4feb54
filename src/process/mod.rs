//! The application's process: finding it by rule, and signalling it and never another.
//!
//! Reads `/proc`; changes nothing but by the signal that a rule asks for.

pub mod children;
pub(crate) mod ending;
pub mod proc;
pub(crate) mod restarts;
pub mod select;
pub mod signal;

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Moment;
use crate::config::{Target, TargetBy};
use crate::reason::Reason;
use proc::Detail;
pub use proc::own;
pub use select::{Own, Process, Refusal};

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
    /// How long it runs.
    #[must_use]
    pub fn age(self) -> Duration {
        proc::age(self)
    }

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

/// A process that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Which one it is.
    pub identity: Identity,
    /// For people: `41 (nginx)`, control characters escaped.
    pub name: String,
    /// Whether none of the others that were chosen is above it in the process tree.
    pub is_root: bool,
}

/// The processes that the rule is about: the root of the matching tree, or all matches.
///
/// # Errors
/// If there is none, or none that may be chosen, with the reason.
pub fn find(own: &Own, target: &Target, volumes: &[PathBuf]) -> Result<Vec<Chosen>, Refusal> {
    let wanted = match &target.by {
        TargetBy::Pidfile(path) => Some(proc::pidfile(path)?),
        _ => None,
    };
    let mut seen = proc::read(own, target, volumes, wanted, Detail::Likely)?;
    if select::select(target, wanted, &seen).is_err() {
        // What is wrong is told with all that is there.
        seen = proc::read(own, target, volumes, wanted, Detail::All)?;
    }
    let chosen = select::select(target, wanted, &seen)?;
    let roots = select::roots(&chosen, &seen);
    let describe = |process: &&Process| Chosen {
        identity: process.identity,
        name: process.for_people(),
        is_root: roots.contains(process),
    };
    Ok(chosen.iter().map(describe).collect())
}

/// What became of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It is still the one that was chosen.
    Goes,
    /// It ended, and perhaps another one has its pid.
    Ended(Reason),
    /// It cannot be told now.
    Unknown(Reason),
}

/// What became of the process that was chosen.
#[must_use]
pub fn life(identity: Identity) -> Life {
    let pid = identity.pid;
    let ended = || Life::Ended(Reason::new(format!("process {pid} ended")));
    match proc::stat(pid) {
        Err(reason) => Life::Unknown(reason),
        Ok(None) => ended(),
        Ok(Some(stat)) if stat.start_ticks != identity.start_ticks => {
            Life::Ended(Reason::new(format!("process {pid} ended, and another one has its pid")))
        }
        Ok(Some(stat)) if stat.is_dead => ended(),
        Ok(Some(_)) => Life::Goes,
    }
}
