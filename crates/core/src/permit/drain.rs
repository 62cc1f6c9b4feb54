//! Whether the pod is out of its Services for an action of a rule, and since when.
//!
//! Where the Services are named, podnudge first asks whether they have the pod at all: while that is not known, the pod
//! stays in. It is out when looks at the beginning and at the end of `wait` have found it so. These are the looks by
//! which a slot is kept until the pod serves again (`looks.rs`).
//!
//! A rollout whose action needs a drain first has it prepared (`Extent::Prepare`, `rollout/drain.rs`): the target is
//! found, and whether it may be signalled. Only then does `/serving` answer 503, and the rollout waits: in
//! `WaitFor::Drain`, or in `WaitFor::Services` where they are named. `rollout/table.rs` says for each step whether the
//! pod stays out: a wait for a retry puts it back, and so does the end of the rollout, unless another one begins at
//! once, which takes the drain over. Where the application reads the volumes, so does content that is replaced or
//! rejected meanwhile (`Input::ContentGone`). After a drain that came to nothing, the next one waits for as long as the
//! slot may be kept for it, and for `retry.max` more.

use std::time::Duration;

use super::looks::{Finding, Looks};
use crate::clock::Moment;
use crate::command::PodIs;
use crate::event::PodLook;
use crate::reason::Reason;

/// Whether the pod is out of its Services for a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Drain {
    /// The pod is in its Services: `/serving` answers 200.
    #[default]
    None,
    /// `/serving` answers 200, and the Services are asked whether they have the pod.
    Asking(Looks),
    /// `/serving` answers 200, and the Services have the pod.
    Listed,
    /// `/serving` has answered 503 since then, and nobody looks.
    Unwatched { since: Moment },
    /// `/serving` has answered 503 since then. The Services have not had the pod since `out`.
    Leaving { since: Moment, out: Option<Moment>, looks: Looks },
    /// `/serving` has answered 503 since then, and the Services have let the pod go.
    Gone { since: Moment },
}

/// What a look has changed.
#[derive(Debug)]
pub(crate) enum Left {
    /// The drain has got on.
    Further,
    /// The drain has not got on, for this reason.
    NotYet(Reason),
    /// Whether the Services have the pod will not be known.
    Unknown(Reason),
}

impl Drain {
    /// The Services are asked whether they have the pod.
    pub(super) fn ask(now: Moment) -> Self {
        Self::Asking(Looks::new(now))
    }

    /// `/serving` answers 503 from now on. `is_watched`: whether to look if the Services follow.
    pub(super) fn begin(now: Moment, is_watched: bool) -> Self {
        Self::restored(now, now, is_watched)
    }

    /// The drain of an earlier podnudge, which began at `since`.
    pub(super) fn restored(since: Moment, now: Moment, is_watched: bool) -> Self {
        let since = since.min(now);
        if is_watched {
            Self::Leaving { since, out: None, looks: Looks::new(now) }
        } else {
            Self::Unwatched { since }
        }
    }

    /// Another rollout needs it from now on, with all of its time.
    pub(super) fn taken_over(&mut self, now: Moment) {
        if let Self::Leaving { out: None, looks, .. } = self {
            *looks = Looks::new(now);
        }
    }

    /// Since when `/serving` has answered 503.
    pub(crate) fn began(&self) -> Option<Moment> {
        match self {
            Self::None | Self::Asking(_) | Self::Listed => None,
            Self::Unwatched { since } | Self::Leaving { since, .. } | Self::Gone { since } => {
                Some(*since)
            }
        }
    }

    /// The look to begin now, if one is due: the one after `last`.
    pub(super) fn take_look(&mut self, now: Moment, last: &mut u32) -> Option<(u32, PodIs)> {
        match self {
            Self::Asking(looks) => Some((looks.take_due(now, last)?, PodIs::Listed)),
            Self::Leaving { looks, .. } => Some((looks.take_due(now, last)?, PodIs::OutOfServices)),
            _ => None,
        }
    }

    /// Takes the answer to a look, if it is to this one. `share` differs between replicas. `wait`: how long the
    /// pod is out before the action, which is not before `late_until`.
    pub(super) fn looked(
        &mut self,
        now: Moment,
        (number, look): (u32, PodLook),
        share: u32,
        (wait, late_until): (Duration, Option<Moment>),
    ) -> Option<Left> {
        let end = |out: Moment| out.after(wait).max(late_until.unwrap_or_default());
        match self {
            Self::Asking(looks) if looks.awaits(number) => Some(match look {
                PodLook::Yes => {
                    *self = Self::Listed;
                    Left::Further
                }
                PodLook::No(reason)
                | PodLook::Unlisted(reason)
                | PodLook::Unknown(reason, _)
                | PodLook::Refused(reason) => Left::Unknown(reason),
            }),
            Self::Leaving { since, out, looks } if looks.awaits(number) => {
                if matches!(look, PodLook::No(_)) {
                    *out = None;
                }
                Some(match looks.answered(now, look, share, Duration::MAX) {
                    Finding::Yes if now >= end(*out.get_or_insert(now)) => {
                        *self = Self::Gone { since: *since };
                        Left::Further
                    }
                    Finding::Yes => {
                        looks.look_at(end(out.unwrap_or(now)));
                        Left::Further
                    }
                    Finding::LookAgain => Left::NotYet(looks.reason()?.clone()),
                    Finding::Unknown(reason) => Left::Unknown(reason),
                })
            }
            _ => None,
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match self {
            Self::Asking(looks) | Self::Leaving { looks, .. } => looks.next(),
            _ => None,
        }
    }
}
