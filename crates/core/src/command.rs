//! The commands of the core. The name of a command tells which module executes it.

use super::event::{Memory, Probe, RuleId, VolumeId};
use super::evidence::Evidence;
use super::fact::Fact;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::snapshot::{Digest, Key};

/// How podnudge's own pod is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodIs {
    /// Each of the Services that the drain names has it, ready or not.
    Listed,
    /// The pod is not Ready, and none of the Services has it as ready.
    OutOfServices,
    /// The pod is Ready, and all of the Services have it as ready, too.
    Serving,
}

/// An output of the core. Exactly one event answers each command, except `RenewWatches`, `Remember`,
/// `Approve`, `Persist`, `EndPod`, `Report` and those about slots that name no answer, and `ReadPublished` if the
/// publication cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Read these volumes of the rule. Answer: `Event::Scanned`.
    Scan(RuleId, Vec<VolumeId>),
    /// Compare the generation of these volumes with the known one. Answer: an `Event::Resynced` for
    /// each.
    Resync(Vec<VolumeId>),
    /// Renew the watches of each volume at its next scan: they may be dead.
    RenewWatches,
    /// Read the published digest. Answer: `Event::FoundPublished`.
    ReadPublished(RuleId),
    /// Find out when the rule's target started. Answer: `Event::Inspected`.
    Inspect(RuleId),
    /// Find what would prevent the rule's actions, without acting. Answer: `Event::Preflight`.
    Preflight(RuleId),
    /// Check whether this digest, which was on disk, may be used. Answer: `Event::Checked`. A newer
    /// command for the same rule replaces an older one, which may then remain unanswered.
    Check(RuleId, Digest),
    /// Record that this digest, which was on disk, waits for its checks: if podnudge restarts meanwhile, it is
    /// no baseline.
    Remember(RuleId, Digest),
    /// Find out when the first certificate of this digest, which was on disk, expires. Answer:
    /// `Event::Expires`; none if the volumes do not have this digest now, or are unreadable.
    Expiry(RuleId, Digest),
    /// Evaluate a condition of the gate. Answer: `Event::Probed`.
    Probe(RuleId, Probe),
    /// Publish the content on disk if it has this digest. Answer: `Event::Published`.
    Publish(RuleId, Digest),
    /// Roll back to an older publication. Answer: `Event::Published`.
    RollBack(RuleId, RollBack),
    /// Record that the published digest is good.
    Approve(RuleId, Digest, Evidence),
    /// Run the rule's actions. Answer: `Event::Acted`.
    Act(Act),
    /// End podnudge with the rule's exit code, once what precedes it is saved. If that fails, or if it is this time
    /// by then, from which on another replica may have the slot, the answer is `Event::Acted` with `Acted::Refused`.
    EndPod(RuleId, Option<Moment>),
    /// Poll once for proof that the application runs the content. Answer: `Event::Verified`.
    Verify(RuleId),
    /// Save this across a restart of podnudge.
    Persist(RuleId, Box<Memory>),
    /// Ask for a slot for this digest, or for another digest or with another intent from now on. The answers are
    /// `Event::Slot`, whenever something changes, and at least one unless a slot to act is only kept from now on.
    Claim(RuleId, Digest, Intent),
    /// Give the slot back, or stop waiting for one.
    Release(RuleId),
    /// Find out whether podnudge's own pod is so. The number is that of the look. Answer: `Event::PodLooked`.
    LookAtPod(RuleId, u32, PodIs),
    /// Tell the other replicas that this digest failed here. It precedes `Release`, and is saved by then. Answer:
    /// `Event::HaltWritten`, once the API server has it; until then the next podnudge repeats it.
    Halt(RuleId, Digest, Reason),
    /// A person wants this digest here although it failed on another replica.
    TryHalted(RuleId, Digest),
    /// Tell them that the digest of `Halt` or `TryHalted` works here after all. It precedes `Release`.
    ClearHalt(RuleId, Digest),
    /// Report this fact to operators.
    Report(RuleId, Fact),
}

/// What a slot is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To act with the digest: refused if it failed on another replica.
    Act,
    /// To recover from an action with the digest, while no other replica acts: not refused because it failed.
    Keep,
}

/// A rollback to an older publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// The digest to publish again.
    pub to: Digest,
    /// The digest to quarantine.
    pub failed: Digest,
    /// Why it is quarantined.
    pub reason: Reason,
}

/// How far an action goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The action is sent.
    Send,
    /// The target is found, and whether the action may be sent; the answer is then `Acted::Ready`.
    Prepare,
    /// Nothing is sent: only look for a target that has read the content at its start.
    LookForFresh,
    /// Nothing is sent: only look whether the pod's containers were restarted after podnudge had ended.
    LookForRestart,
}

/// One action for one digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The rule whose action it is.
    pub rule: RuleId,
    /// The digest to deliver: the one on disk, or the one that was rolled back to.
    pub digest: Digest,
    /// A target that started after this has read the content. `None` if a trigger or `on-start`
    /// requests the action: then act in any case.
    pub fresh_after: Option<Moment>,
    /// How far the action goes.
    pub extent: Extent,
    /// Whether to act even if the baseline for the proofs cannot be read: in a rollback, or after
    /// `target.wait`.
    pub lenient: bool,
    /// When the action begins.
    pub at: Moment,
    /// From then on another replica may have the slot of the action: nothing is sent any more.
    pub before: Option<Moment>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// End the target, to be started again, instead of running the rule's actions.
    pub restart: bool,
    /// The keys that differ from what the application was last known to run, if an action needs
    /// them: [`IntakePolicy::needs_changed_keys`](super::policy::IntakePolicy::needs_changed_keys).
    pub changed: Vec<Key>,
}

impl Act {
    /// Whether it only prepares an action.
    #[must_use]
    pub fn is_preparation(&self) -> bool {
        self.extent == Extent::Prepare
    }

    /// Whether it must not be sent any more.
    #[must_use]
    pub fn is_late(&self, now: Moment) -> bool {
        self.extent == Extent::Send && self.before.is_some_and(|before| now >= before)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_is_sent_can_be_late() {
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let act = |extent, before| Act {
            rule: RuleId(0),
            digest: Digest([1; 32]),
            fresh_after: None,
            extent,
            lenient: false,
            at: at(1),
            before,
            attempt: 1,
            restart: false,
            changed: Vec::new(),
        };
        let sent = act(Extent::Send, Some(at(5)));
        assert!(!sent.is_late(at(4)) && sent.is_late(at(5)));
        assert!(!act(Extent::Send, None).is_late(at(5)));
        for extent in [Extent::Prepare, Extent::LookForFresh, Extent::LookForRestart] {
            assert!(!act(extent, Some(at(5))).is_late(at(5)), "{extent:?}");
        }
    }
}
