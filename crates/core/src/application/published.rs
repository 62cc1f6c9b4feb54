//! An application that reads what podnudge publishes: what it can read, what it can be rolled back to, and what is good.

use super::conclusion::{Save, Unfinished};
use super::generations::{Generations, Left};
use super::{Application, Reads};
use crate::clock::{Moment, Now, UnixTime};
use crate::intake::OnDisk;
use crate::rollout::Direction;
use crate::snapshot::Digest;

impl Application {
    /// What is published, where it reads that.
    pub(super) fn published(&self) -> Option<&Generations> {
        match &self.reads {
            Reads::Volumes(_) => None,
            Reads::Published(generations) => Some(generations),
        }
    }

    /// The published digest, where podnudge publishes.
    pub(crate) fn digest_published(&self) -> Option<Digest> {
        self.published()?.current().map(|current| current.digest)
    }

    /// Since when an application that starts reads this content.
    pub(crate) fn readable_since(&self, content: OnDisk) -> Moment {
        let current = self.published().and_then(Generations::current);
        current.map_or(content.committed_at, |current| current.at)
    }

    /// Whether it has nothing to read until podnudge publishes.
    pub(crate) fn is_empty(&self) -> bool {
        self.published().is_some_and(Generations::is_empty)
    }

    /// Whether this is the last good digest.
    pub(crate) fn is_known_good(&self, digest: Digest) -> bool {
        self.published().and_then(Generations::good) == Some(digest)
    }

    /// Whether this digest must be published before it can read it.
    pub(crate) fn needs_publish(&self, digest: Digest) -> bool {
        self.published().is_some_and(|generations| generations.needs_publish(digest))
    }

    /// The digest to which a rollout of `from` can be rolled back.
    pub(crate) fn roll_back_to(&self, from: Digest) -> Option<Digest> {
        self.published()?.roll_back_to(from)
    }

    /// The content and direction of the rollback of `failed`, if a good generation exists.
    pub(crate) fn plan_rollback(
        &self,
        failed: OnDisk,
        after_restart: bool,
    ) -> Option<(OnDisk, Direction)> {
        let good = self.roll_back_to(failed.digest)?;
        let direction = Direction::Back { failed: failed.digest, after_restart };
        Some((OnDisk { digest: good, ..failed }, direction))
    }

    /// What an earlier podnudge has published and left unfinished.
    pub(crate) fn unfinished(&self, now: Now) -> Option<Unfinished> {
        let generations = self.published()?;
        let current = generations.current()?;
        let committed = UnixTime(now.wall.0.saturating_sub(now.mono.since(current.at)));
        let content = OnDisk { digest: current.digest, committed, committed_at: current.at };
        match self.verdicts.quarantine_reason(current.digest) {
            Some(_) => {
                generations.roll_back_to(current.digest).map(|_| Unfinished::RollBack(content))
            }
            None => generations.is_unproven().then_some(Unfinished::Proof(content)),
        }
    }

    /// The digest was published: from now on it may read it when it starts.
    pub(crate) fn published_now(&mut self, now: Moment, digest: Digest) {
        if let Reads::Published(generations) = &mut self.reads {
            generations.published(now, digest);
            self.running.forget();
            self.verdicts.release(digest);
        }
    }

    /// Publishing failed, perhaps after the swap. `current` is what it now reads, if that is known. Returns whether it
    /// reads `digest`.
    pub(crate) fn publication_failed(
        &mut self,
        now: Moment,
        digest: Digest,
        current: Option<Digest>,
    ) -> bool {
        let Reads::Published(generations) = &mut self.reads else { return false };
        let left = generations.publication_failed(now, digest, current);
        if left != Left::Before {
            self.running.forget();
        }
        left == Left::New
    }

    /// A resync found this digest published. Returns whether podnudge had published another one: that publication is
    /// lost.
    pub(crate) fn found_published(&mut self, digest: Option<Digest>) -> bool {
        let Reads::Published(generations) = &mut self.reads else { return false };
        let is_lost = generations.found(digest);
        if is_lost {
            self.running.forget();
            self.verdicts.forget_given_up();
            self.trial = None;
        }
        is_lost
    }

    /// The digest has passed its trial, or needs none: it is good.
    pub(super) fn survived(&mut self, digest: Digest) -> Save {
        let evidence = self.running.last_evidence();
        match &mut self.reads {
            Reads::Volumes(_) => Save::Nothing,
            Reads::Published(generations) => {
                Save::good(digest, evidence, generations.approve(digest, evidence))
            }
        }
    }
}
