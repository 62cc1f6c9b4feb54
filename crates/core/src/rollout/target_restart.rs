//! What a rollout knows of the restart of its target, by this podnudge or by an earlier one.

use std::time::Duration;

use super::Rollout;
use super::progress::{Effect, Progress};
use crate::clock::Moment;

/// The start times of processes are up to a clock tick early.
const TICK: Duration = Duration::from_millis(10);

/// A restart of the target by a rollout, and what is known of it. The times are those at which podnudge began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetRestart {
    /// This podnudge ends the target; or the restart by an earlier one was seen.
    Begun(Moment),
    /// An earlier podnudge began it. Whether the target has ended is not known.
    Interrupted(Moment),
    /// podnudge ends so that the kubelet restarts the pod, or has ended for that. `ends` counts how often.
    PodEnding { began: Moment, ends: u32 },
    /// An earlier podnudge has ended for that. Whether the pod was restarted is not known.
    PodEnded { began: Moment, ends: u32 },
    /// The pod was replaced by this one since the rollout began, by its eviction or for another reason.
    PodReplaced,
}

impl TargetRestart {
    pub(super) fn began(self) -> Option<Moment> {
        match self {
            Self::Begun(began)
            | Self::Interrupted(began)
            | Self::PodEnding { began, .. }
            | Self::PodEnded { began, .. } => Some(began),
            Self::PodReplaced => None,
        }
    }

    /// How often podnudge has ended for it.
    pub(super) fn pod_ends(self) -> u32 {
        match self {
            Self::PodEnding { ends, .. } | Self::PodEnded { ends, .. } => ends,
            Self::Begun(_) | Self::Interrupted(_) | Self::PodReplaced => 0,
        }
    }

    /// podnudge ends for it once more.
    #[must_use]
    pub(super) fn with_pod_end(self) -> Self {
        let ends = self.pod_ends().saturating_add(1);
        self.began().map_or(self, |began| Self::PodEnding { began, ends })
    }

    /// podnudge has not ended after all.
    #[must_use]
    pub(super) fn without_pod_end(self) -> Self {
        match self {
            Self::PodEnding { began, ends: 0 | 1 } => Self::Begun(began),
            Self::PodEnding { began, ends } => Self::PodEnding { began, ends: ends - 1 },
            restart => restart,
        }
    }

    /// A target that started after this was restarted by an earlier podnudge, if one did and that was not seen.
    pub(super) fn unseen_since(self) -> Option<Moment> {
        match self {
            Self::Interrupted(began) | Self::PodEnded { began, .. } => Some(began),
            // Whatever runs in this pod.
            Self::PodReplaced => Some(Moment::default()),
            Self::Begun(_) | Self::PodEnding { .. } => None,
        }
    }

    /// The outcome was seen: by the podnudge that did it, or by a later one.
    #[must_use]
    pub(super) fn seen(self) -> Self {
        match self {
            Self::Interrupted(began) => Self::Begun(began),
            Self::PodEnded { began, ends } => Self::PodEnding { began, ends },
            Self::Begun(_) | Self::PodEnding { .. } | Self::PodReplaced => self,
        }
    }
}

impl Rollout {
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
