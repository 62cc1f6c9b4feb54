//! What the core tells people. Each fact becomes one log line (`report.rs`) and one line of a
//! scenario's trace.

use std::time::Duration;

use super::event::VolumeId;
use crate::reason::Reason;
use crate::volume::snapshot::{Changes, Digest};

/// Something that happened to a rule and that a person may want to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The first complete look: what is on disk is taken as what the application runs.
    Baseline(Digest, Basis),
    /// There is nothing at a watched path.
    VolumeMissing(VolumeId),
    /// There is something again at a path that was missing.
    VolumeBack(VolumeId),
    /// inotify does not serve this volume.
    Polling(VolumeId, Reason),
    /// inotify serves this volume again.
    WatchedAgain(VolumeId),
    /// A volume changed and the watch did not tell; the resync did.
    MissedByWatch(VolumeId),
    /// A volume could not be read; the look is repeated.
    Unreadable(VolumeId, Reason),
    /// What differs from the last look at a volume.
    KeysChanged(VolumeId, Changes),
    /// A look found what the application runs already.
    Unchanged(Digest),
    /// The checks let new content pass.
    Passed(Digest),
    /// The checks refuse it: it is not used, and not checked again until it changes.
    Rejected(Digest, Reason),
    /// The checks could not be done; they are asked again after this wait.
    CheckFailed(Reason, Duration),
    /// New content: the action is due after this wait.
    Scheduled(Digest, Duration),
    /// The content went back to what the application runs before the action was due.
    Cancelled(Digest),
    /// A person asked for the action.
    Triggered,
    /// The application reads it from now on, when it starts or reloads.
    Published(Digest),
    /// The publish directory holds this, or nothing, and not what podnudge has put there.
    PublicationLost(Option<Digest>),
    /// This does not work, and is rolled back: the application gets the other one again.
    RollingBack(Digest, Digest, Reason),
    /// The application runs again what it ran before.
    RolledBack(Digest),
    /// The signal was delivered to this process.
    Sent(Digest, String),
    /// The application answered that it accepts.
    Accepted(Digest, String),
    /// These processes were ended, so that they are started anew.
    Restarted(Digest, String),
    /// The actions did not help, and the target is to be restarted.
    Escalating(Digest, Reason),
    /// Something keeps the rule from beginning, for so long if that is known.
    Held(Reason, Option<Duration>),
    /// The target started after the commit, so it has read the content by itself.
    Fresh(Digest, String),
    /// The target is not there yet.
    TargetAbsent(Reason),
    /// An attempt failed; the next one follows after this wait.
    Retrying(Reason, u32, Duration),
    /// The action was refused: nothing was sent. It is looked at again later.
    Refused(Reason),
    /// No further attempt for this digest.
    GaveUp(Digest, Reason, u32),
    /// The target ended just after the action.
    Tripped(Digest, Reason),
    /// The application runs it; this long after the commit.
    Applied(Digest, Duration),
    /// A newer content is on disk; the proof of this one is not waited for any longer.
    Superseded(Digest),
}

/// Why the first look became the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The state directory, or the publish directory, says that it was applied.
    Remembered,
    /// The target started after the newest commit.
    TargetIsYounger,
    /// Nothing tells when the target started.
    Unknown,
    /// The rule says `on-start = "never"`.
    Never,
}
