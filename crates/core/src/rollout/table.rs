//! What the rest of the rule asks about a rollout: one row for each step, and one column for each question. Nothing
//! outside of the rollout knows its steps.
//!
//! A candidate supersedes a rollout that waits (for a retry, the end of a refusal, its target, a late proof) as soon as
//! the candidate's own gate is open; until then the rollout continues. Where the application reads the volumes, a retry
//! would deliver the newer content, so the rollout ends as soon as the candidate has passed its checks
//! (`Rule::schedule`). While a command of the rollout is unanswered, and within `alive-for` after an action, the gate
//! is closed. If the candidate then cannot be published, the old rollout continues where it was, and the candidate
//! waits for `retry.max`, or for `retry.first` if the volume has changed meanwhile.

use super::progress::Context;
use super::{Direction, FoundBy, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::gate::Supersedable;
use crate::permit::Nearness;
use crate::reason::Reason;
use crate::snapshot::Digest;
use crate::status::State;

/// What the rollout does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// A command is in progress that must not be interrupted.
    Busy,
    /// The rollout waits for the pod to leave its Services. Without its content, the drain ends.
    Drains,
    /// The rollout waits between two attempts: the application can read what is published.
    Retries,
    /// The rollout waits for something else.
    Waits,
}

/// Where the pod is meanwhile, if it was taken out of its Services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pod {
    /// The pod stays out of its Services.
    Out,
    /// The pod goes back into its Services.
    In,
}

/// What becomes of the slot that it has. Besides, the slot is kept as long as the pod is out of its Services, and
/// until it has recovered (`permit/used.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Kept,
    /// Kept if it needs none; otherwise given back, because the action is prepared first.
    KeptIfFree,
    /// Kept if an action has found that the target is absent. Otherwise the next poll only prepares the action.
    KeptIfActed,
    /// Nothing but the slot is missing.
    Wanted,
    GivenBack,
}

/// Whether the step ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Certain,
    /// The step ends unless its content is gone, or cannot be checked.
    WithContent,
    /// Whether the step ends depends on others.
    Uncertain,
}

/// When newer content takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Superseded {
    Now,
    /// Now; but the digest that is being rolled back, only after the rollback.
    ByOther,
    /// When the target has survived for long enough.
    WhenSurvived,
    /// When it has ended.
    Later,
}

/// The state that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always(State),
    /// `rolling-back` of a rollback.
    Forward(State),
}

#[derive(Debug, Clone, Copy)]
struct Row {
    activity: Activity,
    pod: Pod,
    slot: Slot,
    end: End,
    superseded: Superseded,
    shown: Shown,
}

impl Rollout {
    #[rustfmt::skip]
    fn row(&self) -> Row {
        use Activity::{Busy, Drains, Retries, Waits};
        use End::{Certain, Uncertain, WithContent};
        use Pod::{In, Out};
        use Shown::{Always, Forward};
        use Slot::{GivenBack, Kept, KeptIfActed, KeptIfFree, Wanted};
        use State as S;
        use Superseded::{ByOther, Later, Now, WhenSurvived};
        let row = |activity, pod, slot, end, superseded, shown| Row { activity, pod, slot, end, superseded, shown };
        match &self.step {
            Step::Verifying(_)                       => row(Busy,    Out, Kept,        Certain,     WhenSurvived, Forward(S::Verifying)),
            Step::Tripped { .. }                     => row(Waits,   In,  GivenBack,   Uncertain,   Now,          Always(S::Tripped)),
            Step::Publishing { .. }                  => row(Busy,    Out, Kept,        Certain,     Later,        Forward(S::Publishing)),
            Step::Acting(_) | Step::EndingPod { .. } => row(Busy,    Out, Kept,        Certain,     Later,        Forward(S::Acting)),
            Step::Waiting { what, .. } => match what {
                WaitFor::Start                     => row(Waits,   In,  KeptIfFree,  WithContent, ByOther, Forward(S::Waiting)),
                WaitFor::Target                    => row(Retries, Out, KeptIfActed, WithContent, ByOther, Forward(S::WaitingForTarget)),
                WaitFor::Retry                     => row(Retries, In,  GivenBack,   WithContent, ByOther, Forward(S::Backoff)),
                WaitFor::Restart                   => row(Retries, In,  Kept,        WithContent, ByOther, Forward(S::Backoff)),
                WaitFor::Slot                      => row(Retries, In,  Wanted,      WithContent, ByOther, Always(S::Held)),
                WaitFor::Budget                    => row(Waits,   In,  GivenBack,   WithContent, ByOther, Always(S::Held)),
                WaitFor::Refusal                   => row(Waits,   In,  GivenBack,   Uncertain,   Now,     Always(S::Refused)),
                WaitFor::Drain | WaitFor::Services => row(Drains,  Out, Kept,        Certain,     ByOther, Always(S::Draining)),
                WaitFor::Disruption                => row(Waits,   In,  GivenBack,   Uncertain,   ByOther, Always(S::Held)),
                WaitFor::Eviction                  => row(Waits,   In,  GivenBack,   Certain,     ByOther, Always(S::Held)),
                WaitFor::Deletion                  => row(Waits,   In,  Kept,        Certain,     ByOther, Forward(S::Acting)),
            },
        }
    }

