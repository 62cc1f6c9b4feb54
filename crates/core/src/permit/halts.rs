//! The digests that failed here, and that the first Lease does not name yet: the other replicas would still act
//! with them. They are saved until [`Event::HaltWritten`](crate::event::Event::HaltWritten), so that the next
//! podnudge tells them again.

use crate::memory::{Memory, SavedHalt};
use crate::reason::Reason;
use crate::snapshot::Digest;

/// What the other replicas are still to be told, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Halts(Vec<Pending>);

#[derive(Debug)]
struct Pending {
    halt: SavedHalt,
    /// Whether this podnudge has sent the command.
    is_sent: bool,
}

impl Halts {
    /// Takes what an earlier podnudge has saved.
    pub(super) fn restored(saved: Vec<SavedHalt>) -> Self {
        Self(saved.into_iter().map(|halt| Pending { halt, is_sent: false }).collect())
    }

    /// This digest failed here.
    pub(super) fn add(&mut self, digest: Digest, reason: Reason) {
        self.remove(digest);
        self.0.push(Pending { halt: SavedHalt { digest, reason }, is_sent: false });
        self.0.drain(..self.0.len().saturating_sub(Memory::MOST_HALTS));
    }

    /// The other replicas know of this digest, or need not know.
    pub(super) fn remove(&mut self, digest: Digest) {
        self.0.retain(|pending| pending.halt.digest != digest);
    }

    /// Whether a command is to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.0.iter().any(|pending| !pending.is_sent)
    }

    /// Those whose command is to be sent now.
    pub(super) fn take_unsent(&mut self) -> Vec<SavedHalt> {
        let unsent = self.0.iter_mut().filter(|pending| !pending.is_sent);
        let send = |pending: &mut Pending| {
            pending.is_sent = true;
            pending.halt.clone()
        };
        unsent.map(send).collect()
    }

    /// What to save.
    pub(super) fn saved(&self) -> Vec<SavedHalt> {
        self.0.iter().map(|pending| pending.halt.clone()).collect()
    }
}
