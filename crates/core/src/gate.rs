//! The gate: the only place that decides whether a rollout may begin.
//!
//! It has no state and no side effects. From a candidate and the conditions it determines whether
//! the gate is open, needs a probe first, or is closed, until when and why. To add a hold, add a
//! field to [`Conditions`] and a line to [`held`]; a hold that needs I/O is a [`Probe`].
//!
//! The gate is closed until a probe is answered: by a reason to wait, or by `None` to proceed. An answer about the
//! pause file is valid only at the time of the answer. With a second probe, answers must stay valid until all have
//! arrived.

use std::time::Duration;

use super::cause::Cause;
use super::event::Probe;
use super::intake::{Candidate, ProbeState, Verdict};
use super::jitter::{self, Jitter, Replica};
use super::permit::Answer;
use super::policy::Policy;
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::shown;

/// How often to check whether the pause file still exists.
const PAUSE_POLL: Duration = Duration::from_secs(5);

/// When newer content can supersede a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supersedable {
    Now,
    /// Not before this time, if it is known.
    Later(Option<Moment>),
}

/// The inputs of the gate besides the candidate.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a circumstance of its own")]
pub(super) struct Conditions<'a> {
    pub(super) now: Now,
    pub(super) policy: &'a Policy,
    pub(super) replica: &'a Replica,
    pub(super) cause: Cause,
    /// A scan or an inspection of the target is pending, and may change the decision.
    pub(super) is_update_pending: bool,
    /// All volumes exist that the cause needs, and are readable where the content has to be read.
    pub(super) is_complete: bool,
    pub(super) verdict: Verdict<'a>,
    /// Whether the checks of the candidate may run: a person has approved it, if that is required.
    pub(super) may_check: bool,
    /// When the minimum time since the last action is over.
    pub(super) next_action: Option<Moment>,
    /// When the budget allows the next restart.
    pub(super) restart_at: Moment,
    pub(super) is_paused_by_key: bool,
    /// Until when a person has paused the rule.
    pub(super) paused_until: Option<Moment>,
    /// Whether the candidate can supersede the rule's current rollout.
    pub(super) rollout: Supersedable,
    /// Whether the rule may act, as far as the other replicas are concerned.
    pub(super) permit: Answer<'a>,
    /// Whether another rule has precedence on the same target.
    pub(super) waits_for_other_rule: bool,
}

/// The state of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The answer to this probe is required first; it may be pending.
    Probe(Probe),
    /// A slot is required, and nothing else; why it is not there, if that is known.
    Claim(Option<Reason>),
    Closed(Closed),
}

/// Why the gate is closed, and until when, if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Closed {
    /// An event has to come first: a scan, an answer, a verdict, the end of a rollout.
    Waiting,
    /// The candidate's scheduled time has not come, or the current rollout cannot be superseded
    /// yet. `action` is the end of the holds that are already known to apply at `at`.
    NotBefore { at: Moment, action: Moment },
    /// An operator's hold or the restart budget applies.
    Held(Option<Moment>, Reason),
}

impl Gate {
    /// When to evaluate the gate again if no event arrives before.
    pub(super) fn next_evaluation(&self) -> Option<Moment> {
        match self {
            Self::Closed(Closed::NotBefore { at, .. }) => Some(*at),
            Self::Closed(Closed::Held(until, _)) => *until,
            Self::Open | Self::Probe(_) | Self::Claim(_) | Self::Closed(Closed::Waiting) => None,
        }
    }

    /// The earliest start of the rollout, if it is known.
    pub(super) fn next_action(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Open | Self::Probe(_) => Some(now),
            Self::Closed(Closed::NotBefore { action, .. }) => Some(*action),
            Self::Closed(Closed::Held(until, _)) => *until,
            Self::Claim(_) | Self::Closed(Closed::Waiting) => None,
        }
    }
}

/// Whether the candidate's rollout may begin now.
pub(super) fn evaluate(candidate: &Candidate, ctx: &Conditions<'_>) -> Gate {
    if let Some(closed) = closed(candidate, ctx) {
        return Gate::Closed(closed);
    }
    // Before its turn, nothing is probed.
    let permitted = match &ctx.permit {
        Answer::Turn { at, why } => {
            return Gate::Closed(Closed::Held(Some(*at), why.clone()));
        }
        Answer::Go => Gate::Open,
        Answer::Wait(reason) => Gate::Claim(reason.cloned()),
        Answer::Halted(reason) => Gate::Claim(Some((*reason).clone())),
    };
    if ctx.cause.is_subject_to_holds() && ctx.policy.gate.hold.pause_file {
        let paused = pause_file(candidate.probe_state(Probe::PauseFile), ctx.now.mono);
        if paused != Gate::Open {
            return paused;
        }
    }
    // Last: whoever has a slot uses it at once.
    permitted
}

