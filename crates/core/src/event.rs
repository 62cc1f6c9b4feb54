//! The events that the core processes.

use std::time::Duration;

use super::evidence::Evidence;
pub use super::ids::{RuleId, VolumeId};
pub use super::interrupted::Interrupted;
pub use super::memory::{Known, Memory};
use super::policy::Policy;
use super::preflight::Problem;
pub use super::verified::{Absence, Alive, Proof, Reads, Verified};
use crate::clock::{Moment, UnixTime};
use crate::reason::Reason;
use crate::snapshot::{Digest, Generation, Snapshot};

/// An input of the core.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Something happened in this volume. The number is that of the commits, and removals of what a
    /// commit puts in place, that the watch counted; 0 if it counts none, or for other changes.
    Hint(VolumeId, u32),
    /// A volume may have changed without an event.
    HintLost(VolumeId),
    /// All volumes may have changed without an event: the event queue overflowed.
    HintsLost,
    /// Something was mounted or unmounted: any volume may have changed without an event.
    MountsChanged,
    /// The answer to `Command::Resync` for one volume: when the reading began, and the generation
    /// on disk.
    Resynced(VolumeId, Moment, Option<Generation>),
    /// `Command::Resync` could not read a volume.
    ResyncFailed(VolumeId),
    /// How the volume is watched from now on.
    Watched(VolumeId, Watch),
    /// The answer to `Command::Scan`.
    Scanned(RuleId, Vec<(VolumeId, Scan)>),
    /// The answer to `Command::Inspect`.
    Inspected(RuleId, Inspection),
    /// A rule has got a preset, or the check of its preset, and this policy. Its checks have accepted this content.
    PolicyChanged(RuleId, Box<Policy>, Option<Digest>),
    /// The answer to `Command::Preflight`.
    Preflight(RuleId, Vec<Problem>),
    /// What podnudge's service account may not do although this rule needs it.
    Rights(RuleId, Vec<Problem>),
    /// The answer to `Command::Check` for this digest.
    Checked(RuleId, Digest, Checked),
    /// The answer to `Command::Expiry` for this digest: when its first certificate expires, if it has any.
    Expires(RuleId, Digest, Option<UnixTime>),
    /// The answer to `Command::Probe`: the reason to wait, if any.
    Probed(RuleId, Probe, Option<Reason>),
    /// The answer to `Command::Publish` and `Command::RollBack`.
    Published(RuleId, Publication),
    /// The answer to `Command::ReadPublished`: the digest that the application reads now.
    FoundPublished(RuleId, Option<Digest>),
    /// The answer to `Command::Act`.
    Acted(RuleId, Acted),
    /// A process that the rule acted on has ended.
    Ended(RuleId),
    /// The answer to `Command::Verify`.
    Verified(RuleId, Verified),
    /// What is known of the slot that the rule has asked for, whenever that changes.
    Slot(RuleId, SlotState),
    /// The answer to `Command::Halt` for this digest: the first Lease names it; or nobody has to know, because the
    /// pod is being deleted.
    HaltWritten(RuleId, Digest),
    /// The answer to the look with this number of `Command::LookAtPod`.
    PodLooked(RuleId, u32, PodLook),
    /// What an answer of the API server, or that there was none, says of the server itself.
    ApiServer(ApiServer),
    /// Which volumes the kubelet is about to write, whenever that changes; `None` if it is not known.
    Expected(Option<Expected>),
    /// A person requests an action now, for one rule or for all.
    Trigger(Option<RuleId>),
    /// A person pauses one rule or all for this long, in place of an earlier pause; `None` ends it.
    Pause(Option<RuleId>, Option<Duration>),
    /// podnudge is stopping: start no new action.
    Stop,
}

/// Whether the API server answers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiServer {
    /// The API server answers.
    Answers,
    /// There was no answer, or one of 5xx.
    Away,
}

/// The volumes that the kubelet is about to write: those of edits that no volume shows yet. It writes no others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The volumes to be written, as far as it is known which.
    pub volumes: Vec<VolumeId>,
    /// The number of further volumes to be written.
    pub others: usize,
}

/// A condition of the gate that needs I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Does the pause file exist?
    PauseFile,
}

