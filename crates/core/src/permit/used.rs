//! What a slot is kept for after a drain or an action: until the rollout ends, the pod is Ready and in its Services
//! again, and `bake` is over.
//!
//! A rollout that may have interrupted the application and waits for what may never come (`Rollout::may_wait_forever`)
//! counts as ended. Where the application may not work, the first look at the pod is 10 s later: the condition Ready
//! follows the application only after some probes.

use std::time::Duration;

use super::looks::{Finding, Looks};
use crate::clock::Moment;
use crate::event::PodLook;
use crate::memory::{SavedSlot, SavedUse};
use crate::policy::SlotPolicy;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// How long the kubelet's probes may take to find that the application does not work, by default.
const PROBES: Duration = Duration::from_secs(10);

/// The longest time that is taken from a record in which nobody looks.
const LONGEST_UNSEEN: Duration = Duration::from_hours(1);

/// How a rollout that may have interrupted the application ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The application runs its content.
    Applied {
        /// The content, if the end of the target counts against it from now on.
        on_trial: Option<Digest>,
    },
    /// The rollout was given up or superseded, or does not go on.
    Unproven,
    /// As `Unproven`, and the application has ended. Where nobody looks, it is back after this time, as far as is known.
    Down { longest: Duration },
}

impl End {
    fn on_trial(self) -> Option<Digest> {
        match self {
            Self::Applied { on_trial } => on_trial,
            Self::Unproven | Self::Down { .. } => None,
        }
    }
}

/// What the slot is for, besides an action that is near.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Use {
    #[default]
    Nothing,
    /// An action for this digest may have interrupted the application, and its rollout has not ended.
    Interrupted(Digest),
    /// The rollout that may have interrupted the application has ended.
    Kept(Kept),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The digest that was acted with.
    digest: Digest,
    /// Whether the end of the target counts against it.
    is_on_trial: bool,
    until: Until,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Until {
    /// The pod is Ready, has been so since then, and still is at the end of `bake`.
    Ready(Looks, Option<Moment>),
    /// The pod, which was only taken out of its Services, serves again; at the latest then, as it may not have been
    /// Ready before.
    Serving(Looks, Moment),
    /// The time has passed: whether the pod is Ready does not matter, or is not known.
    Baked(Moment),
}

impl Until {
    /// `look_at`: before that, the condition Ready may not have followed the application. `unseen`: how long the
    /// application may not work where nobody looks.
    fn ended(now: Moment, look_at: Moment, unseen: Duration, policy: SlotPolicy) -> Self {
        if policy.awaits_readiness {
            Self::Ready(Looks::first_at(now, look_at), None)
        } else {
            Self::Baked(now.after(policy.bake.max(unseen)))
        }
    }

    /// What an earlier podnudge has left of `bake`, which ends at `at`.
    fn baked(now: Moment, at: Moment, policy: SlotPolicy) -> Self {
        if !policy.awaits_readiness {
            return Self::Baked(at.min(now.after(policy.bake.max(LONGEST_UNSEEN))));
        }
        let at = at.min(now.after(policy.bake));
        let since = Moment(at.0.saturating_sub(policy.bake));
        Self::Ready(Looks::first_at(now, at), Some(since))
    }

    /// The pod goes back into its Services, and nothing was sent.
    fn returned(now: Moment, policy: SlotPolicy) -> Self {
        Self::Serving(Looks::new(now), now.after(policy.returns_within()))
    }

    fn looks(&mut self) -> Option<&mut Looks> {
        match self {
            Self::Ready(looks, _) | Self::Serving(looks, _) => Some(looks),
            Self::Baked(_) => None,
        }
    }
}

