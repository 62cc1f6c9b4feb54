//! A rollout across a restart of podnudge: what is saved of it, how it is continued, and what is known of the restart of
//! its target.

use std::time::Duration;

use super::{Direction, Rollout, Step, TargetRestart, WaitFor};
use crate::clock::Now;
use crate::intake::OnDisk;
use crate::memory::{SavedRollback, SavedRollout};
use crate::reason::Reason;
use crate::snapshot::Digest;

impl Rollout {
    /// What to save of it; `why` tells why a digest is rolled back. While new content is being published, that is the
    /// superseded rollout: if podnudge is killed, the publish directory tells which of the two continues.
    pub(crate) fn saved(&self, why: &dyn Fn(Digest) -> Reason) -> Option<SavedRollout> {
        self.until_published().map(|rollout| rollout.saved_itself(why))
    }

    fn saved_itself(&self, why: &dyn Fn(Digest) -> Reason) -> SavedRollout {
        let back = match self.direction {
            Direction::Forward => None,
            Direction::Back { failed, after_restart } => {
                Some(SavedRollback { failed, after_restart, reason: why(failed) })
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
        SavedRollout {
            digest: self.digest(),
            back,
            attempt,
            is_triggered: self.is_triggered,
            is_restart: self.is_restart,
            is_suspect: self.is_suspect,
            restart_began: self.restart_began(),
            pod_ends: self.target_restart.map_or(0, TargetRestart::pod_ends),
            is_in_new_pod: self.is_in_new_pod(),
            retry_at,
            tripped: self.tripped_reason(),
        }
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
        rollout.has_failed = saved.attempt > 1 || saved.is_restart || saved.retry_at.is_some();
        rollout.target_restart = TargetRestart::restored(&saved, now.mono);
        if let Some(reason) = saved.tripped {
            rollout.restore_tripped(reason, now.mono);
        } else if let Some(at) = saved.retry_at {
            let at = at.min(now.mono.after(longest_wait));
            let reason = Reason::new("the attempt before the restart of podnudge failed");
            rollout.wait(WaitFor::Retry, at, reason);
        }
        rollout
    }
}