/// What is known of the slot that a rule has asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SlotState {
    /// The rule has none, and wants none.
    #[default]
    Free,
    /// The rule holds this one.
    Held {
        /// The name of its Lease.
        slot: String,
        /// From then on another replica may take it. podnudge may have been suspended since this was said,
        /// so it is compared with the time of each decision: [`SlotState::is_held`].
        until: Moment,
    },
    /// Other replicas hold all of them, or it is being asked for.
    Waiting(Reason),
    /// The content failed on another replica.
    Halted(Digest, Reason),
    /// Who holds the slots cannot be found out.
    Unreachable(Reason),
    /// The rule held one, which another replica may take now.
    Lost(Reason),
}

impl SlotState {
    /// Whether the rule holds a slot at this time.
    #[must_use]
    pub fn is_held(&self, now: Moment) -> bool {
        matches!(self, Self::Held { until, .. } if now < *until)
    }

    /// The slot that the rule holds, or held last.
    #[must_use]
    pub fn slot(&self) -> Option<&str> {
        match self {
            Self::Held { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

/// Whether podnudge's own pod is as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodLook {
    /// The pod is as it is needed.
    Yes,
    /// The pod is not as it is needed.
    No(Reason),
    /// The pod is as it is needed, but its Services do not have it so.
    Unlisted(Reason),
    /// How the pod is could not be found out now. The API server may ask for a pause.
    Unknown(Reason, Option<Duration>),
    /// podnudge is not told: the request was refused, or there is no such pod.
    Refused(Reason),
}

impl PodLook {
    /// What it says of the API server, if anything.
    pub(super) fn api_server(&self) -> Option<ApiServer> {
        match self {
            Self::Yes | Self::No(_) | Self::Unlisted(_) => Some(ApiServer::Answers),
            Self::Unknown(..) => Some(ApiServer::Away),
            Self::Refused(_) => None,
        }
    }
}

/// When the rule's target started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// The start cannot be determined: no process is named or visible, or several are but only one is
    /// expected.
    Unknown,
    /// The start cannot be determined now, for lack of system resources.
    Blind,
    /// The target is not running.
    Absent,
    /// The target is running. If it has several processes, the earliest and the latest start.
    Running {
        /// When the first process may have read its configuration: at its start, or earlier if it
        /// was forked by a process that has ended. Up to one clock tick (10 ms) early.
        first: Moment,
        /// The start of the youngest process, up to one clock tick (10 ms) early.
        last: Moment,
    },
}

/// The result of scanning one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scan {
    /// One consistent generation.
    Present(Snapshot),
    /// Nothing exists at the path.
    Absent,
    /// A volume was mounted at the path, and nothing is mounted there now.
    Unmounted,
    /// The volume could not be read; a later scan may succeed.
    Unreadable(Reason),
}

/// How a volume is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// inotify reports changes.
    Inotify,
    /// podnudge polls every `agent.poll`, for this reason.
    Polling(Reason),
    /// podnudge polls as often, because that is configured.
    Polled,
}

/// The verdict of the rule's checks on the content on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The content may be used.
    Passed,
    /// The content must not be used.
    Rejected(Reason),
    /// The content must not be used before this time.
    NotBefore(UnixTime, Reason),
    /// The content on disk was not the content to check.
    Moved,
    /// The checks failed to run; a later run may succeed.
    Failed(Reason),
}

/// The result of a publication or rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publication {
    /// The application reads the content from now on.
    Done,
    /// The content on disk was not the content to publish; nothing was changed.
    Moved,
    /// The publication or rollback failed, perhaps after the swap. The application reads one complete generation: the one
    /// with this digest, if that is known.
    Failed(Reason, Option<Digest>),
}

/// The state of a publish directory, as far as podnudge knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// The generation that the application reads. `None` if there is none, or if it is uncertain.
    pub current: Option<Current>,
    /// The last good digest, to which a rollback is possible.
    pub good: Option<Digest>,
    /// How podnudge knew that the application ran the good digest.
    pub evidence: Evidence,
    /// The digests that failed and are not used again, with the reasons; oldest first.
    pub quarantined: Vec<(Digest, Reason)>,
}

impl Published {
    /// The maximum number of quarantined digests.
    pub const MOST_QUARANTINED: usize = 100;
}

/// The state of a rule that an earlier podnudge left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The contents of the state directory.
    pub memory: Option<Memory>,
    /// The contents of the publish directory.
    pub published: Published,
    /// The content whose checks earlier podnudges have begun, and that has not passed.
    pub interrupted: Vec<Interrupted>,
    /// Whether there may be more of it, in a record that cannot be read.
    pub is_record_unreadable: bool,
    /// The UID of podnudge's own pod, if it is known.
    pub pod: Option<String>,
}

