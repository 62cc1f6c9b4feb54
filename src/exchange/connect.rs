//! Connects to an address, and closes the connection: shows whether anything listens there.

use std::io;
use std::time::Duration;

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
    connected(&what, AddressKind::Port, limit, TcpStream::connect((name, port))).await
}

/// Connects to a socket.
///
/// # Errors
/// If nothing accepts the connection in time.
pub(crate) async fn to_socket(
    address: &SocketAddress,
    limit: Duration,
) -> Result<(), ExchangeError> {
    let what = address.to_string();
    match address {
        SocketAddress::Unix(path) => {
            connected(&what, AddressKind::UnixSocket, limit, UnixStream::connect(path)).await
        }
        SocketAddress::Tcp(address) => {
            connected(&what, AddressKind::Port, limit, TcpStream::connect(*address)).await
        }
    }
}

async fn connected<T>(
    what: &str,
    kind: AddressKind,
    limit: Duration,
    connection: impl Future<Output = io::Result<T>>,
) -> Result<(), ExchangeError> {
    match timeout(limit, connection).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            let reason = Reason::new(format!("cannot connect to `{what}`: {error}"));
            Err(connection_error(reason, kind, error.kind()))
        }
        Err(_) => {
            let limit = humantime::format_duration(limit);
            let reason = Reason::new(format!("cannot connect to `{what}` within {limit}"));
            Err(ExchangeError::Failed(
                reason.hint("check the address, and that no NetworkPolicy forbids the connection"),
            ))
        }
    }
}
