//! One exchange with somebody else: an HTTP request, a command on a socket, a program that is run.
//! Each is bounded in time and size, and is done once.
//!
//! What an answer means is told by who asks: `action`, `checks` and `verify`.

pub mod http;
pub mod program;
pub mod socket;

use std::io;

use crate::reason::Reason;

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

/// What somebody was to be reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A socket file.
    File,
    /// A port of a host.
    Port,
}

/// That there is no connection, with what can be done about it.
fn no_connection(reason: Reason, by: By, kind: io::ErrorKind) -> ExchangeError {
    match (kind, by) {
        (io::ErrorKind::NotFound, By::File) => ExchangeError::NotThere(reason.hint(
            "the application may be starting; the folder of the socket must be a volume that both containers mount",
        )),
        (io::ErrorKind::ConnectionRefused, By::File) => ExchangeError::NotThere(reason.hint(
            "nobody listens there: the socket may be left over, and the application starting",
        )),
        (io::ErrorKind::ConnectionRefused, By::Port) => ExchangeError::NotThere(
            reason.hint("nobody listens there: the application may be starting; look at the port"),
        ),
        (io::ErrorKind::PermissionDenied, By::File) => {
            let uid = rustix::process::geteuid().as_raw();
            ExchangeError::Failed(reason.hint(format!(
                "podnudge runs as uid {uid}, which must be allowed to write to the socket; let the application set its mode or owner, or run podnudge as its uid"
            )))
        }
        _ => ExchangeError::Failed(reason),
    }
}

/// Makes ring the provider of cryptography for TLS. Must be called once before the first request:
/// without a provider, building a client panics.
pub fn install_crypto() {
    #[cfg(feature = "tls")]
    // It fails only if there is one already, and then that is the same one.
    drop(rustls::crypto::ring::default_provider().install_default());
}
