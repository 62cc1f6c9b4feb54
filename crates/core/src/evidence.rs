//! How podnudge knows that the application runs a digest.

use serde::{Deserialize, Serialize};

/// How podnudge knows that the application runs a digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// It does not.
    #[default]
    None,
    /// As `Delivered` or more, but nothing has opened a key of the content since the action: the application reads
    /// a copy, another mount, or its configuration only at its start.
    Unread,
    /// The target received the signal and survived. It may have kept its old configuration.
    Delivered,
    /// The same, and a key of the content was opened since the action. The application may have rejected it.
    Read,
    /// The application answered the request with success, or the program ended with 0.
    Accepted,
    /// The target started after the content was in place, and survived.
    ReadAtStart,
    /// The configured proofs were found.
    Verified,
}

/// Whether the application runs the content on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InSync {
    /// There is evidence that it does.
    Yes,
    /// It does not, or podnudge is still working on it.
    No,
    /// Nothing is known to be wrong, and there is no evidence either.
    Unknown,
}

impl Evidence {
    /// From weakest to strongest.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Unread,
        Self::Delivered,
        Self::Read,
        Self::Accepted,
        Self::ReadAtStart,
        Self::Verified,
    ];

    /// The name in status, log and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unread => "unread",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Accepted => "accepted",
            Self::ReadAtStart => "read-at-start",
            Self::Verified => "verified",
        }
    }

    /// Whether it shows that the application runs the content.
    #[must_use]
    pub fn is_proof(self) -> bool {
        matches!(self, Self::Accepted | Self::ReadAtStart | Self::Verified)
    }
}