    /// Whether a command is in progress that must not be interrupted.
    pub(crate) fn is_busy(&self) -> bool {
        self.row().activity == Activity::Busy
    }

    /// Whether it waits for an attempt, or for a process that has read the content.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_busy()
    }

    /// Whether it waits for the pod to leave its Services.
    pub(crate) fn is_draining(&self) -> bool {
        self.row().activity == Activity::Drains
    }

    /// Whether the application can read its content between two attempts.
    pub(crate) fn is_retrying(&self) -> bool {
        self.row().activity == Activity::Retries
    }

    /// Whether the pod stays out of its Services, if it is.
    pub(crate) fn keeps_pod_out(&self) -> bool {
        self.row().pod == Pod::Out
    }

    /// How near its next action is, as far as slots are concerned. `needs_permit`: of the other replicas.
    pub(crate) fn nearness(&self, needs_permit: bool) -> Nearness {
        let is_near = match self.row().slot {
            Slot::Wanted if needs_permit => return Nearness::Next,
            Slot::Wanted | Slot::Kept => true,
            Slot::KeptIfFree => !needs_permit,
            Slot::KeptIfActed => needs_permit && self.is_found_absent_by_action(),
            // The others may have to act until it goes on.
            Slot::GivenBack => false,
        };
        if is_near { Nearness::Near } else { Nearness::Far }
    }

    /// Whether it waits for something that may never come: a permission from outside of podnudge, a process that reads
    /// its content, or (`is_blocked`) that content or its checks.
    pub(crate) fn may_wait_forever(&self, is_blocked: bool) -> bool {
        match self.row().end {
            End::Certain => false,
            End::WithContent => is_blocked,
            End::Uncertain => true,
        }
    }

    /// When content with the digest `to` can supersede it.
    pub(crate) fn supersedable_by(&self, to: Digest, ctx: &Context<'_>) -> Supersedable {
        match (self.row().superseded, &self.step) {
            (Superseded::WhenSurvived, Step::Verifying(verification)) => {
                match verification.supersedable_at(ctx.policy) {
                    Some(at) if at <= ctx.now.mono && verification.has_failed_poll() => {
                        Supersedable::Now
                    }
                    at => Supersedable::Later(at.filter(|at| *at > ctx.now.mono)),
                }
            }
            (Superseded::ByOther, _) if self.failed_digest() == Some(to) => {
                Supersedable::Later(None)
            }
            (Superseded::Now | Superseded::ByOther, _) => Supersedable::Now,
            (Superseded::Later | Superseded::WhenSurvived, _) => Supersedable::Later(None),
        }
    }

    /// The state that is shown.
    pub(crate) fn state(&self) -> State {
        match (self.row().shown, self.direction) {
            (Shown::Forward(_), Direction::Back { .. }) => State::RollingBack,
            (Shown::Always(state) | Shown::Forward(state), _) => state,
        }
    }

    /// The time of the next action.
    pub(crate) fn next_attempt(&self, ctx: &Context<'_>) -> Option<Moment> {
        let Step::Waiting { what, at, .. } = &self.step else { return None };
        if *what == WaitFor::Services {
            return None;
        }
        Some(self.within_budget(*what, *at, ctx))
    }

    /// The reason that is shown.
    pub(crate) fn reason(&self) -> Option<&Reason> {
        match &self.step {
            Step::Waiting { reason, .. } | Step::Tripped { reason, .. } => Some(reason),
            Step::Verifying(verification) => verification.reason(),
            Step::Publishing { .. } | Step::Acting(_) | Step::EndingPod { .. } => None,
        }
    }

    /// Whether the target was found absent by an action, and not by its preparation since.
    pub(super) fn is_found_absent_by_action(&self) -> bool {
        self.absent.is_some_and(|absent| absent.found_by == FoundBy::Action)
    }

    /// Whether an earlier podnudge began it, and this one has not continued it.
    pub(crate) fn is_resumed(&self) -> bool {
        matches!(self.step, Step::Waiting { what: WaitFor::Start, .. })
    }
}
