//! Serves a limited number of admin connections. A new connection replaces the oldest one, so that
//! clients that stay connected cannot block the kubelet's probes.

use std::collections::VecDeque;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, JoinSet};

use super::clock;
use crate::admin::server::Accepted;
use crate::system::own_socket;

/// How many connections are served at the same time.
const MAX_CONNECTIONS: usize = 32;
/// How long to wait after a failed `accept`, which mostly means that no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// The oldest first.
    order: VecDeque<AbortHandle>,
}

impl Connections {
    /// Serves a connection; aborts the oldest one if there are too many.
    pub(super) fn serve(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        if self.order.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        self.order.push_back(self.tasks.spawn(connection));
    }

    /// Waits until a connection ends, or forever if there is none.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(_) => self.order.retain(|task| !task.is_finished()),
            None => pending().await,
        }
    }
}

/// Where podnudge is asked, if anywhere.
#[derive(Debug)]
pub(super) struct Listeners {
    port: Option<TcpListener>,
    own_socket: Option<UnixListener>,
}

impl Listeners {
    #[cfg(feature = "cluster")]
    pub(super) fn of_port(port: Option<TcpListener>) -> Self {
        Self { port, own_socket: None }
    }

    /// With the socket for podnudge's own container, unless another podnudge there has it.
    pub(super) fn with_own_socket(port: Option<TcpListener>) -> Self {
        Self { port, own_socket: own_socket::bind().ok() }
    }

    /// The address of the port.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Accepts the next connection; waits forever if there is no listener.
    pub(super) async fn accept(&self) -> Accepted {
        let port = async {
            match &self.port {
                Some(port) => {
                    port.accept().await.map(|(stream, peer)| Accepted::Port(stream, peer))
                }
                None => pending().await,
            }
        };
        let own_socket = async {
            match &self.own_socket {
                Some(socket) => {
                    socket.accept().await.map(|(stream, _)| Accepted::OwnSocket(stream))
                }
                None => pending().await,
            }
        };
        let accepted = tokio::select! {
            accepted = port => accepted,
            accepted = own_socket => accepted,
        };
        if let Ok(accepted) = accepted {
            accepted
        } else {
            clock::sleep(ACCEPT_PAUSE).await;
            Box::pin(self.accept()).await
        }
    }
}