impl Use {
    /// Takes what an earlier podnudge has saved. Without slots (`policy`), only its rollout counts.
    pub(super) fn restored(saved: SavedSlot, now: Moment, policy: Option<SlotPolicy>) -> Self {
        let SavedSlot { digest, used } = saved;
        let kept = |is_on_trial, until| Self::Kept(Kept { digest, is_on_trial, until });
        let Some(policy) = policy else {
            let is_interrupted = used == SavedUse::Interrupted;
            return if is_interrupted { Self::Interrupted(digest) } else { Self::Nothing };
        };
        match used {
            SavedUse::Interrupted => Self::Interrupted(digest),
            SavedUse::UntilReady { is_on_trial } => {
                kept(is_on_trial, Until::ended(now, now, Duration::ZERO, policy))
            }
            SavedUse::UntilServing => kept(false, Until::returned(now, policy)),
            SavedUse::UntilBaked { is_on_trial, at } => {
                kept(is_on_trial, Until::baked(now, at, policy))
            }
        }
    }

    /// What to save of it.
    pub(super) fn saved(&self) -> Option<SavedSlot> {
        match self {
            Self::Nothing => None,
            Self::Interrupted(digest) => {
                Some(SavedSlot { digest: *digest, used: SavedUse::Interrupted })
            }
            Self::Kept(Kept { digest, is_on_trial, until }) => {
                let is_on_trial = *is_on_trial;
                let used = match until {
                    Until::Ready(looks, Some(_)) if let Some(at) = looks.next() => {
                        SavedUse::UntilBaked { is_on_trial, at }
                    }
                    Until::Ready(..) => SavedUse::UntilReady { is_on_trial },
                    Until::Serving(..) => SavedUse::UntilServing,
                    Until::Baked(at) => SavedUse::UntilBaked { is_on_trial, at: *at },
                };
                Some(SavedSlot { digest: *digest, used })
            }
        }
    }

    /// An action for this digest may have interrupted the application.
    pub(super) fn acted(&mut self, digest: Digest) {
        *self = Self::Interrupted(digest);
    }

    /// The pod was out of its Services for this digest, and nothing was sent: the slot is kept until it is back. What
    /// it was kept for before begins anew.
    pub(super) fn keep_until_serving(&mut self, digest: Digest, now: Moment, policy: SlotPolicy) {
        match self {
            Self::Interrupted(_) => {}
            Self::Kept(Kept { until: until @ (Until::Ready(..) | Until::Baked(_)), .. }) => {
                // The first look may not be due: the probes have not found yet that the application ended.
                let due = if let Until::Ready(looks, None) = until { looks.next() } else { None };
                let looks = Looks::first_at(now, due.unwrap_or(now).max(now));
                *until = Until::Ready(looks, None);
            }
            // It has been kept for nothing since then: the time does not begin anew.
            Self::Kept(Kept { until: Until::Serving(looks, _), .. }) => *looks = Looks::new(now),
            Self::Nothing => {
                let (is_on_trial, until) = (false, Until::returned(now, policy));
                *self = Self::Kept(Kept { digest, is_on_trial, until });
            }
        }
    }

    /// The digest of the rollout that may have interrupted the application, and has neither ended nor come to a wait
    /// that may never end.
    pub(super) fn interrupted_by(&self) -> Option<Digest> {
        match self {
            Self::Interrupted(digest) => Some(*digest),
            Self::Nothing | Self::Kept(_) => None,
        }
    }

    /// Ends the use by a rollout that has ended, or does not go on. Without slots (`policy`), nothing is kept.
    pub(super) fn end(&mut self, now: Moment, end: End, policy: Option<SlotPolicy>) {
        let on_trial = end.on_trial();
        let digest = match *self {
            Self::Interrupted(digest) => digest,
            // It did not go on for a while.
            Self::Kept(Kept { digest, .. }) if on_trial == Some(digest) => digest,
            Self::Nothing | Self::Kept(_) => return,
        };
        let Some(policy) = policy else {
            *self = Self::Nothing;
            return;
        };
        let (look_at, unseen) = match end {
            End::Applied { .. } => (now, Duration::ZERO),
            End::Unproven => (now.after(PROBES), Duration::ZERO),
            End::Down { longest } => (now.after(PROBES), longest),
        };
        let is_on_trial = on_trial == Some(digest);
        *self = Self::Kept(Kept {
            digest,
            is_on_trial,
            until: Until::ended(now, look_at, unseen, policy),
        });
    }

