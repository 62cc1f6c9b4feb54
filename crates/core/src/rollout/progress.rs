//! The inputs, the context and the results of a rollout.

use crate::clock::{Moment, Now};
use crate::event::{Acted, Inspection, Publication, Verified};
use crate::evidence::Evidence;
use crate::fact::Fact;
use crate::kubelet::StartDelay;
use crate::permit::{Answer, Drain, Left};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// An input of a rollout.
#[derive(Debug)]
pub(crate) enum Input {
    /// Time has passed.
    Tick,
    /// `is_swapped`: publishing failed, but the application already reads the new generation.
    Published {
        publication: Publication,
        is_swapped: bool,
    },
    Acted(Acted),
    Verified(Verified),
    Inspected(Inspection),
    /// A target process has ended.
    Ended,
    /// What podnudge has found about the Services of the pod.
    Left(Left),
    /// The content cannot be rolled out now.
    ContentGone,
    /// The slot for the next action was lost.
    SlotLost,
    /// A process that has read this content ended during another rule's rollout.
    EndedElsewhere(Reason),
}

/// What a rollout needs to know about its rule.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a circumstance of its own")]
pub(crate) struct Context<'a> {
    pub(crate) now: Now,
    pub(crate) policy: &'a Policy,
    /// Whether the content must be published before the application can read it.
    pub(crate) needs_publish: bool,
    /// Whether the application reads the volumes: then a target that started after the content was
    /// in place runs it.
    pub(crate) reads_volumes: bool,
    /// A target that starts after this time reads the content.
    pub(crate) readable_since: Moment,
    /// The digest to roll back to, if a rollback is possible and allowed.
    pub(crate) roll_back_to: Option<Digest>,
    /// When the minimum time since the last action is over.
    pub(crate) next_action: Option<Moment>,
    /// When the budget allows the next restart.
    pub(crate) restart_at: Moment,
    /// Whether the pod is out of its Services for this rule.
    pub(crate) drain: &'a Drain,
    /// Until when the endpoints on the nodes may be old, because the API server was away.
    pub(crate) late_until: Option<Moment>,
    /// Whether its action may be sent, as far as the other replicas are concerned.
    pub(crate) permit: Answer<'a>,
    /// Whether an action with known good content needs no permission of the other replicas: it interrupts nothing, or
    /// the application is interrupted already, by an action of the rule.
    pub(crate) may_go_back: bool,
    /// Whether an action of it has interrupted the application, as far as is known.
    pub(crate) has_interrupted: bool,
    /// How long the kubelet waits until it starts the target's container again, if that has ended.
    pub(crate) start_delay: Option<StartDelay>,
    /// Whether a rollback is possible and left to the next podnudge, because this one is stopping.
    pub(crate) rolls_back_later: bool,
    /// Whether this content may have ended the target: no other rule has delivered newer content to
    /// it.
    pub(crate) may_be_at_fault: bool,
}

impl Context<'_> {
    /// Whether an action of the rollout has interrupted the application, and can be rolled back.
    pub(super) fn can_undo_interruption(&self) -> bool {
        self.has_interrupted && self.roll_back_to.is_some()
    }
}

/// A side effect that the rule performs for its rollout.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Report(Fact),
    Publish,
    Act,
    /// The Services are asked whether they have the pod.
    AskServices,
    /// The pod leaves its Services. `is_watched`: podnudge looks whether it does.
    Drain {
        is_watched: bool,
    },
    Verify,
    Inspect,
    /// Nothing was sent.
    NotSent,
    /// An action may have interrupted the application.
    Interrupted,
    /// Something was sent or accepted; what the application runs is unknown.
    Delivered,
    /// The target has read the content at its start, and is being verified.
    Fresh,
    Restarted,
    /// The kubelet has restarted the pod, for which an earlier podnudge has ended and counted in the budget.
    PodRestarted,
    /// An attempt failed, and another one follows.
    Retried,
    /// The last attempt failed.
    Failed,
    Refused,
    /// What the application runs is not known any more.
    Unknown,
    Tripped,
    /// The target ended just after the action for this digest.
    Halt(Digest, Reason),
}

/// How a rollout ends.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The content was rolled out. `is_fresh`: the target had read it at its start.
    Applied { is_fresh: bool, evidence: Evidence },
    /// The content is rolled back: a process that could have read it failed.
    RollBack(Reason),
    /// All attempts failed.
    GaveUp(Reason),
    /// The action has no effect in this pod, which says nothing about the content.
    Ineffective(Reason),
    /// The content could not be published. The rollout that it was to supersede continues:
    /// [`Rollout::take_superseded`](super::Rollout::take_superseded).
    Unpublished(Publication),
    /// Newer content superseded the rollout.
    Superseded,
}

/// The result of an input.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) effects: Vec<Effect>,
    pub(crate) outcome: Option<Outcome>,
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