impl Found {
    /// As far as it holds in this pod. Only a rule that evicts the pod tells pods apart.
    #[must_use]
    pub(super) fn in_own_pod(self, policy: &Policy) -> Self {
        let pod = self.pod.filter(|_| policy.rollout.evict_wait.is_some());
        let is_of_other =
            |memory: &Memory| memory.pod.is_some() && pod.is_some() && memory.pod != pod;
        let memory = match self.memory {
            Some(memory) if is_of_other(&memory) => Some(memory.in_new_pod()),
            memory => memory,
        };
        Self { memory, pod, ..self }
    }
}

/// The generation that the application reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// The digest of the generation.
    pub digest: Digest,
    /// When it was published; may be too late, but never too early.
    pub at: Moment,
    /// Whether it is proven.
    pub standing: Standing,
}

/// Whether published content is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The content was published for the application to start with.
    ForStart,
    /// The action or its proof is pending.
    Unproven,
    /// The content is good.
    Good,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// The signal was delivered to these processes.
    Sent(Targets),
    /// The application accepted the request.
    Accepted(String),
    /// The target processes were ended, to be started again.
    Restarted(Targets),
    /// podnudge itself is to end, so that the kubelet restarts all containers of the pod in place.
    EndsPod,
    /// podnudge has ended for that, and these processes are older: the kubelet has restarted podnudge's own
    /// container only.
    NotRestarted(String),
    /// podnudge has ended for that, and cannot see the application's processes.
    Unseen,
    /// podnudge's own pod was evicted: it is being deleted.
    Evicted,
    /// Nothing was done, because it must not be done now, such as for a PodDisruptionBudget. The next attempt
    /// follows not earlier than after this time.
    Postponed(Reason, Duration),
    /// Whether podnudge's own pod was evicted is not known: there was no answer. The next attempt, which first
    /// reads the Pod, follows not earlier than after this time.
    Unanswered(Reason, Duration),
    /// Nothing was sent, because the action was only to be prepared: it can be sent.
    Ready,
    /// Nothing was sent: the target started after the commit, so it has read the content.
    Fresh(Targets),
    /// Nothing was sent: the target does not exist (yet).
    Absent(Absence),
    /// The action failed; a later attempt may succeed.
    Failed(Reason),
    /// The application rejected the request.
    Declined(Reason),
    /// Nothing was sent, because that would be wrong or cannot work now.
    Refused(Reason),
}

/// The target processes of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// The kernel's name of each process.
    pub names: Vec<String>,
    /// The names of the processes above them in their containers, which end them if another rule restarts one.
    pub ancestors: Vec<String>,
    /// The ids of their containers.
    pub containers: Vec<String>,
    /// The pid of the first one.
    pub pid: Option<i32>,
    /// For reports: `41 (nginx), 52 (nginx)`, with remarks.
    pub text: String,
    /// Whether each of them is the main process of a container, which the kubelet starts again when it ends.
    pub are_containers: bool,
}

impl Targets {
    /// Whether the end of one of these processes may end one of the others. Which process is above another one is judged
    /// by the names within a container: another container may have an init of the same name.
    pub(crate) fn may_end(&self, others: &Self) -> bool {
        let are_near = self.containers.iter().any(|id| others.containers.contains(id));
        let is_above = |name| are_near && others.ancestors.contains(name);
        let is_in = |name| others.names.contains(name) || is_above(name);
        self.names.is_empty() || self.names.iter().any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_end_with_those_of_their_names_or_above_them() {
        let targets = |names: &[&str], ancestors: &[&str], container: &str| {
            let owned = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
            let (names, ancestors) = (owned(names), owned(ancestors));
            let (containers, text) = (vec![container.to_owned()], String::new());
            Targets { names, ancestors, containers, pid: None, text, are_containers: false }
        };
        let app = targets(&["app"], &["sh", "tini"], "1");
        for (other, ends, is_ended) in [
            (targets(&["app"], &[], "1"), true, true),
            // It may have been restarted since.
            (targets(&["app"], &[], "2"), true, true),
            (targets(&["sh"], &["tini"], "1"), true, false),
            (targets(&["tini"], &[], "1"), true, false),
            (targets(&["tini"], &[], "2"), false, false),
            (targets(&["worker"], &["app", "sh", "tini"], "1"), false, true),
            (targets(&["other"], &["tini"], "1"), false, false),
        ] {
            assert_eq!((other.may_end(&app), app.may_end(&other)), (ends, is_ended), "{other:?}");
        }
    }
}
