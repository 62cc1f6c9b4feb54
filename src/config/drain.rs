//! `[rule.drain]`: taking the pod out of its Services before an action that interrupts it. Pure.

use super::agent::{Agent, Listen};
use super::prelude::*;

settings! {
    /// Take the pod out of its Services before an action: `/serving`, the readiness probe of podnudge's container, answers 503 until the action is verified.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Drain = "[rule.drain]"; {
        /// How long `/serving` answers 503 before the action begins. It must be longer than the readiness probe takes to fail and the Services take to follow.
        wait: Duration = default("5s", duration(MS.saturating_mul(100), MINUTE.saturating_mul(10))).option("drain", "TIME", Timing);
        /// Which actions it precedes.
        before: DrainBefore = default("restart", DrainBefore::choice());
    }
}

words! {
    /// Which actions a drain precedes.
    pub enum DrainBefore {
        /// Restarts of the target.
        Restart = "restart",
        /// Every action of the rule.
        Action = "action",
    }
}

impl Drain {
    /// Reports a drain that nobody can see, or that no action needs.
    pub(super) fn validate_with(&self, place: &Place<'_>, agent: &Agent, may_restart: bool) {
        if matches!(agent.listen(), Listen::Off) {
            let reason = Reason::new("`[rule.drain]` needs the admin port, and `listen` is `off`");
            let hint = "leave out `listen`, and give podnudge's container a readinessProbe of `/serving` at port 9533";
            place.problem(Spot::Table, reason.hint(hint));
        }
        if self.before == DrainBefore::Restart && !may_restart {
            let reason =
                Reason::new("`[rule.drain]` has no effect: the rule never restarts its target");
            place.warn(Spot::Table, reason.hint("add `before = \"action\"`, or leave it out"));
        }
    }
}
