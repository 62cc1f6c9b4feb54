//! The vocabulary of the core: what it is told ([`Event`]) and what it asks for ([`Command`]).

use super::fact::Fact;
use crate::clock::{Moment, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::{Digest, Generation, Key, Snapshot};

/// A rule, by its place in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub usize);

/// A watched path of one rule. A path that two rules watch is two volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub usize);

/// What the core is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A hint: something may have happened to this volume.
    Touched(VolumeId),
    /// A hint for all volumes: the watch lost track.
    TouchedAll,
    /// Something may have happened to this volume that nobody told of.
    Untold(VolumeId),
    /// The audit or the poll looked at a volume; it began at this moment.
    Audited(VolumeId, Moment, Option<Generation>),
    /// The audit or the poll could not look at a volume.
    AuditFailed(VolumeId),
    /// How the volume is watched from now on.
    Watched(VolumeId, Watch),
    /// The answer to [`Command::Scan`].
    Scanned(RuleId, Vec<(VolumeId, Scan)>),
    /// The answer to [`Command::Inspect`].
    Inspected(RuleId, Inspection),
    /// The answer to [`Command::Check`].
    Checked(RuleId, Checked),
    /// The answer to [`Command::Expiry`].
    Expires(RuleId, Option<UnixTime>),
    /// The answer to [`Command::LookForPause`]: by what the rule is paused, if it is.
    Paused(RuleId, Option<Reason>),
    /// The answer to [`Command::Publish`] and [`Command::RollBack`].
    Published(RuleId, Publication),
    /// The answer to [`Command::Act`].
    Acted(RuleId, Acted),
    /// A process that was acted on has ended.
    Ended(RuleId),
    /// The answer to [`Command::Verify`].
    Verified(RuleId, Verified),
    /// A person wants the action now, for one rule or for all.
    Force(Option<RuleId>),
    /// podnudge is ending: no new action.
    Stop,
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
        /// The oldest one's start, up to one clock tick (10 ms) early.
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
    Refused(Reason),
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
    /// What was taken back and must not be used again, and why; the oldest first.
    pub bad: Vec<(Digest, Reason)>,
}

impl Published {
    /// How many digests that must not be used again are remembered.
    pub const MOST_BAD: usize = 100;
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
    Trying,
    /// It was verified.
    Good,
}

/// What became of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// The signal was delivered to these processes.
    Sent(String),
    /// The application answered that it accepts.
    Accepted(String),
    /// These processes were ended, so that they are started anew.
    Restarted(String),
    /// Nothing was done: the target started after the commit, so it has read the content.
    Fresh(String),
    /// Nothing was done: the target is not there (yet).
    Absent(Reason),
    /// It failed and may work later.
    Failed(Reason),
    /// The application answered that it does not accept.
    Declined(Reason),
    /// Nothing was done, because it would be wrong or cannot work as things are.
    Refused(Reason),
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

/// What the core asks for. Each is answered by exactly one event, except `Approve`, `Persist` and
/// `Report`.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Read these volumes of the rule. Answer: [`Event::Scanned`].
    Scan(RuleId, Vec<VolumeId>),
    /// Look whether these volumes are at another generation. Answer: an [`Event::Audited`] each.
    Audit(Vec<VolumeId>),
    /// Find out since when the rule's target runs. Answer: [`Event::Inspected`].
    Inspect(RuleId),
    /// Check whether this digest, which was on disk, may be used. Answer: [`Event::Checked`].
    Check(RuleId, Digest),
    /// Find out when the first certificate of this digest, which was on disk, expires. Answer:
    /// [`Event::Expires`].
    Expiry(RuleId, Digest),
    /// Look whether the file is there that pauses the rule. Answer: [`Event::Paused`].
    LookForPause(RuleId),
    /// Publish what is on disk, if it has this digest. Answer: [`Event::Published`].
    Publish(RuleId, Digest),
    /// Take back what is published. Answer: [`Event::Published`].
    RollBack(RuleId, RollBack),
    /// Remember that what is published was verified.
    Approve(RuleId, Digest),
    /// Do the rule's action. Answer: [`Event::Acted`].
    Act(Act),
    /// Look once whether the application took it. Answer: [`Event::Verified`].
    Verify(RuleId),
    /// Remember this over a restart of podnudge.
    Persist(RuleId, Memory),
    /// Tell people.
    Report(RuleId, Fact),
}

/// Taking back a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// The older publication to turn to.
    pub to: Digest,
    /// What must not be used again.
    pub bad: Digest,
    /// Why.
    pub reason: Reason,
}

/// One action for one digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The rule.
    pub rule: RuleId,
    /// What is to be delivered: what is on disk, or what was gone back to.
    pub digest: Digest,
    /// A target that started after this has read the content by itself. `None` if a person asked
    /// for the action, or `on-start` did: then it is done all the same.
    pub fresh_after: Option<Moment>,
    /// Whether it is done even if the proof's state before it cannot be read: what does not work is
    /// taken back, or has kept it from being read for long enough.
    pub lenient: bool,
    /// When it begins.
    pub at: Moment,
    /// 1 for the first.
    pub attempt: u32,
    /// Instead of the rule's actions, the target is to be ended and started anew.
    pub restart: bool,
    /// The keys that differ from what the application was last known to run, as far as somebody
    /// wants to know: [`Policy::tells_changes`](super::Policy::tells_changes).
    pub changed: Vec<Key>,
}

/// What is remembered of a rule over a restart of podnudge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What the application ran; `None` if that was open, because something was under way.
    pub running: Option<Digest>,
    /// When that was so.
    pub at: UnixTime,
}
