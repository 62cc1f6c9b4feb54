//! The restart of a target by a rollout, by this podnudge or by an earlier one.

use crate::clock::Moment;
use crate::memory::SavedRollout;

/// A restart of the target by a rollout, and what is known of it. The times are those at which podnudge began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetRestart {
    /// The target is ended by this podnudge; or the restart by an earlier one was seen.
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
    /// What an earlier podnudge has saved of it.
    pub(super) fn restored(saved: &SavedRollout, now: Moment) -> Option<Self> {
        if saved.is_in_new_pod {
            return Some(Self::PodReplaced);
        }
        let began = saved.restart_began?.min(now);
        Some(match saved.pod_ends {
            0 => Self::Interrupted(began),
            ends => Self::PodEnded { began, ends },
        })
    }

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_end_of_podnudge_that_is_taken_back_does_not_count() {
        let began = Moment(Duration::from_secs(7));
        let restart = TargetRestart::Begun(began);
        let [once, twice] = [restart.with_pod_end(), restart.with_pod_end().with_pod_end()];
        assert_eq!((once.pod_ends(), twice.pod_ends()), (1, 2));
        assert_eq!((twice.without_pod_end(), once.without_pod_end()), (once, restart));
        assert_eq!(restart.without_pod_end(), restart);
    }
}
