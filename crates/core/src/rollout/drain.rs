//! How far a rollout is from its action: the pod leaves its Services before it, and comes back after it.

use std::time::Duration;

use super::progress::{Context, Effect, Progress};
use super::{Direction, FoundBy, Rollout, Step, WaitFor};
use crate::clock::Moment;
use crate::command::Extent;
use crate::fact::Fact;
use crate::permit::{Drain, Left};
use crate::policy::DrainPolicy;
use crate::policy::SlotPolicy;
use crate::reason::Reason;

/// How long a look may take beyond the times that are configured.
const LOOK: Duration = Duration::from_secs(45);

impl Rollout {
    /// Runs the actions. Where the pod has to leave its Services first, or the other replicas do not permit
    /// it yet, only finds out whether the action can be sent, or waits for the end of the drain.
    pub(super) fn act(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        if let Some(extent) = self.looks_only() {
            self.step = Step::Acting(extent);
            return progress.effect(Effect::Act);
        }
        let drain = self.drain(ctx);
        let is_limited = self.is_limited(ctx);
        if let Some(drain) = drain.filter(|_| !is_limited)
            && self.continue_drain(drain, ctx, progress)
        {
            return;
        }
        let drains_first = drain.is_some() && ctx.drain.began().is_none();
        let is_unprepared = ctx.policy.permit.slot.is_some()
            && self.needs_permit(ctx.may_go_back)
            && self.is_found_absent_by_action();
        let prepares = drains_first || is_limited || is_unprepared;
        self.step = Step::Acting(if prepares { Extent::Prepare } else { Extent::Send });
        progress.effect(Effect::Act);
    }

    /// The action can be sent, as soon as the other replicas permit it, and the pod has left its Services.
    pub(super) fn prepared(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        self.absent.iter_mut().for_each(|absent| absent.found_by = FoundBy::Poll);
        if self.is_limited(ctx) {
            return self.wait_for_others(ctx, progress);
        }
        match self.drain(ctx).filter(|_| ctx.drain.began().is_none()) {
            None => self.act(ctx, progress),
            Some(drain) if self.is_watched(drain, ctx) => {
                if let Some(late_until) = ctx.late_until {
                    return self.wait_for_nodes(late_until);
                }
                progress.effect(Effect::AskServices);
                self.ask_services(drain, ctx);
            }
            Some(drain) => self.begin_drain(drain, ctx, progress),
        }
    }

