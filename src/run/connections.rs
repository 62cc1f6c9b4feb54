//! Serves a limited number of admin connections. A new connection replaces the oldest one, so that
//! clients that stay connected cannot block the kubelet's probes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::clock;

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
            None => std::future::pending().await,
        }
    }
}

/// Accepts the next connection; waits forever if there is no listener.
pub(super) async fn accept(listener: Option<&TcpListener>) -> (TcpStream, SocketAddr) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => clock::sleep(ACCEPT_PAUSE).await,
        }
    }
}
