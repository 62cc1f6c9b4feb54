//! Content that failed on a replica, here or elsewhere, as long as this one has or wants a slot; and what the others are
//! still to be told.
//!
//! That content failed here is saved until [`Event::HaltWritten`](crate::event::Event::HaltWritten): the first Lease does
//! not name it yet, and the other replicas would still act with it. The next podnudge tells them again.

use crate::event::SlotState;
use crate::memory::{Memory, SavedHalt};
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The digests that failed on a replica.
#[derive(Debug, Default)]
pub(super) struct Halts {
    /// The digests that failed on another replica, by the last answer about each.
    elsewhere: Vec<(Digest, Reason)>,
    /// Content that failed, here or elsewhere, and what became of it here.
    doubted: Option<(Digest, Doubt)>,
    /// What the other replicas are still to be told, the oldest first.
    untold: Vec<Untold>,
}

/// What became of content that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// The content failed here. That the application runs again does not mean that it works: it may end again.
    Failed,
    /// A person has it tried here.
    Tried,
    /// The content was rolled out here when a person had it tried, and has not failed since.
    Works,
}

#[derive(Debug)]
struct Untold {
    halt: SavedHalt,
    /// Whether this podnudge has sent the command.
    is_sent: bool,
}

/// What failed, and whether it works after all.
impl Halts {
    /// Why this digest failed on another replica, if it is known to have failed there.
    pub(super) fn elsewhere(&self, digest: Digest) -> Option<&Reason> {
        self.elsewhere.iter().find(|(halted, _)| *halted == digest).map(|(_, reason)| reason)
    }

    /// Takes what is known of the slot, which was asked for to act with this digest.
    pub(super) fn told(&mut self, state: &SlotState, claimed: Option<Digest>) {
        let told_of = match state {
            SlotState::Halted(digest, _) => Some(*digest),
            // Only whoever wants to act is told that a digest failed.
            _ => claimed,
        };
        self.elsewhere.retain(|(digest, _)| Some(*digest) != told_of);
        if let SlotState::Halted(digest, reason) = state {
            self.elsewhere.push((*digest, reason.clone()));
            self.elsewhere.drain(..self.elsewhere.len().saturating_sub(Memory::MOST_HALTS));
        }
    }

    /// Records that content failed here: the other replicas are to be told.
    pub(super) fn failed(&mut self, digest: Digest, reason: Reason) {
        self.doubted = Some((digest, Doubt::Failed));
        self.remove_untold(digest);
        self.untold.push(Untold { halt: SavedHalt { digest, reason }, is_sent: false });
        self.untold.drain(..self.untold.len().saturating_sub(Memory::MOST_HALTS));
    }

    /// A person wants this digest although it failed on another replica.
    pub(super) fn try_again(&mut self, digest: Digest) {
        self.elsewhere.retain(|(halted, _)| *halted != digest);
        self.doubted = Some((digest, Doubt::Tried));
    }

    /// A person has this digest rolled out here.
    pub(super) fn triggered(&mut self, digest: Digest) {
        if self.doubted == Some((digest, Doubt::Failed)) {
            self.doubted = Some((digest, Doubt::Tried));
        }
    }

    /// Records that a digest was rolled out.
    pub(super) fn rolled_out(&mut self, digest: Digest) {
        if self.doubted == Some((digest, Doubt::Tried)) {
            self.doubted = Some((digest, Doubt::Works));
        }
    }

    /// Takes the digest that failed and works after all, of which the others need not be told any more.
    pub(super) fn take_works_after_all(&mut self) -> Option<Digest> {
        let (digest, _) = self.doubted.take_if(|(_, doubt)| *doubt == Doubt::Works)?;
        self.remove_untold(digest);
        Some(digest)
    }

    /// The slot is for other content now.
    pub(super) fn forget_doubt(&mut self) {
        self.doubted = None;
    }

    /// No slot is wanted any more: what is known may get old.
    pub(super) fn forget_known(&mut self) {
        (self.elsewhere, self.doubted) = (Vec::new(), None);
    }
}

/// Telling the others.
impl Halts {
    /// Takes what an earlier podnudge has saved.
    pub(super) fn restore(&mut self, saved: Vec<SavedHalt>) {
        self.untold = saved.into_iter().map(|halt| Untold { halt, is_sent: false }).collect();
    }

    /// The other replicas know of this digest, or need not know.
    pub(super) fn remove_untold(&mut self, digest: Digest) {
        self.untold.retain(|untold| untold.halt.digest != digest);
    }

    /// Whether a command is to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.untold.iter().any(|untold| !untold.is_sent)
    }

    /// Takes the halts whose command is to be sent now.
    pub(super) fn take_unsent(&mut self) -> Vec<SavedHalt> {
        let unsent = self.untold.iter_mut().filter(|untold| !untold.is_sent);
        let send = |untold: &mut Untold| {
            untold.is_sent = true;
            untold.halt.clone()
        };
        unsent.map(send).collect()
    }

    /// What to save.
    pub(super) fn saved(&self) -> Vec<SavedHalt> {
        self.untold.iter().map(|untold| untold.halt.clone()).collect()
    }
}
