//! A rollout whose target ended just after its action: it sends nothing more, and polls for a process that has read the
//! content at its start.

use super::progress::{Context, Progress};
use super::{Rollout, Step, TARGET_POLL};
use crate::backoff;
use crate::clock::Moment;
use crate::ends::Ends;
use crate::event::Acted;
use crate::fact::Fact;
use crate::reason::Reason;

impl Rollout {
    /// Counts the end of a process that had read the content. Returns the reason, with the count if
    /// others ended before it.
    pub(super) fn count_end(
        &mut self,
        reason: Reason,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) -> Reason {
        let now = ctx.now.mono;
        let ends = Ends::after(self.ends, now);
        self.ends = Some(ends);
        let reason = ends.reason(now).unwrap_or(reason);
        if ends.is_reported() {
            progress.report(Fact::KeepsEnding(self.digest(), reason.clone()));
        }
        reason
    }

    /// Sends nothing more, and polls for a new process, which reads the content at its start.
    pub(super) fn trip(&mut self, reason: Reason, ctx: &Context<'_>) {
        self.target_restart = None;
        let polls = self.tripped.unwrap_or(0);
        self.tripped = Some(polls.saturating_add(1));
        let wait = backoff::doubled(TARGET_POLL.0, polls, TARGET_POLL.1);
        self.step = Step::Tripped { next_poll: Some(ctx.now.mono.after(wait)), reason };
    }

    /// Waits for the next poll.
    pub(super) fn poll_again(&mut self, ctx: &Context<'_>) {
        if let Step::Tripped { reason, .. } = &self.step {
            self.trip(reason.clone(), ctx);
        }
    }

    /// What to save: why it has tripped, if it has.
    pub(super) fn tripped_reason(&self) -> Option<Reason> {
        self.tripped.map(|_| match &self.step {
            Step::Tripped { reason, .. } => reason.clone(),
            _ => Reason::new("the target ended just after the action"),
        })
    }

    /// Takes over that an earlier podnudge had tripped.
    pub(super) fn restore_tripped(&mut self, reason: Reason, now: Moment) {
        self.tripped = Some(0);
        self.step = Step::Tripped { next_poll: Some(now), reason };
    }

    /// Takes the answer to [`Extent::LookForFresh`](crate::command::Extent), which followed a poll that found a process.
    pub(super) fn fresh_looked_for(
        &mut self,
        acted: Acted,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        let reason = match acted {
            Acted::Fresh(_) => return self.verify_fresh(ctx, progress),
            // Such as a second process that may be the target.
            Acted::Refused(reason) => reason,
            // The process that the poll found has ended since.
            _ => self.count_end(Reason::new("the target ended"), ctx, progress),
        };
        self.trip(reason, ctx);
    }
}
