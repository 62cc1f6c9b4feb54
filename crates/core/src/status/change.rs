//! What became of the recent changes of a rule. The core does not remember them: the loop sets them.

use serde::Serialize;

use crate::clock::UnixTime;
use crate::evidence::Evidence;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// New content, or a trigger, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The content; `None` until it is known, and if it must not be shown.
    pub digest: Option<Digest>,
    /// Whether a person triggered it.
    pub triggered: bool,
    /// The keys that differ from the content before; `None` if they must not be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<ChangedKeys>,
    /// When the volume was committed, if the content came with a commit.
    pub committed_at: Option<UnixTime>,
    /// When the last step ended; `None` while it goes on.
    pub ended_at: Option<UnixTime>,
    /// How it ended.
    pub outcome: Outcome,
    /// How podnudge knows that the application runs the content.
    pub evidence: Evidence,
    /// The last reason to wait, to reject the content, to try again or to give up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The number of the last attempt, from 1 on; 0 before the first action.
    pub attempts: u32,
    /// How many attempts are made, known once the first one failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_allowed: Option<u32>,
    /// In the order of time, each from the end of the one before. Of very many attempts, those in the middle are one
    /// step, [`StepName::Repeat`].
    pub steps: Vec<Step>,
}

impl Change {
    /// When the first step began.
    #[must_use]
    pub fn began_at(&self) -> UnixTime {
        self.steps.first().map(|step| step.began_at).unwrap_or_default()
    }
}

/// Names of keys, escaped, and cut if they are long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChangedKeys {
    /// Keys that only the new content has.
    pub added: Vec<String>,
    /// Keys with another content.
    pub changed: Vec<String>,
    /// Keys that only the old content had.
    pub removed: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// A part of the time that a change has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What podnudge did.
    pub step: StepName,
    /// Since when. It ends with the beginning of the next one.
    pub began_at: UnixTime,
}

/// What podnudge did in a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepName {
    /// From the commit until the volumes were quiet and read.
    Settle,
    /// The checks ran.
    Check,
    /// The jitter, a hold, a slot, a drain, the target or the next attempt.
    Wait,
    /// The content was published, and the actions ran.
    Act,
    /// The actions were sent, and the outcome was not known.
    Verify,
    /// Attempts whose steps are not remembered.
    Repeat,
}

impl StepName {
    /// In the order of a change without retries.
    pub const ALL: [Self; 5] = [Self::Settle, Self::Check, Self::Wait, Self::Act, Self::Verify];

    /// The name in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Settle => "settle",
            Self::Check => "check",
            Self::Wait => "wait",
            Self::Act => "act",
            Self::Verify => "verify",
            Self::Repeat => "repeat",
        }
    }
}

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The change has not ended.
    InProgress,
    /// The application runs the content.
    Applied,
    /// The content was delivered, and there is no proof.
    Delivered,
    /// The content went back to what the application runs.
    Cancelled,
    /// Newer content took its place.
    Superseded,
    /// The checks rejected the content.
    Rejected,
    /// The content failed, and podnudge went back to the last good content.
    RolledBack,
    /// The last attempt failed.
    Failed,
    /// The target ended just after the action.
    Tripped,
}

impl Outcome {
    /// The name in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in-progress",
            Self::Applied => "applied",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
            Self::Rejected => "rejected",
            Self::RolledBack => "rolled-back",
            Self::Failed => "failed",
            Self::Tripped => "tripped",
        }
    }
}
