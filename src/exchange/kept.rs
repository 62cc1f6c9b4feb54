//! The connection to a server that gets several requests within some seconds: the API server. To open one, with its TLS
//! handshake, costs both sides several times as much as a request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::connection::Connection;
use crate::system::files;
use podnudge_config::Endpoint;
use podnudge_core::clock::Moment;

/// How long it is kept: servers and proxies close what is idle after a minute or more. It holds some memory.
const IDLE: Duration = Duration::from_secs(15);

/// A connection that is free, if there is one. Clones share it.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Option<Free>>>);

struct Free {
    of: Of,
    connection: Connection,
    /// `None` until [`Kept::close_idle`] has seen it.
    until: Option<Moment>,
}

/// To which server, and by which CA certificates.
#[derive(PartialEq)]
struct Of {
    origin: String,
    certificates: Option<[u8; 32]>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Kept")
    }
}

impl Kept {
    /// Closes it if it was not used for some seconds. To be called after each request.
    pub(crate) fn close_idle(&self, now: Moment) {
        self.with(|kept| {
            kept.take_if(|free| now >= *free.until.get_or_insert_with(|| now.after(IDLE)));
        });
    }

    /// When to call [`Kept::close_idle`] again.
    pub(crate) fn next_wakeup(&self) -> Option<Moment> {
        self.with(|kept| kept.as_ref()?.until)
    }

    /// The connection, for a request to this endpoint.
    pub(super) async fn take(&self, endpoint: &Endpoint) -> Option<Connection> {
        let Free { of, mut connection, .. } = self.with(Option::take)?;
        (Of::endpoint(endpoint)? == of && connection.is_free().await).then_some(connection)
    }

    /// Keeps it for the next request.
    pub(super) async fn keep(&self, endpoint: &Endpoint, mut connection: Connection) {
        let Some(of) = Of::endpoint(endpoint) else { return };
        if connection.is_free().await {
            self.with(|kept| *kept = Some(Free { of, connection, until: None }));
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Option<Free>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Of {
    fn endpoint(endpoint: &Endpoint) -> Option<Self> {
        let certificates = match &endpoint.tls {
            Some(tls) => Some(files::read_with_hint(&tls.ca_file, files::LARGEST).ok()?),
            None => None,
        };
        Some(Self {
            origin: endpoint.url.origin().ascii_serialization(),
            certificates: certificates.map(|bundle| Sha256::digest(&bundle).into()),
        })
    }
}
