//! A rollout across a restart of podnudge: what is saved of it, how it is continued, and what is known of the restart of
//! its target.

use std::time::Duration;

use super::progress::{Effect, Progress};
use super::{Direction, Rollout, Step, TargetRestart, WaitFor};
use crate::clock::{Moment, Now};
use crate::intake::OnDisk;
use crate::memory::{SavedRollback, SavedRollout};
use crate::reason::Reason;

/// The start times of processes are up to a clock tick early.
const TICK: Duration = Duration::from_millis(10);

impl Rollout {
    /// What to save of it; `why` is the reason of a rollback. While new content is being published, that is the
    /// superseded rollout: if podnudge is killed, the publish directory tells which of the two continues.
    pub(crate) fn saved(&self, why: &Reason) -> Option<SavedRollout> {
        if let (Step::Publishing { superseded }, Direction::Forward) = (&self.step, self.direction)
        {
            return superseded.as_ref().and_then(|superseded| superseded.saved(why));
        }
        let back = match self.direction {
            Direction::Forward => None,
            Direction::Back { failed, after_restart } => {
                Some(SavedRollback { failed, after_restart, reason: why.clone() })
            }
        };
        // The attempt that waits for the budget begins anew: its number is counted when it begins.
        let (attempt, retry_at) = match self.step {
            Step::Waiting { what: WaitFor::Retry, at, .. } => (self.attempt, Some(at)),
            Step::Waiting { what: WaitFor::Budget, at, .. } => {
                (self.attempt.saturating_sub(1), Some(at))
            }
            _ => (self.attempt, None),
        };
        let tripped = self.tripped.map(|_| match &self.step {
            Step::Tripped { reason, .. } => reason.clone(),
            _ => Reason::new("the target ended just after the action"),
        });
        Some(SavedRollout {
            digest: self.digest(),
            back,
            attempt,
            is_triggered: self.is_triggered,
            is_restart: self.is_restart,
            is_suspect: self.is_suspect,
            restart_began: self.target_restart.and_then(TargetRestart::began),
            pod_ends: self.target_restart.map_or(0, TargetRestart::pod_ends),
            is_in_new_pod: self.is_in_new_pod(),
            retry_at,
            tripped,
        })
    }

    /// Continues the rollout of an earlier podnudge, which has this content and direction.
    pub(crate) fn restored(
        saved: SavedRollout,
        content: OnDisk,
        direction: Direction,
        now: Now,
        is_known_good: bool,
        longest_wait: Duration,
    ) -> Self {
        let mut rollout = Self::resumed(content, direction, is_known_good);
        rollout.is_triggered = saved.is_triggered;
        rollout.is_suspect = saved.is_suspect;
        rollout.attempt = saved.attempt.max(1);
        rollout.is_restart = saved.is_restart;
        let began = saved.restart_began.map(|at| at.min(now.mono));
        rollout.has_failed = saved.attempt > 1 || saved.is_restart || saved.retry_at.is_some();
        rollout.target_restart = match (began, saved.pod_ends) {
            _ if saved.is_in_new_pod => Some(TargetRestart::PodReplaced),
            (None, _) => None,
            (Some(began), 0) => Some(TargetRestart::Interrupted(began)),
            (Some(began), ends) => Some(TargetRestart::PodEnded { began, ends }),
        };
        if let Some(reason) = saved.tripped {
            rollout.tripped = Some(0);
            rollout.step = Step::Tripped { next_poll: Some(now.mono), reason };
        } else if let Some(at) = saved.retry_at {
            let at = at.min(now.mono.after(longest_wait));
            let reason = Reason::new("the attempt before the restart of podnudge failed");
            rollout.wait(WaitFor::Retry, at, reason);
        }
        rollout
    }

    /// Whether the pod was replaced by this one since the rollout began: its application has read the content.
    pub(crate) fn is_in_new_pod(&self) -> bool {
        self.target_restart == Some(TargetRestart::PodReplaced)
    }

    /// Whether an earlier podnudge has ended for it, or its pod: first find out what became of that.
    pub(super) fn looks_for_pod_restart(&self) -> bool {
        let restart = self.target_restart;
        matches!(restart, Some(TargetRestart::PodEnded { .. } | TargetRestart::PodReplaced))
    }

    /// An earlier podnudge has ended for a restart of the pod, and nothing says that there was none.
    pub(super) fn count_pod_restart(&self, progress: &mut Progress) {
        if matches!(self.target_restart, Some(TargetRestart::PodEnded { .. })) {
            progress.effect(Effect::PodRestarted);
        }
    }

    /// The action that begins now ends the target.
    pub(crate) fn begin_target_restart(&mut self, now: Moment) {
        self.restarted_nothing();
        self.target_restart.get_or_insert(TargetRestart::Begun(now));
    }

    /// The action did not end the target; an earlier podnudge may have done so.
    pub(crate) fn restarted_nothing(&mut self) {
        self.target_restart =
            self.target_restart.filter(|restart| !matches!(restart, TargetRestart::Begun(_)));
    }

    /// A target that started after this was restarted by an earlier podnudge, for this rollout.
    pub(crate) fn restarted_by_earlier(&self) -> Option<Moment> {
        let since = self.target_restart.and_then(TargetRestart::unseen_since)?;
        Some(Moment(since.0.saturating_sub(TICK)))
    }

    /// The restart was seen: by the podnudge that did it, or by a later one.
    pub(super) fn has_seen_restart(&mut self) {
        self.target_restart = self.target_restart.map(TargetRestart::seen);
    }
}
