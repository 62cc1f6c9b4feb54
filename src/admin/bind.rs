//! Opens the port of the admin listener.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket};

use crate::system::exit::chain;
use podnudge_config::Listen;
use podnudge_core::reason::Reason;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// Why the listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

impl BindError {
    /// The error with a hint.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let reason = Reason::new(chain(self));
        let port = self.address.port();
        match self.source.kind() {
            io::ErrorKind::AddrInUse => reason.hint(format!(
                "the containers of a pod share their ports: something in it, perhaps another podnudge, uses {port}; set listen to another port, or to `off`"
            )),
            io::ErrorKind::PermissionDenied => reason.hint(format!(
                "port {port} needs root; choose a port from 1024 on"
            )),
            io::ErrorKind::AddrNotAvailable => {
                reason.hint("the address does not belong to this pod; use `[::]` or `127.0.0.1`")
            }
            _ => reason,
        }
    }
}

/// Opens the listener. Must be called inside a tokio runtime.
///
/// # Errors
/// If the address cannot be used.
pub fn bind(listen: Listen) -> Result<Option<TcpListener>, BindError> {
    let address = match listen {
        Listen::Off => return Ok(None),
        Listen::Default(address) | Listen::Explicit(address) => address,
    };
    let opened = match open(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_without_ipv6(&error) => {
            open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        opened => opened,
    };
    opened.map(Some).map_err(|source| BindError { address, source })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    if address.is_ipv6() {
        // Otherwise `net.ipv6.bindv6only` decides whether `::` serves IPv4, too.
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Whether IPv6 is disabled in the kernel (`ipv6.disable=1`), or has no address to bind to.
fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}
