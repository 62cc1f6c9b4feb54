//! A client of reqwest with its relay, and so with its connection to one server: for one request after the other.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, Response};
#[cfg(feature = "cluster")]
use tokio::task::yield_now;

use super::ExchangeError;
use super::client::{self, CANNOT_SET_UP};
use super::relay::{self, Answer, Failure, Relaying};
use podnudge_config::Endpoint;
use podnudge_core::reason::Reason;

/// How often all other tasks run until a connection whose answer was read is free for the next request. No task waits
/// for anything else then.
#[cfg(feature = "cluster")]
const TURNS: usize = 8;

/// A client of reqwest, with its relay to one server.
pub(super) struct Connection {
    pub(super) client: Client,
    relay: Relaying,
    answer: Arc<Answer>,
}

impl Connection {
    /// Connects with the first request.
    ///
    /// # Errors
    /// If there are no descriptors left, or a certificate cannot be read.
    pub(super) fn open(endpoint: &Endpoint) -> Result<Self, ExchangeError> {
        let (listener, socket) = relay::open().map_err(|error| {
            ExchangeError::Failed(Reason::new(format!("{CANNOT_SET_UP}: {error}")))
        })?;
        let client = client::client(endpoint, Path::new(&socket)).map_err(ExchangeError::Failed)?;
        let answer = Arc::<Answer>::default();
        let relay = Relaying::new(relay::serve(listener, endpoint.clone(), Arc::clone(&answer)));
        Ok(Self { client, relay, answer })
    }

    /// Sends a request, and returns its response as soon as the headers are there.
    pub(super) async fn send(
        &mut self,
        request: reqwest::RequestBuilder,
    ) -> Result<Response, (reqwest::Error, Option<Failure>)> {
        self.answer.is_awaited();
        let sent = self.relay.during(request.send()).await;
        let response = sent.map_err(|error| (error, self.relay.failure.take()))?;
        self.answer.has_begun();
        Ok(response)
    }

    /// Awaits what needs the connection.
    pub(super) async fn during<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        self.relay.during(awaited).await
    }

    /// Whether another request can be sent, after the answer to the last one was read.
    #[cfg(feature = "cluster")]
    pub(super) async fn is_free(&mut self) -> bool {
        let turns = async {
            for _ in 0..TURNS {
                yield_now().await;
            }
        };
        self.relay.during(turns).await;
        self.relay.is_open()
    }
}
