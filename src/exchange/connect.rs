//! Connects to an address, and closes the connection: shows whether anything listens there.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{AddressKind, ExchangeError, connection_error};
use crate::config::{Endpoint, SocketAddress};
use crate::reason::Reason;

/// Connects to the host of a URL, or to the socket of the endpoint.
///
/// # Errors
/// If nothing accepts the connection in time.
pub(crate) async fn to_endpoint(endpoint: &Endpoint, limit: Duration) -> Result<(), ExchangeError> {
    if let Some(socket) = &endpoint.unix_socket {
        return to_socket(&SocketAddress::Unix(socket.clone()), limit).await;
    }
    let url = &endpoint.url;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Ok(());
    };
    // The URL has an IPv6 address in brackets.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let what = format!("{host}:{port}");
    let connection = async {
        let stream = TcpStream::connect((name, port)).await;
        stream.map(drop).map_err(|error| failed(&what, AddressKind::Port, &error))
    };
    within(limit, &what, connection).await
}

/// Connects to a socket.
///
/// # Errors
/// If nothing accepts the connection in time.
pub(crate) async fn to_socket(
    address: &SocketAddress,
    limit: Duration,
) -> Result<(), ExchangeError> {
    within(limit, &address.to_string(), async { open(address).await.map(drop) }).await
}

/// A connection of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens a connection to a socket.
pub(super) async fn open(address: &SocketAddress) -> Result<Box<dyn Stream>, ExchangeError> {
    let what = address.to_string();
    match address {
        SocketAddress::Unix(path) => {
            let stream = UnixStream::connect(path).await;
            Ok(Box::new(stream.map_err(|error| failed(&what, AddressKind::UnixSocket, &error))?))
        }
        SocketAddress::Tcp(address) => {
            let stream = TcpStream::connect(*address).await;
            Ok(Box::new(stream.map_err(|error| failed(&what, AddressKind::Port, &error))?))
        }
    }
}

fn failed(what: &str, kind: AddressKind, error: &io::Error) -> ExchangeError {
    let reason = Reason::new(format!("cannot connect to `{what}`: {error}"));
    connection_error(reason, kind, error.kind())
}

async fn within(
    limit: Duration,
    what: &str,
    connection: impl Future<Output = Result<(), ExchangeError>>,
) -> Result<(), ExchangeError> {
    timeout(limit, connection).await.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        let reason = Reason::new(format!("cannot connect to `{what}` within {limit}"));
        Err(ExchangeError::Failed(
            reason.hint("check the address, and that no NetworkPolicy forbids the connection"),
        ))
    })
}
