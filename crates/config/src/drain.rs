//! `[rule.drain]`: taking the pod out of its Services before an action that interrupts it. Pure.

use super::agent::{Agent, Listen};
use super::prelude::*;
use podnudge_core::{DrainBefore, DrainPolicy};

settings! {
    /// Take the pod out of its Services before an action: `/serving`, the readiness probe of podnudge's container, answers 503 until the action is verified.
    impl DrainPolicy = "[rule.drain]", &[Relation::Needs(&["timeout"], &["services"])]; {
        /// How long the pod is out of its Services before the action begins. Without `services`, `/serving` answers 503 for this time: it must be longer than the readiness probe takes to fail and the Services take to follow.
        wait: Duration = default("5s", duration(MS.saturating_mul(100), MINUTE.saturating_mul(10))).option("drain", "TIME", Timing);
        /// Which actions it precedes.
        before: DrainBefore = default("restart", choice());
        /// The Services of the pod. With them, `wait` begins when the pod is not Ready and none of their EndpointSlices has it as ready any more, and a slot (`lease`) is kept until they have it again.
        services: Vec<String> = list("none: only the time is waited", checked("the name of a Service", parsers::service));
        /// The longest wait for these Services to let the pod go. After it nothing is sent, and the pod goes back; podnudge tries again later.
        timeout: Duration = default("2m", duration(SECOND, HOUR));
    }
}

words! {
    impl DrainBefore {
        Restart = "restart",
        Action = "action",
    }
}

/// Warns if an action may fall into the turn of another replica.
pub(super) fn validate_turns(drain: &DrainPolicy, place: &Place<'_>, turn: Option<Duration>) {
    let timeout = if drain.services.is_empty() { Duration::ZERO } else { drain.timeout };
    let longest = timeout.saturating_add(drain.wait);
    // A turn may begin in its first quarter.
    if turn.is_some_and(|turn| turn.saturating_mul(3) / 4 <= longest) {
        let longest = humantime::format_duration(longest);
        let message = format!("a drain may take {longest}: longer than the rest of a turn");
        let hint = "make `turn` longer than 4/3 of the drain and the action together, or share slots by `lease`";
        place.warn(Spot::Table, Reason::new(message).hint(hint));
    }
}

/// Reports a drain that nobody can see, or that no action needs.
pub(super) fn validate_with(
    drain: &DrainPolicy,
    place: &Place<'_>,
    agent: &Agent,
    may_restart: bool,
) {
    if matches!(agent.listen(), Listen::Off) {
        let reason = Reason::new("`[rule.drain]` needs the admin port, and `listen` is `off`");
        let hint = "leave out `listen`, and give podnudge's container a readinessProbe of `/serving` at port 9533";
        place.problem(Spot::Table, reason.hint(hint));
    }
    if drain.before == DrainBefore::Restart && !may_restart {
        let reason =
            Reason::new("`[rule.drain]` has no effect: the rule never restarts its target");
        place.warn(Spot::Table, reason.hint("add `before = \"action\"`, or leave it out"));
    }
}