    /// The digest that the slot is kept for.
    pub(super) fn kept_for(&self) -> Option<Digest> {
        match self {
            Self::Nothing => None,
            Self::Interrupted(digest) | Self::Kept(Kept { digest, .. }) => Some(*digest),
        }
    }

    /// The digest that was acted with, if the application may not have recovered from that.
    pub(super) fn acted_with(&self) -> Option<Digest> {
        match self {
            Self::Kept(Kept { until: Until::Serving(..), .. }) => None,
            used => used.kept_for(),
        }
    }

    /// The digest against which it counts if the target ends now.
    pub(super) fn on_trial(&self) -> Option<Digest> {
        match self {
            Self::Kept(Kept { digest, is_on_trial: true, .. }) => Some(*digest),
            _ => None,
        }
    }

    /// The look whether the pod is Ready that is to begin now, if one is due: the one after `last`.
    pub(super) fn take_look(&mut self, now: Moment, last: &mut u32) -> Option<u32> {
        match self {
            Self::Kept(Kept { until, .. }) => until.looks()?.take_due(now, last),
            _ => None,
        }
    }

    /// Takes the answer to a look; `share` differs between replicas. Returns why it will not be known whether
    /// the pod is Ready, if so: then the slot is not kept for it.
    pub(super) fn looked(
        &mut self,
        now: Moment,
        number: u32,
        look: PodLook,
        share: u32,
        policy: SlotPolicy,
    ) -> Option<Reason> {
        let Self::Kept(Kept { until, .. }) = self else { return None };
        let looks = until.looks().filter(|looks| looks.awaits(number))?;
        let is_away = matches!(look, PodLook::No(_) | PodLook::Unlisted(_));
        match (looks.answered(now, look, share, policy.patience), until) {
            (Finding::LookAgain, Until::Ready(_, since)) if is_away => *since = None,
            (Finding::LookAgain, _) => {}
            (Finding::Yes, Until::Ready(looks, since)) => {
                let end = since.get_or_insert(now).after(policy.bake);
                if now < end {
                    looks.look_at(end);
                } else {
                    self.end_keeping_at(now);
                }
            }
            (Finding::Yes, _) => self.end_keeping_at(now),
            (Finding::Unknown(reason), Until::Ready(_, since)) => {
                let at = since.unwrap_or(now).after(policy.bake);
                self.end_keeping_at(at);
                return Some(reason);
            }
            (Finding::Unknown(reason), _) => {
                self.end_keeping_at(now);
                return Some(reason);
            }
        }
        None
    }

    fn end_keeping_at(&mut self, at: Moment) {
        if let Self::Kept(Kept { until, .. }) = self {
            *until = Until::Baked(at);
        }
    }

    /// Ends what it is kept for if the time is over.
    pub(super) fn end_keeping(&mut self, now: Moment) {
        if let Self::Kept(Kept { until: Until::Baked(at) | Until::Serving(_, at), .. }) = self
            && *at <= now
        {
            *self = Self::Nothing;
        }
    }

    /// Why it is kept after an action, if so.
    pub(super) fn kept_because(&self) -> Option<Reason> {
        let Self::Kept(Kept { until, .. }) = self else { return None };
        Some(match until {
            Until::Ready(_, Some(_)) | Until::Baked(_) => Reason::new("keeps its slot for `bake`"),
            Until::Ready(looks, None) | Until::Serving(looks, _) => not_serving(looks.reason()),
        })
    }

    /// When there is something to do without an event.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match self {
            Self::Kept(Kept { until, .. }) => match until {
                Until::Ready(looks, _) => looks.next(),
                Until::Serving(looks, at) => looks.next().into_iter().chain([*at]).min(),
                Until::Baked(at) => Some(*at),
            },
            Self::Nothing | Self::Interrupted(_) => None,
        }
    }
}

/// Why the slot is kept: the pod does not serve again, for this reason.
fn not_serving(reason: Option<&Reason>) -> Reason {
    let until = "keeps its slot until the pod serves again";
    match reason {
        Some(Reason { message, hint }) => {
            Reason { message: format!("{until}: {message}"), hint: hint.clone() }
        }
        None => Reason::new(until),
    }
}
