//! How podnudge knows that the application runs a digest, and what `in_sync` says of it.
//!
//! `Rule::status` computes `in_sync`. It is `no` unless the digest that is known to run is the one in the
//! volumes, and all of them are there and readable. It is also `no` while the target ends again and again
//! (`application/crashes.rs`). Otherwise the evidence decides: `yes` for `verified`, `read-at-start` and `accepted`; `unknown` for
//! `read`, `delivered` and `unread`, and for content that podnudge found at its start and could not date. In place of
//! `yes` it is `unknown` while the volumes may have held content that no scan found, from a commit or a write until its
//! scan has ended, and while a problem hides what runs (`ProblemKind::hides_what_runs`). It is also `unknown` as long as
//! the rule has no action and the content is not known to run.
//!
//! A rollout ends with its evidence. `rollout/verification.rs` knows what survival alone is worth after the action; a
//! proof is worth more. The edge finds none while the signal is still pending (`process/signal.rs`). `volume/reads.rs`
//! watches from just before the action whether a key of the content is opened, not by podnudge itself: if none is
//! within some seconds, the evidence is `unread`, whatever was proven. The evidence is kept beside the digest: in
//! `application/running.rs`, in the state directory, and in the record of the publish directory.
//!
//! An action that was delivered or has failed makes what runs unknown until the outcome. Where the application reads
//! the volumes, so does a start of the target while content that no scan found may have been there. The watch counts
//! the kubelet's swaps: one swap to equal content proves that nothing else was there (`intake/source/volume.rs`). How
//! old a process counts that was forked, `process/config_read.rs` says.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long an application may take from its start until it has read its volumes.
pub const MAX_STARTUP: Duration = Duration::from_secs(10);

/// How podnudge knows that the application runs a digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// There is no evidence that the application runs the digest.
    #[default]
    None,
    /// As `Delivered` or more, but nothing has opened a key of the content since the action: the application reads
    /// a copy, another mount, or its configuration only at its start.
    Unread,
    /// The target received the signal and survived. It may have kept its old configuration.
    Delivered,
    /// As `Delivered`, and a key of the content was opened since the action. The application may have rejected it.
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
    /// There is evidence that the application runs the content.
    Yes,
    /// The application does not run the content, or podnudge is still working on it.
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
