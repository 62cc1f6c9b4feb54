//! Telling the other replicas about content that failed here, so that they do not act with it.
//!
//! They are told only if there is evidence against the content (`Rollout::is_evidence_for_others`): the application had
//! it, and then ended, rejected it or gave no proof; not if nothing reached it. For `Command::Halt`, `run/api/slots.rs`
//! first reads the own Pod: the application of a pod that is being deleted ends in any case. Then the digest and the
//! reason are written to the first Lease (`slots/halt.rs`), and the gates of the other replicas hold the content.
//! Until the API server has it (`Event::HaltWritten`), it is saved, and the next podnudge sends the command again; a
//! podnudge that ends waits for it, at most for `grace`.

use std::collections::VecDeque;

use super::{Rollout, Rule};
use crate::command::Command;
use crate::memory::SavedHalt;
use crate::reason::Reason;
use crate::snapshot::Digest;

impl Rule {
    /// Tells the other replicas that content failed here, if they share slots.
    pub(super) fn halt(&mut self, digest: Digest, reason: &Reason) {
        // When the pod is deleted, its application ends, whatever it has read.
        if self.policy.permit.slot.is_some() && !self.is_stopping() {
            self.permit.failed(digest, reason.clone());
        }
    }

    /// Tells the other replicas that a rollout failed, if that is evidence against its content.
    pub(super) fn halt_if_evident(&mut self, rollout: &Rollout, reason: &Reason) {
        if rollout.is_evidence_for_others() {
            self.halt(rollout.digest(), reason);
        }
    }

    /// Tells the other replicas what failed here. That is saved first: podnudge may be killed before it is
    /// written.
    pub(super) fn tell_halts(&mut self, out: &mut VecDeque<Command>) {
        if self.permit.has_untold_halts() {
            self.remember(out);
        }
        for SavedHalt { digest, reason } in self.permit.take_untold_halts() {
            out.push_back(Command::Halt(self.id, digest, reason));
        }
    }

    /// The other replicas know that this digest failed here.
    pub(crate) fn halt_written(&mut self, digest: Digest) {
        self.permit.halt_written(digest);
    }

    /// The target ended, and no rollout is in progress.
    pub(super) fn ended_in_bake(&mut self) {
        // Another rule may have restarted the target.
        let is_excused = self.neighbours.busy.is_some() || self.neighbours.newer;
        if let Some(digest) = self.permit.on_trial().filter(|_| !is_excused) {
            let reason = Reason::new("the target ended while the content was on trial");
            self.halt(digest, &reason);
        }
    }
}
