//! One HTTP exchange: without proxies, redirects and retries, and limited in time and size. The
//! core does the retries.
//!
//! Reads the files with credentials and certificates for each request, because they rotate.

use std::fmt::Display;
use std::io;
use std::ops::Deref;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
#[cfg(feature = "cluster")]
use tokio::time::timeout;

use super::client::causes;
use super::connection::Connection;
#[cfg(feature = "cluster")]
use super::kept::Kept;
use super::relay::{self, BEFORE_ANSWER};
use super::{AnswerEnd, ExchangeError, connect, connection_error};
use crate::system::files;
use podnudge_config::{Auth, Endpoint, without_query};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The most bytes of a response that are read if only its status matters.
pub(crate) const SHORT_ANSWER: usize = 64 * 1024;

const TOO_MUCH: &str =
    "check what listens there: it sends informational responses (1xx) or headers without end";
const REDIRECTED: &str = "redirects are not followed; configure the URL that it redirects to";
const UNAUTHORIZED: &str =
    "configure `basic` or `bearer-file`, and check that the file is up to date";

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The body, as far as it was received within the limit.
    pub body: Vec<u8>,
    /// Whether the body is complete.
    pub end: AnswerEnd,
    /// The pause that the server asks for, if it names one in seconds (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// Whether an unexpected status may be about the content, and not about the request itself or a
/// temporary condition.
pub(crate) fn is_about_content(status: StatusCode) -> bool {
    !matches!(
        status.as_u16(),
        300..=399 | 401 | 403..=405 | 407 | 408 | 415 | 421 | 425 | 429 | 501..
    )
}

/// Whether a status is one of `expect`, or any 2xx if that is empty.
#[must_use]
pub fn is_expected(status: StatusCode, expect: &[u16]) -> bool {
    if expect.is_empty() { status.is_success() } else { expect.contains(&status.as_u16()) }
}

/// `POST http://127.0.0.1:9090/-/reload answered 503 Service Unavailable: …`
#[must_use]
pub fn unexpected_response(what: &str, answer: &Answer) -> Reason {
    let reason = response_reason(what, "", answer);
    match answer.status.as_u16() {
        403..=405 => reason.hint(
            "check the path and the method, and that the application's reload endpoint is enabled (Prometheus: --web.enable-lifecycle)",
        ),
        _ => reason,
    }
}

/// Describes a response, with the hints that apply to a status whatever the request was for.
pub(crate) fn response_reason(what: &str, of: &str, answer: &Answer) -> Reason {
    let said = shown::one_line(&answer.body);
    let colon = if said.is_empty() { "" } else { ": " };
    let reason = Reason::new(format!("{what} answered {}{of}{colon}{said}", answer.status));
    match answer.status.as_u16() {
        300..=399 => reason.hint(REDIRECTED),
        401 => reason.hint(UNAUTHORIZED),
        _ => reason,
    }
}

/// `POST http://host/path`, without the query, which may contain secrets.
#[must_use]
pub fn describe(method: &Method, endpoint: &Endpoint) -> String {
    let url = without_query(&endpoint.url);
    match &endpoint.unix_socket {
        Some(socket) => format!("{method} {url} by `{}`", socket.display()),
        None => format!("{method} {url}"),
    }
}

/// Sends one request and reads at most `max_bytes` bytes of the response body.
///
/// # Errors
/// If there is no response in time, or the request cannot be built.
pub async fn exchange(
    endpoint: &Endpoint,
    method: Method,
    content: Option<Vec<u8>>,
    max_bytes: usize,
) -> Result<Answer, ExchangeError> {
    let mut opened = open(endpoint, None, method, content).await?;
    Ok(opened.answer(max_bytes).await)
}

/// Sends one request by the connection that was kept, and keeps it.
///
/// # Errors
/// As for [`exchange`].
#[cfg(feature = "cluster")]
pub(crate) async fn exchange_by(
    kept: &Kept,
    endpoint: &Endpoint,
    method: Method,
    content: Option<Vec<u8>>,
    max_bytes: usize,
) -> Result<Answer, ExchangeError> {
    let connection = kept.take(endpoint).await;
    let mut opened = open(endpoint, connection, method, content).await?;
    let answer = opened.answer(max_bytes).await;
    if answer.end == AnswerEnd::Complete {
        kept.keep(endpoint, opened.connection).await;
    }
    Ok(answer)
}

/// A response whose body is still to be read.
pub(super) struct Opened {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    response: Response,
    connection: Connection,
    timeout: Duration,
}

