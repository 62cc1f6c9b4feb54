//! The problems that would prevent the actions of a rule, found before there is anything to do.
//!
//! The preflight of a rule follows its first scan and each resync. What may solve itself while the application starts
//! is reported only if a second look, 1 s after the first, finds it, too, and is looked at again soon. What an action
//! may cause is not reported as new during a rollout. The edge looks (`preflight/`), and `podnudge doctor` calls the
//! same code. The API server is asked for missing rights at other times (`run/api/rights.rs`).

use std::time::Duration;

use serde::Serialize;

use crate::clock::Moment;
use crate::reason::Reason;

/// A problem that would prevent the actions of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The kind of the problem. A rule has at most one problem of each kind.
    #[serde(rename = "problem")]
    pub kind: ProblemKind,
    /// What is wrong, and how to fix it.
    pub reason: Reason,
}

/// A kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// podnudge sees only its own container.
    NamespaceNotShared,
    /// No process matches the target, although other containers run processes.
    TargetNotFound,
    /// Several unrelated processes match.
    TargetAmbiguous,
    /// The target setting cannot work, such as with a volume that is mounted by subPath.
    TargetUnsupported,
    /// The target ignores the signal, or would end.
    SignalNotHandled,
    /// podnudge must not signal the target.
    NotPermitted,
    /// A program of the rule does not exist in podnudge's container.
    ProgramMissing,
    /// The rule has no action, and there is no preset for the target's program.
    NoPreset,
    /// The target's program does not reload on this signal.
    SignalDoesNotReload,
    /// A broken configuration ends the target, and the rule has no check.
    Unchecked,
    /// A file that a request needs does not exist in podnudge's container.
    FileMissing,
    /// Nothing accepts connections at an address of the rule.
    Unreachable,
    /// The slot of a restart is given back before the application has started.
    RestartUnproven,
    /// A proof by HTTP or a socket does not hold, whatever changes, or the content has no certificate to compare with.
    ProofFails,
    /// A subPath mount, which never changes.
    Subpath,
    /// The target does not mount the publish directory.
    NotPublished,
    /// The target does not mount the watched volumes.
    NotMounted,
    /// The publish directory is not in a mounted volume, so the application cannot see it.
    PublishNotAMount,
    /// No key counts.
    NoKeys,
    /// A check may need more memory than podnudge may use.
    MemoryLimit,
    /// podnudge sees the processes of the whole node.
    HostPid,
    /// The state directory cannot be used.
    StateDirUnusable,
    /// podnudge does not know which pod is its own, and so does not evict it.
    PodUnknown,
    /// Others may change what programs check in the work directory.
    WorkDirShared,
    /// The service account may not do what slots need.
    SlotsForbidden,
    /// The service account may not watch the Leases, by which waiting for slots is cheap.
    SlotsUnwatched,
    /// The service account may not read podnudge's own Pod, as slots need.
    ReadinessForbidden,
    /// The service account may not find out whether the Services have the pod.
    EndpointSlicesForbidden,
    /// The service account may not evict the pod.
    EvictionForbidden,
    /// The service account may not do what eager sync needs.
    EagerSyncForbidden,
    /// The service account may not create Events.
    EventsForbidden,
    /// No policy limits what the service account may do with podnudge's own pod.
    RightsUnlimited,
    /// Nothing exists at a watched path. Only `podnudge doctor` says so: podnudge has a state for it.
    VolumeMissing,
    /// A volume cannot be read. Only `podnudge doctor` says so.
    VolumeUnreadable,
    /// Another program uses the admin address. Only `podnudge doctor` says so.
    PortTaken,
    /// inotify does not work. Only `podnudge doctor` says so.
    Polled,
}

impl ProblemKind {
    /// Whether an action may cause the problem for a moment, or says itself that it exists.
    pub(super) fn may_be_of_rollout(self) -> bool {
        matches!(
            self,
            Self::TargetNotFound
                | Self::TargetAmbiguous
                | Self::SignalNotHandled
                | Self::NotPermitted
                | Self::Unreachable
                | Self::ProofFails
        )
    }

    /// Whether only a running target shows the problem.
    fn is_of_target(self) -> bool {
        matches!(
            self,
            Self::SignalNotHandled
                | Self::NotPermitted
                | Self::NoPreset
                | Self::SignalDoesNotReload
                | Self::Unchecked
                | Self::RestartUnproven
                | Self::Subpath
                | Self::NotPublished
                | Self::NotMounted
                | Self::WorkDirShared
        )
    }

