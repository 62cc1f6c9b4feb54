//! The gate: the one place that says whether a rollout may begin.
//!
//! It holds nothing and changes nothing: it looks at a candidate and at the circumstances, and says
//! that the gate is open, what has to be asked first, or why and until when it is closed. To add a
//! hold, add a circumstance and a line to [`evaluate`]; one that needs I/O is a [`Probe`].

use std::time::Duration;

use super::candidate::{Candidate, Probed};
use super::checks::Verdict;
use super::event::Probe;
use super::jitter::{self, Replica};
use super::policy::Policy;
use crate::clock::{Moment, Now, UnixTime};
use crate::config::Jitter;
use crate::reason::Reason;
use crate::shown;

/// Between two looks whether the file is still there that pauses a rule.
const PAUSE_POLL: Duration = Duration::from_secs(5);

/// Why content is to be rolled out. What each has to pass:
///
/// | condition | changed | triggered | first fill | known good |
/// | --- | --- | --- | --- | --- |
/// | volumes whole, checks passed | yes | yes | yes | yes |
/// | jitter, min-interval, window, pause, approval | yes | – | – | – |
/// | restart budget | yes | – | – | – |
///
/// A roll-back is begun by the rollout that failed, and passes no gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It changed, or was there when podnudge started.
    Changed,
    /// A person asked for it.
    Triggered,
    /// The application has nothing to read before.
    FirstFill,
    /// It was verified before, and is on disk again.
    KnownGood,
}

impl Cause {
    /// Whether it waits for what spreads, spaces, holds and limits rollouts.
    fn waits(self) -> bool {
        self == Self::Changed
    }
}

/// When a rollout gives way to newer content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivesWay {
    Now,
    /// Not before this moment, if it is known.
    Later(Option<Moment>),
}

/// What the gate looks at besides the candidate.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a circumstance of its own")]
pub(super) struct Circumstances<'a> {
    pub(super) now: Now,
    pub(super) policy: &'a Policy,
    pub(super) replica: &'a Replica,
    pub(super) cause: Cause,
    /// A scan is under way, or the target is being asked since when it runs: more is known soon.
    pub(super) is_looking: bool,
    /// All volumes are there, and can be read as far as that matters.
    pub(super) is_whole: bool,
    pub(super) verdict: Verdict<'a>,
    /// When the last action was.
    pub(super) last_action: Option<Moment>,
    /// When the budget allows the next restart.
    pub(super) restart_at: Moment,
    pub(super) is_paused_by_key: bool,
    /// Whether the rollout of this rule gives way.
    pub(super) rollout: GivesWay,
    /// Whether another rule goes first on the same target.
    pub(super) is_behind_another_rule: bool,
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The answer to this question is needed first; it may be on its way.
    Ask(Probe),
    Closed(Closed),
}

/// Why the gate is closed, and until when at most, if time opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Closed {
    /// Something has to happen first: a scan, an answer, a verdict, the end of a rollout.
    Waiting,
    /// The candidate's own time has not come, or the rollout before it does not give way yet. What
    /// is known to hold it then, holds it until `action`.
    Turn { at: Moment, action: Moment },
    /// Something holds it that people put there.
    Held(Option<Moment>, Reason),
}

impl Gate {
    /// When to look again, if nothing is told before.
    pub(super) fn next_look(&self) -> Option<Moment> {
        match self {
            Self::Closed(Closed::Turn { at, .. }) => Some(*at),
            Self::Closed(Closed::Held(until, _)) => *until,
            Self::Open | Self::Ask(_) | Self::Closed(Closed::Waiting) => None,
        }
    }

    /// When the rollout begins at the earliest, as far as that is a matter of time.
    pub(super) fn next_action(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Open | Self::Ask(_) => Some(now),
            Self::Closed(Closed::Turn { action, .. }) => Some(*action),
            Self::Closed(Closed::Held(until, _)) => *until,
            Self::Closed(Closed::Waiting) => None,
        }
    }
}

