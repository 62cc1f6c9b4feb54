//! Connects to an address. The preflight closes the connection again: it shows whether anything
//! listens there.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{AddressKind, ExchangeError, connection_error};
use crate::system::threads::Thread;
use podnudge_config::{Endpoint, SocketAddress};
use podnudge_core::reason::Reason;

/// Connects to the host of a URL, or to the socket of the endpoint.
///
/// # Errors
/// If nothing accepts the connection in time.
pub(crate) async fn to_endpoint(endpoint: &Endpoint, limit: Duration) -> Result<(), ExchangeError> {
    let what = if let Some(socket) = &endpoint.unix_socket {
        SocketAddress::Unix(socket.clone()).to_string()
    } else {
        let port = endpoint.url.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", endpoint.url.host_str().unwrap_or_default())
    };
    let connection = async {
        match open_endpoint(endpoint, limit).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(timed_out(&what, limit)),
            Err(error) => Err(failed(&what, kind(endpoint), &error)),
        }
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
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that is being opened.
type Opening<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Stream>, ExchangeError>> + Send + 'a>>;

/// Opens a connection to a socket. In a box, because each kind of future costs some KiB of the binary.
pub(super) fn open(address: &SocketAddress) -> Opening<'_> {
    Box::pin(async move {
        let what = address.to_string();
        let stream: Box<dyn Stream> = match address {
            SocketAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                Box::new(stream.map_err(|error| failed(&what, AddressKind::UnixSocket, &error))?)
            }
            SocketAddress::Tcp(address) => {
                let stream = TcpStream::connect(*address).await;
                Box::new(stream.map_err(|error| failed(&what, AddressKind::Port, &error))?)
            }
        };
        Ok(stream)
    })
}

/// Opens a connection to the host of a URL, or to the socket of the endpoint. The addresses of a
/// host are tried one after the other, each for its share of `limit`.
///
/// # Errors
/// If nothing accepts the connection: the error of the last address.
pub(super) async fn open_endpoint(
    endpoint: &Endpoint,
    limit: Duration,
) -> io::Result<Box<dyn Stream>> {
    if let Some(socket) = &endpoint.unix_socket {
        return Ok(Box::new(UnixStream::connect(socket).await?));
    }
    let port = endpoint.url.port_or_known_default().unwrap_or_default();
    let addresses: Vec<_> = resolve(host(endpoint), port).await?;
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                notice_dead_peer(&stream)?;
                return Ok(Box::new(stream));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Lets the kernel find out that the other side has gone without a word, which an answer that goes on for
/// minutes would not show.
fn notice_dead_peer(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

/// The addresses of a host.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    let resolved = Thread::start()?.run(move || (host, port).to_socket_addrs()).await?;
    Ok(resolved.collect())
}

/// The host of the URL; an IPv6 address without its brackets.
pub(super) fn host(endpoint: &Endpoint) -> &str {
    endpoint.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

/// What the endpoint connects to.
pub(super) fn kind(endpoint: &Endpoint) -> AddressKind {
    if endpoint.unix_socket.is_some() { AddressKind::UnixSocket } else { AddressKind::Port }
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
    timeout(limit, connection).await.unwrap_or_else(|_| Err(timed_out(what, limit)))
}

fn timed_out(what: &str, limit: Duration) -> ExchangeError {
    let limit = humantime::format_duration(limit);
    let reason = Reason::new(format!("cannot connect to `{what}` within {limit}"));
    ExchangeError::Failed(
        reason.hint("check the address, and that no NetworkPolicy forbids the connection"),
    )
}
