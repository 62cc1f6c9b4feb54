//! What a rollout is told, what it needs to know for that, and what comes of it.

use crate::clock::{Moment, Now};
use crate::core::event::{Acted, Inspection, Publication, Verified};
use crate::core::fact::Fact;
use crate::core::policy::Policy;
use crate::core::status::Delivery;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// What a rollout is told.
#[derive(Debug)]
pub(in crate::core) enum Input {
    /// Its wait may be over.
    Tick,
    /// `is_turned`: the application reads the new generation, although publishing it failed.
    Published {
        publication: Publication,
        is_turned: bool,
    },
    Acted(Acted),
    Verified(Verified),
    Inspected(Inspection),
    /// A process that was acted on has ended.
    Ended,
    /// A process that read this content has ended in another rule's rollout.
    EndedElsewhere(Reason),
}

/// What a rollout has to know of its rule.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a circumstance of its own")]
pub(in crate::core) struct Context<'a> {
    pub(in crate::core) now: Now,
    pub(in crate::core) policy: &'a Policy,
    /// Whether the content has to be published before the application can read it.
    pub(in crate::core) lacks: bool,
    /// Whether the application reads what is on disk: a target that started after the content was
    /// in place runs it.
    pub(in crate::core) follows_disk: bool,
    /// Since when a target that starts reads it.
    pub(in crate::core) readable_since: Moment,
    /// Where it can be rolled back to, if it may be.
    pub(in crate::core) roll_back_to: Option<Digest>,
    /// When the last action was.
    pub(in crate::core) last_action: Option<Moment>,
    /// When the budget allows the next restart.
    pub(in crate::core) restart_at: Moment,
    /// Whether podnudge is ending.
    pub(in crate::core) is_stopping: bool,
    /// Whether no other rule has given newer content to the same target, which may be to blame.
    pub(in crate::core) is_suspect: bool,
}

/// What is to be done for a rollout.
#[derive(Debug, PartialEq)]
pub(in crate::core) enum Effect {
    Report(Fact),
    Publish,
    Act,
    Verify,
    Inspect,
    /// Nothing was sent.
    NotSent,
    /// Something was sent or answered: only a proof tells what runs.
    Delivered(Delivery),
    /// The target read it by itself, and is verified.
    Fresh,
    Restarted,
    /// An attempt failed.
    Failed,
    Refused,
    Tripped,
}

/// How a rollout ends.
#[derive(Debug)]
pub(in crate::core) enum Outcome {
    /// The application runs it. `is_fresh`: it had read it by itself.
    Applied { is_fresh: bool },
    /// It failed, by what a process that could have read it did, and is rolled back.
    RollBack(Reason),
    /// All attempts failed.
    GaveUp(Reason),
    /// It could not be published. What it was to take the place of goes on:
    /// [`Rollout::replaced`](super::Rollout::replaced).
    Unpublished(Publication),
    /// Newer content takes its place.
    Superseded,
}

/// What came of an input.
#[derive(Debug, Default)]
pub(in crate::core) struct Progress {
    pub(in crate::core) effects: Vec<Effect>,
    pub(in crate::core) outcome: Option<Outcome>,
}

impl Progress {
    pub(super) fn report(&mut self, fact: Fact) {
        self.effects.push(Effect::Report(fact));
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}
