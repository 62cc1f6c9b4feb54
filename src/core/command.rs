//! What the core asks for. Who performs a command is told by its name: one module each.

use super::event::{Memory, Probe, RuleId, VolumeId};
use super::fact::Fact;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::volume::snapshot::{Digest, Key};

/// What the core asks for. Each is answered by exactly one event, except `Approve`, `Persist` and
/// `Report`, and `ReadPublished` where that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Read these volumes of the rule. Answer: [`Event::Scanned`](super::event::Event::Scanned).
    Scan(RuleId, Vec<VolumeId>),
    /// Compare the generation of these volumes with the one that is known. Answer: an
    /// [`Event::Resynced`](super::event::Event::Resynced) each.
    Resync(Vec<VolumeId>),
    /// Read which digest is published. Answer: [`Event::FoundPublished`](super::event::Event::FoundPublished).
    ReadPublished(RuleId),
    /// Find out since when the rule's target runs. Answer: [`Event::Inspected`](super::event::Event::Inspected).
    Inspect(RuleId),
    /// Check whether this digest, which was on disk, may be used. Answer: [`Event::Checked`](super::event::Event::Checked). A
    /// newer one for the same rule takes the place of an older one, which may then end unanswered.
    Check(RuleId, Digest),
    /// Find out when the first certificate of this digest, which was on disk, expires. Answer:
    /// [`Event::Expires`](super::event::Event::Expires).
    Expiry(RuleId, Digest),
    /// Answer a question of the gate. Answer: [`Event::Probed`](super::event::Event::Probed).
    Probe(RuleId, Probe),
    /// Publish what is on disk, if it has this digest. Answer: [`Event::Published`](super::event::Event::Published).
    Publish(RuleId, Digest),
    /// Go back to an older publication. Answer: [`Event::Published`](super::event::Event::Published).
    RollBack(RuleId, RollBack),
    /// Remember that what is published was verified.
    Approve(RuleId, Digest),
    /// Do the rule's action. Answer: [`Event::Acted`](super::event::Event::Acted).
    Act(Act),
    /// Look once for proof that the application runs it. Answer: [`Event::Verified`](super::event::Event::Verified).
    Verify(RuleId),
    /// Remember this over a restart of podnudge.
    Persist(RuleId, Memory),
    /// Tell people.
    Report(RuleId, Fact),
}

/// Going back to an older publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// The older publication.
    pub to: Digest,
    /// What is quarantined.
    pub failed: Digest,
    /// Why.
    pub reason: Reason,
}

/// One action for one digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The rule.
    pub rule: RuleId,
    /// What is to be delivered: what is on disk, or what was rolled back to.
    pub digest: Digest,
    /// A target that started after this has read the content by itself. `None` if a person asked
    /// for the action, or `on-start` did: then it is done all the same.
    pub fresh_after: Option<Moment>,
    /// Nothing is sent, whatever the target is: one that has read the content by itself is looked for.
    pub only_if_fresh: bool,
    /// Whether it is done even if what proofs compare with cannot be read: in a roll-back, or where
    /// that was not possible for long enough.
    pub lenient: bool,
    /// When it begins.
    pub at: Moment,
    /// 1 for the first.
    pub attempt: u32,
    /// Instead of the rule's actions, the target is to be ended and started anew.
    pub restart: bool,
    /// The keys that differ from what the application was last known to run, as far as somebody
    /// wants to know: [`Policy::tells_changes`](super::policy::Policy::tells_changes).
    pub changed: Vec<Key>,
}
