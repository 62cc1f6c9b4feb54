//! The publication of the content, which comes before the action if the application reads a publish directory.
//!
//! Until it is done, the superseded rollout is what the application is brought to: if the publication fails, that one
//! continues where it was.

use super::progress::{Context, Effect, Outcome, Progress};
use super::{Direction, Limit, Rollout, Step};
use crate::event::Publication;
use crate::fact::Fact;

impl Rollout {
    /// Brings the content to the application first: publishes it if the application does not have it yet, or again on a
    /// trigger, because the published files may have been damaged. Else acts. `superseded`: the rollout before.
    pub(super) fn bring(
        &mut self,
        superseded: Option<Self>,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        if ctx.needs_publish || (self.is_triggered && !ctx.reads_volumes) {
            return self.publish(superseded.map(Box::new), progress);
        }
        let verifying = superseded.filter(Self::is_verifying);
        self.report_superseded(verifying.as_ref(), progress);
        self.act(ctx, progress);
    }

    /// Goes on after a wait: publishes, as soon as the other replicas permit it, what the application does not have yet.
    /// Else acts.
    pub(super) fn publish_or_act(&mut self, ctx: &Context<'_>, progress: &mut Progress) {
        match ctx.needs_publish {
            false => self.act(ctx, progress),
            // The application may read what is published.
            true if self.limit == Limit::All && self.is_limited(ctx) => {
                self.wait_for_others(ctx, progress);
            }
            true => self.publish(None, progress),
        }
    }

    fn publish(&mut self, superseded: Option<Box<Self>>, progress: &mut Progress) {
        self.step = Step::Publishing { superseded };
        progress.effect(Effect::Publish);
    }

    /// Takes what has come of the publication. `is_swapped`: it failed, but the application already reads the content.
    pub(super) fn published(
        &mut self,
        publication: Publication,
        is_swapped: bool,
        ctx: &Context<'_>,
        progress: &mut Progress,
    ) {
        match publication {
            Publication::Done => {
                let superseded = self.take_superseded();
                self.report_superseded(superseded.as_ref(), progress);
                if self.direction == Direction::Forward {
                    progress.report(Fact::Published(self.digest()));
                }
                self.act(ctx, progress);
            }
            // Retry: the application already reads this content, or needs it for the rollback.
            Publication::Failed(reason, _)
                if is_swapped || self.direction != Direction::Forward =>
            {
                progress.effect(Effect::Refused);
                self.refused(reason, ctx.policy.rollout.retry.max, ctx, progress);
            }
            publication => {
                progress.end(Outcome::Unpublished(publication));
            }
        }
    }

    /// The rollout that this one was to supersede, if its publication has not ended.
    pub(crate) fn take_superseded(&mut self) -> Option<Self> {
        match &mut self.step {
            Step::Publishing { superseded } => superseded.take().map(|superseded| *superseded),
            _ => None,
        }
    }

    /// The rollout that goes on if podnudge is killed now: while new content is being published, the superseded one, if
    /// there is one.
    pub(super) fn until_published(&self) -> Option<&Self> {
        match (&self.step, self.direction) {
            (Step::Publishing { superseded }, Direction::Forward) => {
                superseded.as_deref()?.until_published()
            }
            _ => Some(self),
        }
    }

    /// Whether the rollout of newer content has taken the place of the one before: it is published.
    pub(crate) fn has_superseded(&self) -> bool {
        self.direction == Direction::Forward && !matches!(self.step, Step::Publishing { .. })
    }

    /// Reports that this rollout supersedes `old`.
    pub(crate) fn report_superseded(&self, old: Option<&Self>, progress: &mut Progress) {
        let other = old.map(Self::digest).filter(|digest| *digest != self.digest());
        if let Some(digest) = other {
            progress.report(Fact::Superseded(digest));
        }
    }
}
