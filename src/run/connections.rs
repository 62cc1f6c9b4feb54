//! Serves a limited number of admin connections. A new connection replaces the oldest one, so that
//! clients that stay connected cannot block the kubelet's probes. Opens the listeners, and a port that was in use later.

use std::collections::VecDeque;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{info, warn};

use super::clock;
use crate::admin::bind::{self, BindError};
use crate::admin::server::Accepted;
use crate::system::own_socket;
use podnudge_config::Listen;
use podnudge_core::clock::Moment;

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

    /// Whether to accept another connection. Those that were aborted have to end first.
    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < 2 * MAX_CONNECTIONS
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
    listen: Listen,
    port: Option<TcpListener>,
    /// When to try again to open the port.
    retry_at: Option<Moment>,
    pace: Duration,
    own_socket: Option<UnixListener>,
}

impl Listeners {
    /// Opens the port. If the default one is in use, that is a warning, and it is tried again at this pace.
    ///
    /// # Errors
    /// If another address cannot be used.
    pub(super) fn open(listen: Listen, pace: Duration) -> Result<Self, BindError> {
        let (port, retry_at) = match bind::bind(listen) {
            Err(error) if matches!(listen, Listen::Default(_)) => {
                let reason = error.reason();
                warn!(
                    event = "not-listening",
                    reason = reason.message,
                    hint = reason.hint,
                    "/metrics, /livez, /readyz and /status are not served until the port is free"
                );
                (None, Some(clock::now().mono.after(pace)))
            }
            opened => (opened?, None),
        };
        Ok(Self { listen, port, retry_at, pace, own_socket: None })
    }

    /// With the socket for podnudge's own container, unless another podnudge there has it.
    pub(super) fn with_own_socket(self) -> Self {
        Self { own_socket: own_socket::bind().ok(), ..self }
    }

    /// Tries again to open the port, if it is time to. Returns when to do so next.
    pub(super) fn retry(&mut self) -> Option<Moment> {
        let at = self.retry_at?;
        let now = clock::now().mono;
        if now < at {
            return Some(at);
        }
        self.port = bind::bind(self.listen).ok().flatten();
        match self.address() {
            Some(listen) => {
                info!(event = "listening", %listen, "/metrics, /livez, /readyz and /status are served");
                self.retry_at = None;
            }
            None => self.retry_at = Some(now.after(self.pace)),
        }
        self.retry_at
    }

    /// The address of the port.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Accepts the next connection; waits forever if there is no listener.
    pub(super) async fn accept(&self) -> Accepted {
        loop {
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
            match accepted {
                Ok(accepted) => return accepted,
                Err(_) => clock::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn no_connection_is_accepted_before_those_that_were_aborted_have_ended() {
        let mut connections = Connections::default();
        // As while a client opens connections faster than podnudge accepts them.
        for _ in 0..1000 {
            while connections.has_room() {
                connections.serve(pending());
                assert!(connections.order.len() <= MAX_CONNECTIONS);
            }
            assert_eq!(connections.tasks.len(), 2 * MAX_CONNECTIONS);
            connections.ended().await;
        }
    }

    /// A call of itself for each failure would overflow the stack.
    #[tokio::test(start_paused = true)]
    async fn accept_may_fail_for_an_hour() {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd =
            socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("it opens");
        // It does not listen, so that each `accept` fails.
        let port = TcpListener::from_std(socket.into()).expect("it is registered");
        assert!(port.accept().await.is_err());
        let (listen, retry_at, pace, own_socket) = (Listen::Off, None, Duration::ZERO, None);
        let listeners = Listeners { listen, port: Some(port), retry_at, pace, own_socket };
        let hour = Duration::from_hours(1);
        assert!(timeout(hour, listeners.accept()).await.is_err());
    }
}