/// Whether the candidate's rollout may begin in this instant.
pub(super) fn evaluate(candidate: &Candidate, it: &Circumstances<'_>) -> Gate {
    match closed(candidate, it) {
        Some(closed) => Gate::Closed(closed),
        None if it.cause.waits() && it.policy.hold.pause_file.is_some() => {
            pause_file(candidate.probed(Probe::PauseFile), it.now.mono)
        }
        None => Gate::Open,
    }
}

fn closed(candidate: &Candidate, it: &Circumstances<'_>) -> Option<Closed> {
    let now = it.now.mono;
    if !it.is_whole || it.verdict != Verdict::Passed {
        return Some(Closed::Waiting);
    }
    let gives_way = match it.rollout {
        GivesWay::Now => None,
        GivesWay::Later(at) => at,
    };
    let mut at = candidate.retry_at().max(gives_way).unwrap_or(now);
    if it.cause.waits() {
        let spaced = it.last_action.map_or(now, |last| last.after(it.policy.min_interval));
        at = at.max(spaced).max(candidate.turn().unwrap_or(now));
    }
    if now < at {
        let held = held(candidate, it, at).filter(|_| it.cause.waits());
        let action = held.and_then(|(until, _)| until).unwrap_or(at);
        return Some(Closed::Turn { at, action });
    }
    if it.is_looking || it.rollout != GivesWay::Now {
        return Some(Closed::Waiting);
    }
    if it.is_behind_another_rule {
        return Some(Closed::Waiting);
    }
    let held = held(candidate, it, now).filter(|_| it.cause.waits());
    held.map(|(until, reason)| Closed::Held(until, reason))
}

/// What holds it at this moment, as far as that is known now, and until when.
fn held(
    candidate: &Candidate,
    it: &Circumstances<'_>,
    at: Moment,
) -> Option<(Option<Moment>, Reason)> {
    let hold = &it.policy.hold;
    if it.policy.is_restart && it.restart_at > at {
        return Some((Some(it.restart_at), exhausted(it.policy)));
    }
    if hold.approve {
        let reason = Reason::new("the rule waits for somebody to approve");
        return Some((None, reason.hint("with `agent.reload` set, run `podnudge trigger` or send POST /reload; or send podnudge HUP")));
    }
    if let Some(key) = hold.pause_key.as_ref().filter(|_| it.is_paused_by_key) {
        let reason = Reason::new(format!("paused by the key `{}`", shown::text(key)));
        return Some((None, reason.hint("remove the key, or trigger the reload")));
    }
    let window = hold.schedule.as_ref()?;
    let wall = UnixTime(it.now.wall.0.saturating_add(at.since(it.now.mono)));
    let opening = window.next_opening(wall).filter(|next| next.from > wall)?;
    // Replicas that wait for the same hour are spread, too, but none beyond its end.
    let open_for = opening.until.since(opening.from);
    let jitter = it.policy.jitter;
    let jitter = Jitter { window: jitter.window.min(open_for), ..jitter };
    let wait = jitter::wait(jitter, it.replica, &candidate.digest(), candidate.draw());
    let (text, zone) = (&window.text, &window.zone_text);
    let reason = Reason::new(format!("outside of the window `{text}` ({zone})"));
    let until = at.after(opening.from.since(wall)).after(wait);
    Some((Some(until), reason))
}

/// Why the target may not be restarted now.
pub(super) fn exhausted(policy: &Policy) -> Reason {
    let limit = policy.restarts;
    let within = humantime::format_duration(limit.within);
    Reason::new(format!("restart budget exhausted: {} in {within}", limit.most))
}

fn pause_file(probed: &Probed, now: Moment) -> Gate {
    match probed {
        Probed::Answered(at, None) if *at == now => Gate::Open,
        Probed::Answered(at, Some(reason)) if now < at.after(PAUSE_POLL) => {
            Gate::Closed(Closed::Held(Some(at.after(PAUSE_POLL)), reason.clone()))
        }
        Probed::NotAsked | Probed::Asked | Probed::Answered(..) => Gate::Ask(Probe::PauseFile),
    }
}
