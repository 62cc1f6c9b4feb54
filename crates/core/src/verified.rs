//! What one look at the application finds after an action: the answer to `Command::Verify`.

use crate::reason::Reason;

/// The result of one poll of the application after an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Whether the process that was acted on is still running.
    pub alive: Alive,
    /// Whether the configured proof was found.
    pub proof: Proof,
    /// Whether the new content was opened since the action.
    pub reads: Reads,
}

/// Whether a key of the new content was opened since the action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reads {
    /// Whether a key was opened cannot be told, or the action does not have the application read the content.
    #[default]
    Unknown,
    /// No key was opened.
    Nothing,
    /// A key was opened: by the application, the kubelet or another container.
    Key,
}

/// Whether the process that was acted on is still running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alive {
    /// The process runs: pid and start time are unchanged.
    Yes,
    /// No process was acted on (HTTP without a target).
    Unknown,
    /// podnudge itself ended the process, for another rule. From now on, verify the process that
    /// replaces it.
    Replaced,
    /// podnudge itself ended the process, and no new one exists yet.
    Absent(Absence),
    /// The process ended.
    Gone(Reason),
}

/// Whether the configured proof was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// No proof is configured.
    NotConfigured,
    /// The proof was found.
    Given,
    /// The proof was not found yet, for this reason.
    Pending(Reason),
}

/// No target process exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// A description of the missing target.
    pub reason: Reason,
    /// Whether a process has read the current publication: then a process existed, and has ended.
    pub was_read: bool,
}

impl Absence {
    /// An absence without evidence that a process has read the current publication.
    #[must_use]
    pub fn unread(reason: Reason) -> Self {
        Self { reason, was_read: false }
    }
}
