//! Where the delivery of a rule's content to its application is.

use super::event::VolumeId;
use super::look::OnDisk;
use super::seen::Doubt;
use super::status::State;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// Before the first complete look.
    Starting,
    /// What is on disk is known; since when the target runs is being asked.
    Inspecting(Question),
    Idle,
    /// New content waits for its turn; what is on disk at that time is taken.
    Waiting {
        fire_at: Moment,
    },
    /// It is being asked whether a file pauses the rule.
    LookingForPause(Attempt),
    /// Something keeps the rule from beginning, at least until `at`.
    Held {
        attempt: Attempt,
        at: Option<Moment>,
        reason: Reason,
    },
    /// What is to be delivered is being put where the application reads.
    Publishing(Attempt),
    Acting(Attempt),
    /// The target is not there: neither done nor failed.
    TargetAbsent {
        attempt: Attempt,
        at: Moment,
        reason: Reason,
    },
    Verifying(Verification),
    /// Failed, and tried again at `at`.
    Backoff {
        attempt: Attempt,
        at: Moment,
        reason: Reason,
    },
    /// Refused, and looked at again at `at`; or given up, where `at` is `None`.
    Failed {
        attempt: Attempt,
        at: Option<Moment>,
        reason: Reason,
    },
    /// The target ended just after the action.
    Tripped {
        digest: Digest,
        reason: Reason,
    },
    Stopped,
}

/// Why it is asked since when the target runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// The first look is complete: has the target read what is on disk?
    FirstLook,
    /// The first look found what is remembered, committed anew: did the target start meanwhile,
    /// and read something else?
    Remembered,
    /// The content is what the application runs, but it was committed anew: did the target start
    /// meanwhile, and read something else?
    Unchanged,
    /// The same, after content that was not delivered.
    GoneBack,
}

/// One try to bring a digest to the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    /// What was on disk.
    pub(super) disk: OnDisk,
    /// What is delivered instead, because what was on disk does not work.
    pub(super) back_to: Option<Digest>,
    /// 1 for the first; looks for a target that is not there do not count.
    pub(super) number: u32,
    pub(super) forced: bool,
    /// The target is restarted instead.
    pub(super) restart: bool,
    /// The target was restarted with what is taken back.
    pub(super) after_restart: bool,
    /// What was open about the volumes when it began.
    pub(super) doubts: Vec<(VolumeId, Doubt)>,
    /// Since when the target is not there, and how often it was looked for.
    pub(super) absent: Option<(Moment, u32)>,
    /// The last absence or refusal that was reported, as which: each is said once.
    pub(super) said: Option<(State, Reason)>,
}

impl Attempt {
    /// The first for what is on disk.
    pub(super) fn first(disk: OnDisk, forced: bool) -> Self {
        Self {
            disk,
            back_to: None,
            number: 1,
            forced,
            restart: false,
            after_restart: false,
            doubts: Vec::new(),
            absent: None,
            said: None,
        }
    }

    /// Whether this was reported already. A hint may tell of what comes and goes by itself.
    pub(super) fn has_said(&self, state: State, reason: &Reason) -> bool {
        let said = self.said.as_ref();
        said.is_some_and(|(of, said)| *of == state && said.message == reason.message)
    }

    /// What is delivered.
    pub(super) fn digest(&self) -> Digest {
        self.back_to.unwrap_or(self.disk.digest)
    }
}

/// Waiting for the proof that the application took a digest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verification {
    pub(super) attempt: Attempt,
    pub(super) acted_at: Moment,
    /// Whether the target read it when it started: nothing was sent to it.
    pub(super) is_fresh: bool,
    /// When the proof is no longer waited for.
    pub(super) deadline: Moment,
    /// How often the proof was looked for in vain.
    pub(super) looks: u32,
    /// Whether the target has ended during the look that is under way.
    pub(super) has_ended: bool,
    /// When to look next; `None` while a look is under way.
    pub(super) next_look: Option<Moment>,
    /// Why the last look was in vain.
    pub(super) pending: Option<Reason>,
}

impl Phase {
    /// When this phase wants to go on by itself.
    pub(super) fn due(&self) -> Option<Moment> {
        match self {
            Self::Waiting { fire_at: at }
            | Self::TargetAbsent { at, .. }
            | Self::Backoff { at, .. } => Some(*at),
            Self::Failed { at, .. } | Self::Held { at, .. } => *at,
            _ => None,
        }
    }

    /// The try that goes on.
    pub(super) fn attempt(&self) -> Option<&Attempt> {
        match self {
            Self::Publishing(attempt)
            | Self::LookingForPause(attempt)
            | Self::Acting(attempt)
            | Self::Held { attempt, .. }
            | Self::TargetAbsent { attempt, .. }
            | Self::Backoff { attempt, .. }
            | Self::Failed { attempt, .. } => Some(attempt),
            Self::Verifying(verification) => Some(&verification.attempt),
            _ => None,
        }
    }

    /// The try that follows when this one's time has come, if it waits for one.
    pub(super) fn next_attempt(&self) -> Option<Attempt> {
        match self {
            Self::Backoff { attempt, .. } => {
                let number = attempt.number.saturating_add(1);
                Some(Attempt { number, forced: false, ..attempt.clone() })
            }
            Self::TargetAbsent { attempt, .. }
            | Self::Failed { attempt, .. }
            | Self::Held { attempt, .. } => Some(attempt.clone()),
            _ => None,
        }
    }

    /// Whether what does not work is being taken back.
    pub(super) fn is_rolling_back(&self) -> bool {
        self.attempt().is_some_and(|attempt| attempt.back_to.is_some())
    }

    /// Whether something is being done that is not broken off.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::LookingForPause(_) | Self::Publishing(_) | Self::Acting(_) | Self::Verifying(_)
        )
    }

    /// The digest that was, or was to be, delivered and has come to rest short of the
    /// application.
    pub(super) fn stuck_on(&self) -> Option<Digest> {
        match self {
            Self::TargetAbsent { attempt, .. }
            | Self::Held { attempt, .. }
            | Self::Backoff { attempt, .. }
            | Self::Failed { attempt, .. } => Some(attempt.disk.digest),
            Self::Tripped { digest, .. } => Some(*digest),
            _ => None,
        }
    }

    pub(super) fn reason(&self) -> Option<&Reason> {
        match self {
            Self::TargetAbsent { reason, .. }
            | Self::Held { reason, .. }
            | Self::Backoff { reason, .. }
            | Self::Failed { reason, .. }
            | Self::Tripped { reason, .. } => Some(reason),
            Self::Verifying(verification) => verification.pending.as_ref(),
            _ => None,
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::Starting | Self::Inspecting(Question::FirstLook | Question::Remembered) => {
                State::Starting
            }
            Self::Idle | Self::Inspecting(_) => State::Idle,
            Self::Waiting { .. } => State::Waiting,
            Self::Publishing(_)
            | Self::Acting(_)
            | Self::Verifying(_)
            | Self::TargetAbsent { .. }
            | Self::Backoff { .. }
                if self.is_rolling_back() =>
            {
                State::RollingBack
            }
            Self::Held { .. } | Self::LookingForPause(_) => State::Held,
            Self::Publishing(_) => State::Publishing,
            Self::Acting(_) => State::Acting,
            Self::TargetAbsent { .. } => State::WaitingForTarget,
            Self::Verifying(_) => State::Verifying,
            Self::Backoff { .. } => State::Backoff,
            Self::Failed { .. } => State::Failed,
            Self::Tripped { .. } => State::Tripped,
            Self::Stopped => State::Stopped,
        }
    }
}