impl Opened {
    /// The next part of the body; `None` at its end.
    ///
    /// # Errors
    /// How it ended before that.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl Deref<Target = [u8]>>, String> {
        self.connection.during(self.response.chunk()).await.map_err(|error| {
            if error.is_timeout() {
                let limit = humantime::format_duration(self.timeout);
                return format!("did not end within {limit}");
            }
            format!("broke off: {}", causes(&error))
        })
    }

    async fn answer(&mut self, max_bytes: usize) -> Answer {
        let mut body = Vec::new();
        let end = loop {
            match self.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break AnswerEnd::Complete,
                Err(how) => break AnswerEnd::Aborted(how),
            }
            // One byte over the limit shows that the body is longer.
            if body.len() > max_bytes {
                break AnswerEnd::Truncated;
            }
        };
        body.truncate(max_bytes);
        Answer { status: self.status, body, end, retry_after: self.retry_after }
    }
}

/// Sends a GET request whose answer may take long. The headers must come within `first`.
#[cfg(feature = "cluster")]
pub(super) async fn open_within(
    endpoint: &Endpoint,
    first: Duration,
) -> Result<Opened, ExchangeError> {
    let opening = timeout(first, open(endpoint, None, Method::GET, None));
    opening.await.unwrap_or_else(|_| {
        let limit = humantime::format_duration(first);
        let what = describe(&Method::GET, endpoint);
        Err(ExchangeError::Failed(Reason::new(format!("{what} got no answer within {limit}"))))
    })
}

/// Sends one request, by this connection if there is one, and returns its response as soon as the headers are there.
pub(super) async fn open(
    endpoint: &Endpoint,
    mut kept: Option<Connection>,
    method: Method,
    mut content: Option<Vec<u8>>,
) -> Result<Opened, ExchangeError> {
    loop {
        let is_kept = kept.is_some();
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(endpoint)?,
        };
        // Only by a connection that was kept, it may have to be sent again.
        let body = if is_kept { content.clone() } else { content.take() };
        let request = request(endpoint, &connection.client, &method, body);
        let response = match connection.send(request.map_err(ExchangeError::Failed)?).await {
            Ok(response) => response,
            // The server has closed the connection meanwhile.
            Err((error, _)) if is_kept && may_be_repeated(&error, &method) => continue,
            Err((error, relay)) => {
                return Err(failure(&describe(&method, endpoint), endpoint, &error, relay));
            }
        };
        let status = response.status();
        let pause = response.headers().get(RETRY_AFTER).and_then(|pause| pause.to_str().ok());
        let retry_after =
            pause.and_then(|pause| pause.trim().parse().ok()).map(Duration::from_secs);
        return Ok(Opened { status, retry_after, response, connection, timeout: endpoint.timeout });
    }
}

/// Whether a request did not arrive, or may arrive twice.
fn may_be_repeated(error: &reqwest::Error, method: &Method) -> bool {
    error.is_connect() || (method.is_safe() && !error.is_timeout())
}

fn request(
    endpoint: &Endpoint,
    client: &Client,
    method: &Method,
    content: Option<Vec<u8>>,
) -> Result<RequestBuilder, Reason> {
    let mut request = client.request(method.clone(), endpoint.url.clone());
    request = request.timeout(endpoint.timeout);
    for (name, value) in &endpoint.headers {
        request = request.header(name, value);
    }
    request = match &endpoint.auth {
        Some(Auth::Basic(basic)) => {
            request.basic_auth(&basic.username, Some(files::secret(&basic.password_file)?))
        }
        Some(Auth::Bearer(token_file)) => request.bearer_auth(files::secret(token_file)?),
        None => request,
    };
    Ok(match content {
        Some(content) => request.body(content),
        None => request,
    })
}

fn failure(
    what: &str,
    endpoint: &Endpoint,
    error: &reqwest::Error,
    relay: Option<relay::Failure>,
) -> ExchangeError {
    let failed = |how: &dyn Display| Reason::new(format!("{what} failed: {how}"));
    match relay {
        Some(relay::Failure::TooMuch) => ExchangeError::Failed(
            failed(&format!("it sent more than {} KiB before its answer", BEFORE_ANSWER / 1024))
                .hint(TOO_MUCH),
        ),
        Some(relay::Failure::Connect(error)) if error.kind() != io::ErrorKind::TimedOut => {
            let reason = failed(&format!("cannot connect: {error}"));
            connection_error(reason, connect::kind(endpoint), error.kind())
        }
        Some(relay::Failure::Connection(error)) => ExchangeError::Failed(failed(&error)),
        None | Some(relay::Failure::Closed) if !error.is_timeout() => {
            ExchangeError::Failed(failed(&causes(error)))
        }
        _ => {
            let limit = humantime::format_duration(endpoint.timeout);
            ExchangeError::Failed(
                Reason::new(format!("{what} got no answer within {limit}"))
                    .hint("the application may hang; or raise the timeout"),
            )
        }
    }
}