    /// Whether no action or proof could reach the target, or it cannot read the content, or a proof does not hold: then
    /// nothing tells what it runs.
    fn hides_what_runs(self) -> bool {
        matches!(
            self,
            Self::NamespaceNotShared
                | Self::TargetNotFound
                | Self::TargetAmbiguous
                | Self::TargetUnsupported
                | Self::SignalNotHandled
                | Self::NotPermitted
                | Self::NoPreset
                | Self::Unreachable
                | Self::ProofFails
                | Self::Subpath
                | Self::NotPublished
                | Self::NotMounted
        )
    }

    /// Whether only the API server knows of the problem.
    fn is_of_rights(self) -> bool {
        matches!(
            self,
            Self::SlotsForbidden
                | Self::SlotsUnwatched
                | Self::ReadinessForbidden
                | Self::EndpointSlicesForbidden
                | Self::EvictionForbidden
                | Self::EagerSyncForbidden
                | Self::EventsForbidden
                | Self::RightsUnlimited
        )
    }

    /// Whether the problem also exists while the application starts.
    fn may_solve_itself(self) -> bool {
        matches!(self, Self::TargetNotFound | Self::NoPreset | Self::Unreachable | Self::ProofFails)
    }

    /// The name in status, log and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NamespaceNotShared => "namespace-not-shared",
            Self::TargetNotFound => "target-not-found",
            Self::TargetAmbiguous => "target-ambiguous",
            Self::TargetUnsupported => "target-unsupported",
            Self::SignalNotHandled => "signal-not-handled",
            Self::NotPermitted => "not-permitted",
            Self::ProgramMissing => "program-missing",
            Self::NoPreset => "no-preset",
            Self::SignalDoesNotReload => "signal-does-not-reload",
            Self::Unchecked => "unchecked",
            Self::RestartUnproven => "restart-unproven",
            Self::FileMissing => "file-missing",
            Self::Unreachable => "unreachable",
            Self::ProofFails => "proof-fails",
            Self::Subpath => "subpath",
            Self::NotPublished => "not-published",
            Self::NotMounted => "not-mounted",
            Self::PublishNotAMount => "publish-not-a-mount",
            Self::NoKeys => "no-keys",
            Self::MemoryLimit => "memory-limit",
            Self::HostPid => "host-pid",
            Self::StateDirUnusable => "state-dir-unusable",
            Self::PodUnknown => "pod-unknown",
            Self::WorkDirShared => "work-dir-shared",
            Self::SlotsForbidden => "slots-forbidden",
            Self::SlotsUnwatched => "slots-unwatched",
            Self::ReadinessForbidden => "readiness-forbidden",
            Self::EndpointSlicesForbidden => "endpoint-slices-forbidden",
            Self::EvictionForbidden => "eviction-forbidden",
            Self::EagerSyncForbidden => "eager-sync-forbidden",
            Self::EventsForbidden => "events-forbidden",
            Self::RightsUnlimited => "rights-unlimited",
            Self::VolumeMissing => "volume-missing",
            Self::VolumeUnreadable => "volume-unreadable",
            Self::PortTaken => "port-taken",
            Self::Polled => "polled",
        }
    }
}

impl Problem {
    /// A problem of this kind.
    #[must_use]
    pub fn new(kind: ProblemKind, reason: Reason) -> Self {
        Self { kind, reason }
    }

    /// The settings `only` and `ignore` exclude every key.
    #[must_use]
    pub fn no_keys() -> Self {
        let reason = Reason::new("no key of the volumes counts, so podnudge never acts").hint(
            "correct `only` and `ignore`: they are patterns for names of files, such as `*.conf`",
        );
        Self::new(ProblemKind::NoKeys, reason)
    }
}

/// How long after the first preflight a second one follows: the containers of a pod start one after
/// the other.
const FIRST_REPEAT: Duration = Duration::from_secs(1);
/// The longest wait between two of these preflights, each of which is twice as long as the one before.
const LONGEST_REPEAT: Duration = Duration::from_secs(16);

/// The current problems of a rule.
#[derive(Debug, Default)]
pub(super) struct Preflight {
    problems: Vec<Problem>,
    progress: Progress,
}

/// How far the preflights at the start have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Due,
    First,
    /// The last one has found a problem that may solve itself while the application starts: when the next one is due,
    /// and its wait.
    Again(Moment, Duration),
    /// One is in progress, after this wait.
    Looking(Duration),
    Done,
}

impl Preflight {
    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether the first one is due, after the first scan. The first call only.
    pub(super) fn take_first(&mut self) -> bool {
        let is_due = self.progress == Progress::Due;
        if is_due {
            self.progress = Progress::First;
        }
        is_due
    }

