//! The connections to the admin listener: few at a time, and the newest goes before the oldest,
//! so that clients that hold on do not keep the kubelet's probes out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::clock;

/// How many connections are served at a time.
const MOST: usize = 32;
/// How long nothing is accepted after that has failed, mostly for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// In the order in which they came.
    order: VecDeque<AbortHandle>,
}

impl Connections {
    /// Serves a connection; where there are too many, the oldest one ends.
    pub(super) fn serve(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        if self.order.len() >= MOST
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        self.order.push_back(self.tasks.spawn(connection));
    }

    /// Waits for the end of a connection; for ever, where there is none.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(_) => self.order.retain(|task| !task.is_finished()),
            None => std::future::pending().await,
        }
    }
}

/// The next connection; never, where there is no listener.
pub(super) async fn accept(listener: Option<&TcpListener>) -> (TcpStream, SocketAddr) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => clock::sleep(PAUSE).await,
        }
    }
}