fn closed(candidate: &Candidate, ctx: &Conditions<'_>) -> Option<Closed> {
    let now = ctx.now.mono;
    let is_unchecked = matches!(ctx.verdict, Verdict::Pending(_));
    if ctx.is_complete && is_unchecked && !ctx.may_check && !ctx.is_update_pending {
        return Some(Closed::Held(None, needs_approval(" before its checks")));
    }
    if !ctx.is_complete || ctx.verdict != Verdict::Passed {
        return Some(Closed::Waiting);
    }
    let supersedable = match ctx.rollout {
        Supersedable::Now => None,
        Supersedable::Later(at) => at,
    };
    let mut at = candidate.retry_at().max(supersedable).unwrap_or(now);
    if ctx.cause.is_subject_to_holds() {
        let earliest = ctx.next_action.unwrap_or(now);
        at = at.max(earliest).max(candidate.scheduled_at().unwrap_or(now));
    }
    if now < at {
        let held = held(candidate, ctx, at).filter(|_| ctx.cause.is_subject_to_holds());
        let action = held.and_then(|(until, _)| until).unwrap_or(at);
        return Some(Closed::NotBefore { at, action });
    }
    if ctx.is_update_pending || ctx.rollout != Supersedable::Now {
        return Some(Closed::Waiting);
    }
    if ctx.waits_for_other_rule {
        return Some(Closed::Waiting);
    }
    let held = held(candidate, ctx, now).filter(|_| ctx.cause.is_subject_to_holds());
    held.map(|(until, reason)| Closed::Held(until, reason))
}

/// The hold that applies at this time, as far as is known now, and its end.
fn held(
    candidate: &Candidate,
    ctx: &Conditions<'_>,
    at: Moment,
) -> Option<(Option<Moment>, Reason)> {
    let hold = &ctx.policy.gate.hold;
    if ctx.policy.rollout.is_restart && ctx.restart_at > at {
        return Some((Some(ctx.restart_at), budget_exhausted(ctx.policy)));
    }
    if let Some(until) = ctx.paused_until.filter(|until| *until > at) {
        let reason = Reason::new("paused by a person");
        return Some((
            Some(until),
            reason.hint("run `podnudge resume` in podnudge's container to end that"),
        ));
    }
    if hold.approval {
        return Some((None, needs_approval("")));
    }
    if let Some(key) = hold.pause_key.as_ref().filter(|_| ctx.is_paused_by_key) {
        let reason = Reason::new(format!("paused by the key `{}`", shown::text(key)));
        return Some((None, reason.hint("remove the key, or trigger the reload")));
    }
    let window = hold.window.as_ref()?;
    let wall = UnixTime(ctx.now.wall.0.saturating_add(at.since(ctx.now.mono)));
    let opening = window.next_opening(wall).filter(|next| next.from > wall)?;
    // Spread the replicas that wait for the same opening, but not beyond the end of the window.
    let open_for = opening.until.since(opening.from);
    let jitter = ctx.policy.gate.jitter;
    let jitter = Jitter { window: jitter.window.min(open_for), ..jitter };
    let wait = jitter::wait(jitter, ctx.replica, &candidate.digest(), candidate.draw());
    let (text, zone) = (&window.text, &window.zone_text);
    let reason = Reason::new(format!("outside of the window `{text}` ({zone})"));
    let until = at.after(opening.from.since(wall)).after(wait);
    Some((Some(until), reason))
}

/// The reason shown until a person approves the content.
fn needs_approval(before: &str) -> Reason {
    let reason = format!("the rule waits for an approval{before}");
    Reason::new(reason).hint("run `podnudge approve` in podnudge's container")
}

/// The reason shown while the budget allows no restart.
pub(super) fn budget_exhausted(policy: &Policy) -> Reason {
    let limit = policy.application.restarts;
    let within = humantime::format_duration(limit.within);
    Reason::new(format!("restart budget exhausted: {} in {within}", limit.most))
}

fn pause_file(state: &ProbeState, now: Moment) -> Gate {
    match state {
        ProbeState::Answered(at, None) if *at == now => Gate::Open,
        ProbeState::Answered(at, Some(reason)) if now < at.after(PAUSE_POLL) => {
            Gate::Closed(Closed::Held(Some(at.after(PAUSE_POLL)), reason.clone()))
        }
        ProbeState::NotStarted | ProbeState::Pending | ProbeState::Answered(..) => {
            Gate::Probe(Probe::PauseFile)
        }
    }
}