    /// Whether another one is due. The first call only.
    pub(super) fn take_next(&mut self, now: Moment) -> bool {
        match self.progress {
            Progress::Again(at, wait) if at <= now => {
                self.progress = Progress::Looking(wait);
                true
            }
            _ => false,
        }
    }

    /// Another target runs, and the next preflight is to tell of its problems.
    pub(super) fn other_target(&mut self) {
        self.progress = Progress::Looking(LONGEST_REPEAT);
    }

    /// The application has given proof, which solves the problems with that. Returns the same as `found`.
    pub(super) fn proven(&mut self) -> (Vec<Problem>, Vec<ProblemKind>) {
        let mut open = self.problems.clone();
        open.retain(|one| !matches!(one.kind, ProblemKind::Unreachable | ProblemKind::ProofFails));
        self.replace(open)
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match self.progress {
            Progress::Again(at, _) => Some(at),
            _ => None,
        }
    }

    /// Whether a problem hides what the target runs, or the preflights at the start are not over.
    pub(super) fn hides_what_runs(&self) -> bool {
        self.progress != Progress::Done
            || self.problems.iter().any(|problem| problem.kind.hides_what_runs())
    }

    pub(super) fn contains(&self, kind: ProblemKind) -> bool {
        self.problems.iter().any(|problem| problem.kind == kind)
    }

    /// Takes the problems that were found now. Returns the new ones, and the kinds that are solved.
    pub(super) fn found(
        &mut self,
        now: Moment,
        mut problems: Vec<Problem>,
    ) -> (Vec<Problem>, Vec<ProblemKind>) {
        let wait = match self.progress {
            Progress::First => Some(FIRST_REPEAT),
            Progress::Looking(wait) => Some(wait * 2),
            _ => None,
        };
        if let Some(wait) = wait {
            let is_starting = problems.iter().any(|problem| problem.kind.may_solve_itself());
            if self.progress == Progress::First {
                problems.retain(|problem| !problem.kind.may_solve_itself());
            }
            self.progress = if is_starting && wait <= LONGEST_REPEAT {
                Progress::Again(now.after(wait), wait)
            } else {
                Progress::Done
            };
        }
        if problems.iter().any(|problem| problem.kind == ProblemKind::TargetNotFound) {
            // Nothing was learnt about the target's other problems.
            let mut kept = self.problems.clone();
            kept.retain(|kept| {
                kept.kind.is_of_target()
                    && !problems.iter().any(|problem| problem.kind == kept.kind)
            });
            problems.extend(kept);
        }
        let rights = self.problems.iter().filter(|known| known.kind.is_of_rights());
        problems.extend(rights.cloned());
        self.replace(problems)
    }

    /// Takes the problems with the rights of the service account. Returns the same.
    pub(super) fn rights(&mut self, mut missing: Vec<Problem>) -> (Vec<Problem>, Vec<ProblemKind>) {
        let others = self.problems.iter().filter(|known| !known.kind.is_of_rights());
        missing.extend(others.cloned());
        self.replace(missing)
    }

    fn replace(&mut self, problems: Vec<Problem>) -> (Vec<Problem>, Vec<ProblemKind>) {
        let before = std::mem::replace(&mut self.problems, problems);
        let has = |problems: &[Problem], kind| problems.iter().any(|problem| problem.kind == kind);
        let new =
            self.problems.iter().filter(|problem| !has(&before, problem.kind)).cloned().collect();
        let kinds = before.iter().map(|problem| problem.kind);
        (new, kinds.filter(|kind| !has(&self.problems, *kind)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: ProblemKind) -> Problem {
        Problem::new(kind, Reason::new("x"))
    }

    /// A preflight of the rest finds no rights, and the API server finds nothing else.
    #[test]
    fn missing_rights_last_until_the_api_server_says_otherwise() {
        let (rights, rest) = (ProblemKind::EventsForbidden, ProblemKind::HostPid);
        let (mut preflight, now) = (Preflight::default(), Moment::default());
        assert_eq!(preflight.rights(vec![problem(rights)]), (vec![problem(rights)], Vec::new()));
        assert_eq!(preflight.found(now, vec![problem(rest)]), (vec![problem(rest)], Vec::new()));
        assert!(preflight.contains(rights) && preflight.contains(rest));
        assert_eq!(preflight.rights(vec![problem(rights)]), (Vec::new(), Vec::new()));
        assert_eq!(preflight.found(now, Vec::new()), (Vec::new(), vec![rest]));
        assert_eq!(preflight.rights(Vec::new()), (Vec::new(), vec![rights]));
        assert_eq!(preflight.problems(), []);
    }
}
