//! The facts that the core reports. Each becomes one log line (`report/mod.rs`) and one line of a
//! scenario's trace.

use std::time::Duration;

use super::event::{Targets, VolumeId};
use super::evidence::Evidence;
use super::kubelet::StartDelay;
use super::preflight::{Problem, ProblemKind};
use crate::reason::Reason;
use crate::snapshot::{Changes, Digest};

/// An attempt that failed, and the one that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the attempt, from 1 on.
    pub number: u32,
    /// How many attempts are made.
    pub most: u32,
    /// The time until the next attempt.
    pub next: Duration,
    /// Whether the action took place, and only its proof is missing.
    pub is_unproven: bool,
}

/// Why content is rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The content is not what the application runs.
    New,
    /// Nothing shows what the application runs, as where it started at the moment of the last commit.
    Unknown,
}

/// What follows where the target has read the content at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFresh {
    /// The end of the rollout: the start is the evidence.
    Ends,
    /// The proof of the content.
    Verifies,
}

/// Something that happened to a rule and that an operator may want to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The first complete scan: podnudge assumes that the application runs the content on disk.
    Baseline(Digest, Basis),
    /// Nothing exists at a watched path.
    VolumeMissing(VolumeId),
    /// Nothing is mounted at the path any more.
    VolumeUnmounted(VolumeId),
    /// A missing volume exists again.
    VolumeBack(VolumeId),
    /// inotify does not work for this volume; podnudge polls it.
    Polling(VolumeId, Reason),
    /// inotify works for this volume again.
    WatchedAgain(VolumeId),
    /// The resync found a change of a volume that the watch missed.
    MissedByWatch(VolumeId),
    /// A volume could not be read; the scan is repeated.
    Unreadable(VolumeId, Reason),
    /// The differences from the last scan of a volume.
    KeysChanged(VolumeId, Changes),
    /// A scan found the content that the application already runs.
    Unchanged(Digest),
    /// podnudge has ended so many times during the check of this content. It is checked again, while
    /// nothing else is checked.
    CheckedAgain(Digest, u32),
    /// The checks passed new content.
    Passed(Digest),
    /// The checks rejected the content: it is not used, and not checked again until it changes.
    Rejected(Digest, Reason),
    /// The checks failed to run, and are repeated after this wait.
    CheckFailed(Reason, Duration),
    /// The rollout of this content is due after this wait.
    Scheduled(Digest, Duration, Occasion),
    /// The content went back to what the application runs before its rollout was due.
    Cancelled(Digest),
    /// A person triggered the rule.
    Triggered,
    /// A person paused the rule for this long: no rollout begins.
    Paused(Duration),
    /// The pause is over, or a person has ended it.
    Resumed,
    /// The content was published: the application reads it when it starts or reloads.
    Published(Digest),
    /// The publish directory contains this digest, or nothing, instead of what podnudge published.
    PublicationLost(Option<Digest>),
    /// The first digest failed and is rolled back to the second.
    RollingBack(Digest, Digest, Reason),
    /// The last good digest was rolled out again.
    RolledBack(Digest),
    /// The rule holds this slot, and may act.
    SlotHeld(String),
    /// The rule acts without a slot, because it cannot be found out who holds them.
    WithoutSlot(Reason),
    /// Another replica may take the rule's slot from now on.
    SlotLost(Reason),
    /// The rule gives its slot back without knowing whether the pod serves again.
    ReadinessUnknown(Reason),
    /// The pod leaves its Services, and the action follows after this wait.
    Draining(Digest, Duration),
    /// The signal was sent to these processes.
    Sent(Digest, Targets),
    /// The application accepted the request.
    Accepted(Digest, String),
    /// The target processes were ended, to be started again: by the kubelet, after this delay if there is one.
    Restarted(Digest, Targets, Option<StartDelay>),
    /// podnudge ends with this exit code, so that the kubelet restarts the pod in place.
    EndingForPod(Digest, u8),
    /// podnudge's own pod was evicted, and is being deleted.
    Evicted(Digest),
    /// podnudge has ended with the exit code, and the kubelet has not restarted the pod.
    PodNotRestarted(Digest, Reason),
    /// The actions did not help, and podnudge will restart the target.
    Escalating(Digest, Reason),
    /// A hold or the restart budget delays the rule, for this long if that is known.
    Held(Reason, Option<Duration>),
    /// The target started after the commit, so it has read the content.
    Fresh(Digest, Targets, AfterFresh),
    /// The target does not exist yet.
    TargetAbsent(Reason),
    /// An attempt failed; the next one follows.
    Retrying(Digest, Attempt, Reason),
    /// The action was refused: nothing was sent. It is attempted again later.
    Refused(Reason),
    /// No further attempt is made for this digest.
    GaveUp(Digest, Reason, u32),
    /// The target ended just after the action.
    Tripped(Digest, Reason),
    /// The target has ended several times with this digest.
    KeepsEnding(Digest, Reason),
    /// The application runs the digest, by this evidence; the duration is the time since its commit.
    Applied(Digest, Evidence, Duration),
    /// The content was delivered, and by this evidence it is not known whether the application runs it. The duration
    /// is the time since its commit.
    Delivered(Digest, Evidence, Duration),
    /// A problem would prevent the rule's actions.
    Preflight(Problem),
    /// A problem of this kind no longer exists.
    PreflightSolved(ProblemKind),
    /// Newer content supersedes this one; its proof is no longer waited for.
    Superseded(Digest),
}

/// Why the content of the first scan became the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The state directory, or the publish directory, records that it was applied.
    Remembered,
    /// The target started after the newest commit.
    TargetIsYounger,
    /// As `TargetIsYounger`, but the content has not passed the checks yet.
    Unchecked,
    /// The start time of the target is unknown.
    Unknown,
    /// The rule says `on-start = "never"`.
    Never,
}