    /// How the pod leaves its Services before this action; `None` if it stays in.
    fn drain<'a>(&self, ctx: &Context<'a>) -> Option<&'a DrainPolicy> {
        ctx.policy.permit.drain_before(self.ends_target(&ctx.policy.rollout))
    }

    /// Whether to look whether the Services have the pod: not when an application that was interrupted goes back to
    /// content that is known to be good, which must not depend on the API server.
    fn is_watched(&self, drain: &DrainPolicy, ctx: &Context<'_>) -> bool {
        let is_forward = self.direction == Direction::Forward;
        let is_limited = ctx.policy.permit.shares_actions() && self.needs_permit(ctx.may_go_back);
        (is_forward || is_limited) && !drain.services.is_empty()
    }

    /// Continues the drain, if it has begun and is not over. Returns whether that is so.
    fn continue_drain(
        &mut self,
        drain: &DrainPolicy,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) -> bool {
        let now = ctx.now.mono;
        match ctx.drain {
            Drain::Asking(_) if self.is_watched(drain, ctx) => self.ask_services(drain, ctx),
            Drain::Listed if self.is_watched(drain, ctx) => match ctx.late_until {
                Some(late_until) => self.wait_for_nodes(late_until),
                None => self.begin_drain(drain, ctx, progress),
            },
            Drain::Leaving { out, looks, .. } if self.is_watched(drain, ctx) => {
                let until = match out {
                    Some(out) => {
                        out.after(drain.wait).max(ctx.late_until.unwrap_or_default()).after(LOOK)
                    }
                    None => looks.since().after(drain.timeout),
                };
                if now >= until {
                    self.not_left(drain, *out, looks.reason(), ctx, progress);
                } else if out.is_some() && ctx.late_until.is_some() {
                    self.wait_for_nodes(until);
                } else {
                    self.wait_to_leave(drain, until);
                }
            }
            Drain::Unwatched { since } | Drain::Leaving { since, .. }
                if now < since.after(drain.wait) =>
            {
                self.wait_out(drain, *since);
            }
            _ => return false,
        }
        true
    }

    fn begin_drain(&mut self, drain: &DrainPolicy, ctx: &Context<'_>, progress: &mut Progress) {
        progress.report(Fact::Draining(self.digest(), drain.wait));
        let is_watched = self.is_watched(drain, ctx);
        progress.effect(Effect::Drain { is_watched });
        if is_watched {
            self.wait_to_leave(drain, ctx.now.mono.after(drain.timeout));
        } else {
            self.wait_out(drain, ctx.now.mono);
        }
    }

    /// Waits until the nodes have followed the API server, which was away.
    fn wait_for_nodes(&mut self, late_until: Moment) {
        let reason = Reason::new("the API server was away: the endpoints on the nodes may be old");
        self.wait(WaitFor::Services, late_until, reason);
    }

    /// Waits until it is known whether the Services have the pod.
    fn ask_services(&mut self, drain: &DrainPolicy, ctx: &Context<'_>) {
        let message = format!("asks whether {} have the pod", endpoints(drain));
        self.wait(WaitFor::Services, ctx.now.mono.after(LOOK), Reason::new(message));
    }

    /// Waits until the Services of the drain have let the pod go.
    fn wait_to_leave(&mut self, drain: &DrainPolicy, until: Moment) {
        let (endpoints, wait) = (endpoints(drain), humantime::format_duration(drain.wait));
        let message =
            format!("`/serving` answers 503 until {endpoints} have let the pod go for {wait}");
        self.wait(WaitFor::Services, until, Reason::new(message));
    }

    /// Waits for the time of the drain, which began at `since`.
    fn wait_out(&mut self, drain: &DrainPolicy, since: Moment) {
        let wait = humantime::format_duration(drain.wait);
        let reason = Reason::new(format!("`/serving` answers 503 for {wait} before the action"));
        self.wait(WaitFor::Drain, since.after(drain.wait), reason);
    }

    /// Takes what podnudge has found about the Services.
    pub(super) fn left(&mut self, left: Left, ctx: &Context<'_>, progress: &mut Progress) {
        match left {
            // The rollout goes on if it still may.
            Left::Further => {
                if let Step::Waiting { at, .. } = &mut self.step {
                    *at = ctx.now.mono;
                }
            }
            Left::NotYet(found) => {
                if let Step::Waiting { reason, .. } = &mut self.step {
                    *reason = found;
                }
            }
            Left::Unknown(reason) => self.drained_for_nothing(reason, ctx, progress),
        }
    }

    /// The Services have not let the pod go in time, or that is not known; or they have, and it could not be seen that
    /// they still do. The pod goes back, and nothing is sent.
    fn not_left(
        &mut self,
        drain: &DrainPolicy,
        out: Option<Moment>,
        found: Option<&Reason>,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let timeout = humantime::format_duration(drain.timeout);
        let (why, hint) = match found {
            Some(Reason { message, hint }) => (message.as_str(), hint.clone()),
            None => ("the API server has not answered", None),
        };
        let message = if out.is_some() {
            format!("the pod has left its Services, but whether it stayed out is not known: {why}")
        } else {
            format!("the pod has not left its Services within {timeout}: {why}")
        };
        self.drained_for_nothing(Reason { message, hint }, ctx, progress);
    }

    /// Nothing is sent, and the pod goes back if it was taken out. The next drain begins only when the slot is no
    /// longer kept for that: the other replicas may be what the pod waits for.
    fn drained_for_nothing(&mut self, reason: Reason, ctx: &Context<'_>, progress: &mut Progress) {
        let slot = ctx.policy.permit.slot.filter(|_| ctx.drain.began().is_some());
        let keeps_slot = slot.map_or(Duration::ZERO, SlotPolicy::returns_within);
        self.refused(reason, keeps_slot + ctx.policy.rollout.retry.max, ctx, progress);
    }

    /// The content cannot be rolled out now. The pod goes back until it can.
    pub(super) fn content_gone(&mut self) {
        let reason = Reason::new("the content is not on disk, or its checks have not passed");
        self.wait(WaitFor::Start, Moment::default(), reason);
    }

    /// How far the current action goes.
    pub(crate) fn extent(&self) -> Extent {
        match self.step {
            Step::Acting(extent) => extent,
            _ => Extent::Send,
        }
    }
}

fn endpoints(drain: &DrainPolicy) -> String {
    format!("the EndpointSlices of `{}`", drain.services.join("` and `"))
}
