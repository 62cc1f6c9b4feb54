//! Content that failed here, by digest: it is not rolled out again without a trigger. What its checks reject, `intake/`
//! knows, and what failed on other replicas, `permit/`.

use crate::event::Published;
use crate::memory::Failed;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// The digests that failed with this application.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// Content that was published and did not work, with the reasons; oldest first.
    quarantined: Vec<(Digest, Reason)>,
    /// Content that did not reach the application: all attempts failed.
    given_up: Option<Failed>,
}

impl Verdicts {
    /// Takes what the record of the publish directory has.
    pub(super) fn found(quarantined: Vec<(Digest, Reason)>) -> Self {
        Self { quarantined, given_up: None }
    }

    /// Whether this content is not to be rolled out without a trigger.
    pub(crate) fn are_against(&self, digest: Digest) -> bool {
        self.quarantine_reason(digest).is_some()
            || self.given_up.as_ref().is_some_and(|given_up| given_up.digest == digest)
    }

    /// Why this digest is quarantined, if it is.
    pub(crate) fn quarantine_reason(&self, digest: Digest) -> Option<&Reason> {
        self.quarantined.iter().find(|(failed, _)| *failed == digest).map(|(_, reason)| reason)
    }

    /// Quarantines a digest. Beyond the limit, the oldest entries are dropped.
    pub(crate) fn quarantine(&mut self, digest: Digest, reason: Reason) {
        self.release(digest);
        self.quarantined.push((digest, reason));
        let surplus = self.quarantined.len().saturating_sub(Published::MOST_QUARANTINED);
        self.quarantined.drain(..surplus);
    }

    /// Releases a digest from quarantine.
    pub(crate) fn release(&mut self, digest: Digest) {
        self.quarantined.retain(|(failed, _)| *failed != digest);
    }

    pub(crate) fn give_up(&mut self, failed: Failed) {
        self.given_up = Some(failed);
    }

    pub(crate) fn given_up(&self) -> Option<&Failed> {
        self.given_up.as_ref()
    }

    /// Whether this content was given up, or the content that was to be rolled back to it.
    pub(crate) fn have_given_up(&self, digest: Digest) -> bool {
        let given_up = self.given_up.as_ref();
        given_up.is_some_and(|one| [one.digest, one.rolled_out].contains(&digest))
    }

    /// Forgets content that was given up, because this other content is on its way.
    pub(crate) fn forget_given_up_for(&mut self, newer: Digest) {
        self.given_up.take_if(|given_up| given_up.digest != newer);
    }

    /// Forgets content that was given up.
    pub(super) fn forget_given_up(&mut self) {
        self.given_up = None;
    }
}
