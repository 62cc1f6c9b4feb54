//! What failed on a replica, as far as the claim is concerned, and what the others are still to be told. Pure.

use super::halt::Halt;
use super::lease::Lease;
use super::notice::Notice;
use crate::clock::Moment;
use crate::memory::Memory;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The digests that failed.
#[derive(Debug, Default)]
pub(super) struct Halting {
    /// The digest that was not among those that failed when the slot was held already.
    checked: Option<Digest>,
    /// The digest to use although it failed, here or on another replica, and what was said of it then.
    doubted: Option<(Digest, Option<Halt>)>,
    /// Why the wanted digest must not be used, and when to read the first Lease again.
    halted: Option<(Reason, Moment)>,
    /// What is still to be written, the oldest first.
    notices: Vec<Notice>,
    /// The digests whose failure the first Lease names, and that were not taken yet.
    written: Vec<Digest>,
    /// When to write it again: the server has answered, and not kept it.
    tell_at: Option<Moment>,
}

/// What the first Lease says of a digest.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The digest failed on another replica.
    Failed(Reason),
    /// Nothing forbids the digest.
    Nothing,
}

/// Whether the digest that a slot is wanted for may be used.
impl Halting {
    pub(super) fn is_checked(&self, digest: Digest) -> bool {
        self.checked == Some(digest)
    }

    /// The digest may be used: it is not among those that failed.
    pub(super) fn check(&mut self, digest: Digest) {
        self.checked = Some(digest);
    }

    pub(super) fn forget_check(&mut self) {
        self.checked = None;
    }

    pub(super) fn is_halted(&self) -> bool {
        self.halted.is_some()
    }

    /// Why the wanted digest must not be used, and when to read the first Lease again.
    pub(super) fn halted(&self) -> Option<&(Reason, Moment)> {
        self.halted.as_ref()
    }

    /// The wanted digest must not be used. The first Lease is read again at `read_at`.
    pub(super) fn halt(&mut self, reason: Reason, read_at: Moment) {
        self.halted = Some((reason, read_at));
    }

    /// The wanted digest may be used after all. Returns whether it was halted.
    pub(super) fn end_halt(&mut self) -> bool {
        self.halted.take().is_some()
    }

    /// Nothing is wanted any more.
    pub(super) fn forget_claim(&mut self) {
        (self.checked, self.doubted, self.halted) = (None, None, None);
    }
}

/// Content that failed, and is used all the same.
impl Halting {
    /// The digest is used although it failed.
    pub(super) fn doubt(&mut self, digest: Digest, halt: Option<Halt>) {
        self.doubted = Some((digest, halt));
    }

    pub(super) fn forget_doubt(&mut self) {
        self.doubted = None;
    }

    /// The doubted digest works after all.
    pub(super) fn clear(&mut self, digest: Digest) {
        if let Some((_, Some(halt))) = self.doubted.take_if(|(doubted, _)| *doubted == digest) {
            self.notify(Notice::Clear(halt));
        }
    }

    /// Whether the digest failed on another replica, by the first Lease.
    pub(super) fn judge(&mut self, digest: Digest, first: Option<&Lease>) -> Verdict {
        let halts = first.map(Lease::halts).unwrap_or_default();
        let halt = halts.into_iter().find(|halt| halt.digest == digest);
        let mut halt = halt.filter(|halt| !self.notices.contains(&Notice::Clear(halt.clone())));
        if let Some((_, known)) = self.doubted.as_mut().filter(|(it, _)| *it == digest) {
            *known = halt.take().or(known.take());
        }
        halt.map_or(Verdict::Nothing, |halt| Verdict::Failed(halt.reason()))
    }
}

/// What the others are told.
impl Halting {
    pub(super) fn notify(&mut self, notice: Notice) {
        self.notices.retain(|other| other.digest() != notice.digest());
        self.notices.push(notice);
        self.tell_at = None;
        self.notices.drain(..self.notices.len().saturating_sub(Memory::MOST_HALTS));
    }

    /// What is to be written next, and when.
    pub(super) fn next_notice(&self, now: Moment) -> Option<(Moment, &Notice)> {
        let notice = self.notices.first()?;
        Some((self.tell_at.unwrap_or(now).max(now), notice))
    }

    /// The server has not kept it: to be written again then.
    pub(super) fn tell_again(&mut self, at: Moment) {
        self.tell_at = Some(at);
    }

    /// The first Lease was seen. Returns whether the others know all.
    pub(super) fn seen(&mut self, first: &Lease) -> bool {
        let told = self.notices.extract_if(.., |notice| notice.is_told(first));
        self.written.extend(told.filter_map(|notice| notice.halted()));
        if self.notices.is_empty() {
            self.tell_at = None;
        }
        self.notices.is_empty()
    }

    pub(super) fn take_written(&mut self) -> Vec<Digest> {
        std::mem::take(&mut self.written)
    }

    /// Whether something is still to be written that the server may keep.
    pub(super) fn is_telling(&self) -> bool {
        !self.notices.is_empty() && self.tell_at.is_none()
    }
}
