//! One exchange with the outside: an HTTP request, a socket command, or a program. Each is limited
//! in time and size, and done once.
//!
//! The callers (`action`, `checks` and `verify`) interpret the answer.

pub mod children;
pub(crate) mod client;
pub(crate) mod connect;
mod connection;
#[cfg(test)]
#[path = "../../tests/fuzz/exchange.rs"]
mod fuzz;
#[cfg(feature = "tls")]
pub mod handshake;
pub mod http;
#[cfg(feature = "cluster")]
pub(crate) mod items;
#[cfg(feature = "cluster")]
pub mod kept;
#[cfg(feature = "cluster")]
pub(crate) mod lines;
mod output;
pub mod program;
mod program_process;
pub mod program_supervisor;
mod relay;
mod report;
#[cfg(feature = "tls")]
mod session;
pub mod socket;

use std::io;

use podnudge_core::reason::Reason;

/// Whether an answer is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The server sent all of it.
    Complete,
    /// The answer is longer than the limit.
    Truncated,
    /// The connection failed or the time limit passed before its end, as described.
    Aborted(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeError {
    /// Nothing listens there: the application does not run (yet).
    NotListening(Reason),
    /// There is no answer for another reason.
    Failed(Reason),
}

impl ExchangeError {
    /// The message and its hint.
    #[must_use]
    pub fn into_reason(self) -> Reason {
        match self {
            Self::NotListening(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// The kind of address that a connection was attempted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    /// A socket file.
    UnixSocket,
    /// A port of a host.
    Port,
}

/// Classifies a failed connection, and adds a hint.
fn connection_error(reason: Reason, by: AddressKind, kind: io::ErrorKind) -> ExchangeError {
    match (kind, by) {
        (io::ErrorKind::NotFound, AddressKind::UnixSocket) => ExchangeError::NotListening(reason.hint(
            "the application may be starting; the directory of the socket must be in a volume that both containers mount",
        )),
        (io::ErrorKind::ConnectionRefused, AddressKind::UnixSocket) => ExchangeError::NotListening(reason.hint(
            "no process listens there: the application may be starting, and the socket left over from an earlier run",
        )),
        (io::ErrorKind::ConnectionRefused, AddressKind::Port) => ExchangeError::NotListening(
            reason.hint("no process listens there: the application may be starting; check the port"),
        ),
        (io::ErrorKind::PermissionDenied, AddressKind::UnixSocket) => {
            let uid = rustix::process::geteuid().as_raw();
            ExchangeError::Failed(reason.hint(format!(
                "podnudge runs as uid {uid}, which must be allowed to write to the socket; let the application set its mode or owner, or run podnudge as its uid"
            )))
        }
        _ => ExchangeError::Failed(reason),
    }
}

/// Installs ring as the crypto provider for TLS. Call it once before the first request: without a
/// provider, building a client panics.
pub fn install_crypto() {
    #[cfg(feature = "tls")]
    // It fails only if a provider is installed already, and that is the same one.
    drop(rustls::crypto::ring::default_provider().install_default());
}
