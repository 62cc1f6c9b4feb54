//! What podnudge does besides signalling: HTTP requests, commands on sockets, and programs to run.

pub mod exec;
pub mod http;
pub mod socket;

use crate::core::event::Reason;

/// How an answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEnd {
    /// As the server meant it to.
    Whole,
    /// It goes on beyond what was asked for.
    Cut,
    /// It broke off, or did not end in time: how.
    BrokeOff(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeError {
    /// Nobody listens: the application is not there (yet).
    NotThere(Reason),
    /// Anything else.
    Failed(Reason),
}

impl ExchangeError {
    /// What to tell people.
    #[must_use]
    pub fn into_reason(self) -> Reason {
        match self {
            Self::NotThere(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// Makes ring the provider of cryptography for TLS. Must be called once before the first request:
/// without a provider, building a client panics.
pub fn install_crypto() {
    #[cfg(feature = "tls")]
    // It fails only if there is one already, and then that is the same one.
    drop(rustls::crypto::ring::default_provider().install_default());
}
