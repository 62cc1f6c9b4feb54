//! What the core is told.

use crate::clock::{Moment, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::{Digest, Generation, Snapshot};

/// A rule, by its place in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub usize);

/// A watched path of one rule. A path that two rules watch is two volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub usize);

/// What the core is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Something happened at this volume. The watch counted this many commits, and removals of what a
    /// commit puts in place; 0 where it counts none, or where something else happened.
    Hint(VolumeId, u32),
    /// Something may have happened to this volume that no event told of.
    HintLost(VolumeId),
    /// The same for all volumes: the queue of events overflowed.
    HintsLost,
    /// The answer to [`Command::Resync`](super::command::Command::Resync) for one volume: the generation that is there. The reading
    /// began at this moment.
    Resynced(VolumeId, Moment, Option<Generation>),
    /// A volume could not be read by [`Command::Resync`](super::command::Command::Resync).
    ResyncFailed(VolumeId),
    /// How the volume is watched from now on.
    Watched(VolumeId, Watch),
    /// The answer to [`Command::Scan`](super::command::Command::Scan).
    Scanned(RuleId, Vec<(VolumeId, Scan)>),
    /// The answer to [`Command::Inspect`](super::command::Command::Inspect).
    Inspected(RuleId, Inspection),
    /// The answer to [`Command::Check`](super::command::Command::Check) for this digest.
    Checked(RuleId, Digest, Checked),
    /// The answer to [`Command::Expiry`](super::command::Command::Expiry).
    Expires(RuleId, Option<UnixTime>),
    /// The answer to [`Command::Probe`](super::command::Command::Probe): why the rule has to wait, if it has.
    Probed(RuleId, Probe, Option<Reason>),
    /// The answer to [`Command::Publish`](super::command::Command::Publish) and [`Command::RollBack`](super::command::Command::RollBack).
    Published(RuleId, Publication),
    /// The answer to [`Command::ReadPublished`](super::command::Command::ReadPublished): the digest that the application reads now.
    FoundPublished(RuleId, Option<Digest>),
    /// The answer to [`Command::Act`](super::command::Command::Act).
    Acted(RuleId, Acted),
    /// A process that was acted on has ended.
    Ended(RuleId),
    /// The answer to [`Command::Verify`](super::command::Command::Verify).
    Verified(RuleId, Verified),
    /// A person asks for an action now, for one rule or for all.
    Trigger(Option<RuleId>),
    /// podnudge is ending: no new action.
    Stop,
}

/// A question of the gate that takes I/O to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Is the file there that pauses the rule?
    PauseFile,
}

/// Since when the rule's target runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// It can never be told: no process is named or visible, or several that are not wanted.
    Unknown,
    /// It cannot be told now: the system has no means left to look.
    Blind,
    /// It does not run.
    Absent,
    /// It runs. Of several processes, when the first and when the last one started.
    Running {
        /// Since when the first may have read its configuration, up to one clock tick (10 ms) early:
        /// its start, or before that where it was forked by a process that has ended.
        first: Moment,
        /// The youngest one's start, up to one clock tick (10 ms) early.
        last: Moment,
    },
}

/// What a look at one volume brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scan {
    /// One consistent generation.
    Present(Snapshot),
    /// There is nothing at the path.
    Absent,
    /// It could not be read; it may be readable later.
    Unreadable(Reason),
}

/// How a volume is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// The kernel tells.
    Inotify,
    /// podnudge looks every `agent.poll`, for this reason.
    Polling(Reason),
}

/// What the rule's checks say of what is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// It may be used.
    Passed,
    /// It must not be used.
    Rejected(Reason),
    /// It must not be used before this time.
    NotBefore(UnixTime, Reason),
    /// Something else was on disk than was asked about.
    Moved,
    /// They could not be done, and may be later.
    Failed(Reason),
}

/// What became of a publication, or of taking one back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publication {
    /// The application reads it from now on.
    Done,
    /// Something else was on disk than was asked for; nothing was changed.
    Moved,
    /// It could not be done, or not to the end. The application reads one whole generation: the one
    /// with this digest, as far as that can be told.
    Failed(Reason, Option<Digest>),
}

/// What lies in a publish directory, as far as podnudge knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// What the application reads. `None`: nothing, or that is not certain.
    pub current: Option<Current>,
    /// What was verified last, and can be gone back to.
    pub good: Option<Digest>,
    /// What failed and is not used again, and why; the oldest first.
    pub quarantined: Vec<(Digest, Reason)>,
}

impl Published {
    /// How many quarantined digests are remembered.
    pub const MOST_QUARANTINED: usize = 100;
}

/// What a podnudge before this one has left of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What the state directory holds.
    pub memory: Option<Memory>,
    /// What lies in the publish directory.
    pub published: Published,
}

/// What the application reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// Its digest.
    pub digest: Digest,
    /// When it was put there; rather too late than too early.
    pub at: Moment,
    /// How far it is proven.
    pub standing: Standing,
}

/// How far what is published is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It was put there for the application's start.
    ForStart,
    /// Its action, or the proof of it, is open.
    Unproven,
    /// It was verified.
    Good,
}

/// What became of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// The signal was delivered to these processes.
    Sent(Targets),
    /// The application answered that it accepts.
    Accepted(String),
    /// These processes were ended, so that they are started anew.
    Restarted(Targets),
    /// Nothing was done: the target started after the commit, so it has read the content.
    Fresh(Targets),
    /// Nothing was done: the target is not there (yet).
    Absent(Absence),
    /// It failed and may work later.
    Failed(Reason),
    /// The application answered that it does not accept.
    Declined(Reason),
    /// Nothing was done, because it would be wrong or cannot work as things are.
    Refused(Reason),
}

/// The processes that an action was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// How the kernel calls each of them.
    pub names: Vec<String>,
    /// For people: `41 (nginx), 52 (nginx)`, and what there is to say besides.
    pub text: String,
}

/// No process of the target is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// What was looked for.
    pub reason: Reason,
    /// Whether a process has read what is published since it was published: then one was there, and
    /// has ended.
    pub was_read: bool,
}

impl Absence {
    /// No process has read what is published, as far as one can tell.
    #[must_use]
    pub fn unread(reason: Reason) -> Self {
        Self { reason, was_read: false }
    }
}

/// What one look at the application after an action brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Whether the process is still the one that was acted on.
    pub alive: Alive,
    /// Whether the configured proof was seen.
    pub proof: Proof,
}

/// Whether the process that was acted on is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alive {
    /// Same pid, same start time.
    Yes,
    /// No process was acted on (HTTP without a target).
    Unknown,
    /// podnudge has ended it itself, for another rule. From now on it is about what is started anew.
    Replaced,
    /// podnudge has ended it itself, and no new one is there yet.
    Absent(Absence),
    /// It ended.
    Gone(Reason),
}

/// Whether the configured proof was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// None is configured.
    NotAsked,
    /// It was seen.
    Given,
    /// Not yet, for this reason.
    Pending(Reason),
}

/// What is remembered of a rule over a restart of podnudge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What the application ran; `None` if that was open, because something was under way.
    pub running: Option<Digest>,
    /// When that was so.
    pub at: UnixTime,
}
