//! A relay between reqwest and a server, which limits what is received before each answer.
//!
//! reqwest skips informational responses (103 Early Hints and others) by itself, however many there
//! are, and gives no access to them nor to its connection: an endless series would keep the loop busy
//! until the time limit. So reqwest connects to a socket of podnudge's own, and what it sends and
//! receives there, TLS included, is passed on unchanged.
//!
//! Opens a Unix socket with an abstract name, which is in no file system, and the connection to the
//! server. Other processes in the network namespace may connect to that name: they are not served.

use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, copy, split};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::yield_now;

use super::connect::{self, Stream};
use podnudge_config::Endpoint;

/// The most bytes that are received until the headers of the answer are complete: TLS handshake,
/// informational responses, status and headers. hyper allows 100 headers in each response.
pub(super) const BEFORE_ANSWER: usize = 128 * 1024;
/// How often all other tasks run before an answer that has not been found in those bytes is given
/// up. The task that reads them finds it the first time: it does not wait for anything else.
const TURNS: usize = 32;
/// The bytes that are passed on at a time.
const PIECE: usize = 8 * 1024;

/// What the relay and the request know of each other.
#[derive(Default)]
pub(super) struct Answer {
    has_begun: AtomicBool,
    /// The bytes that were received since it is awaited.
    received: AtomicUsize,
}

impl Answer {
    /// A request is sent.
    pub(super) fn is_awaited(&self) {
        self.has_begun.store(false, Ordering::Relaxed);
        self.received.store(0, Ordering::Relaxed);
    }

    /// The headers are complete: whoever reads the body limits what follows.
    pub(super) fn has_begun(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    fn is_missing(&self) -> bool {
        !self.has_begun.load(Ordering::Relaxed)
    }

    fn is_too_long(&self) -> bool {
        self.received.load(Ordering::Relaxed) >= BEFORE_ANSWER
    }
}

/// Why there is no connection between reqwest and the server any more.
pub(super) enum Failure {
    /// There is no connection to the server.
    Connect(io::Error),
    /// The connection to the server broke off.
    Connection(io::Error),
    /// The server sent more than [`BEFORE_ANSWER`].
    TooMuch,
    /// reqwest has closed it.
    Closed,
}

/// Opens the socket that reqwest connects to, and returns its path.
///
/// # Errors
/// If there are no descriptors left.
pub(super) fn open() -> io::Result<(UnixListener, PathBuf)> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let name = format!("\0podnudge-{:032x}", u128::from_ne_bytes(random));
    let path = PathBuf::from(name);
    Ok((UnixListener::bind(&path)?, path))
}

/// Accepts one connection of this process, and relays between it and the server. When this ends, the
/// connection is closed.
///
/// # Errors
/// See [`Failure`].
pub(super) async fn serve(
    listener: UnixListener,
    endpoint: Endpoint,
    answer: Arc<Answer>,
) -> Result<(), Failure> {
    let client = own_connection(listener).await.map_err(Failure::Connect)?;
    // The rest of the time is for the answer.
    let server = connect::open_endpoint(&endpoint, endpoint.timeout * 3 / 4).await;
    let (from_server, mut to_server) = split(server.map_err(Failure::Connect)?);
    let (mut from_client, to_client) = client.into_split();
    let requests = async {
        match copy(&mut from_client, &mut to_server).await {
            Ok(_) => Err(Failure::Closed),
            // If the server does not take it all, its answer tells why.
            Err(_) => Ok(()),
        }
    };
    tokio::try_join!(pass_answers(from_server, to_client, &answer), requests).map(drop)
}

async fn own_connection(listener: UnixListener) -> io::Result<UnixStream> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    loop {
        let (stream, _) = listener.accept().await?;
        if stream.peer_cred().is_ok_and(|peer| peer.pid() == Some(own)) {
            return Ok(stream);
        }
    }
}

/// Passes on what the server sends until it closes the connection, or reqwest does.
async fn pass_answers(
    mut server: ReadHalf<Box<dyn Stream>>,
    mut client: OwnedWriteHalf,
    answer: &Answer,
) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE];
    loop {
        if answer.is_too_long() && !found(answer).await {
            return Err(Failure::TooMuch);
        }
        let length = server.read(&mut piece).await.map_err(Failure::Connection)?;
        let read = piece.get(..length).unwrap_or_default();
        if read.is_empty() || client.write_all(read).await.is_err() {
            return Ok(());
        }
        answer.received.fetch_add(length, Ordering::Relaxed);
    }
}

/// Whether the answer is in what was passed on. Does not wait for anything but the tasks that can run.
async fn found(answer: &Answer) -> bool {
    for _ in 0..TURNS {
        if !answer.is_missing() {
            return true;
        }
        yield_now().await;
    }
    false
}

/// What a relay does until its connection is closed.
type Serving = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// A relay that works while something else is awaited: it needs no task of its own.
pub(super) struct Relaying {
    relay: Option<Serving>,
    /// Why it ended.
    pub(super) failure: Option<Failure>,
}

impl Relaying {
    /// A relay that does nothing yet.
    pub(super) fn new(relay: impl Future<Output = Result<(), Failure>> + Send + 'static) -> Self {
        Self { relay: Some(Box::pin(relay)), failure: None }
    }

    /// Whether it has not ended.
    #[cfg(feature = "cluster")]
    pub(super) fn is_open(&self) -> bool {
        self.relay.is_some()
    }

    /// Awaits what needs the relay. If the relay fails, `awaited` notices that by itself.
    pub(super) async fn during<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        std::future::poll_fn(|context| {
            // First, so that an answer is known before the relay goes on.
            if let Poll::Ready(output) = awaited.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            if let Some(relay) = &mut self.relay
                && let Poll::Ready(end) = relay.as_mut().poll(context)
            {
                self.failure = end.err();
                self.relay = None;
            }
            Poll::Pending
        })
        .await
    }
}
