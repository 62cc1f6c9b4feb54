//! One HTTP exchange: without proxies, redirects and retries, and limited in time and size. The
//! core does the retries.
//!
//! Reads the files with credentials and certificates for each request, because they rotate.

use std::fmt::Display;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode};

use super::relay::{self, BEFORE_ANSWER, Relaying};
#[cfg(feature = "tls")]
use super::session;
use super::{AnswerEnd, ExchangeError, connect, connection_error};
use crate::system::files;
use podnudge_config::{Auth, Endpoint, Tls};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The most bytes of a response that are read if only its status matters.
pub(crate) const SHORT_ANSWER: usize = 64 * 1024;

const CANNOT_SET_UP: &str = "cannot set up the request";
const TOO_MUCH: &str =
    "check what listens there: it sends informational responses (1xx) or headers without end";
const REDIRECTED: &str = "redirects are not followed; configure the URL that it redirects to";
const UNAUTHORIZED: &str =
    "configure `basic` or `bearer-file`, and check that the file is up to date";

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
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
    let mut url = endpoint.url.clone();
    url.set_query(None);
    url.set_fragment(None);
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
    let has_begun = relay::Answer::default();
    let mut response = open(endpoint, &has_begun, method, content).await?;
    let mut read = Vec::new();
    let end = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => read.extend_from_slice(&chunk),
            Ok(None) => break AnswerEnd::Complete,
            Err(how) => break AnswerEnd::Aborted(how),
        }
        // One byte over the limit shows that the body is longer.
        if read.len() > max_bytes {
            break AnswerEnd::Truncated;
        }
    };
    read.truncate(max_bytes);
    Ok(Answer { status: response.status, body: read, end, retry_after: response.retry_after })
}

/// A response whose body is still to be read.
pub(super) struct Opened<R> {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    response: Response,
    relay: Relaying<R>,
    timeout: Duration,
}

impl<R: Future<Output = Result<(), relay::Failure>>> Opened<R> {
    /// The next part of the body; `None` at its end.
    ///
    /// # Errors
    /// How it ended before that.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl Deref<Target = [u8]>>, String> {
        self.relay.during(self.response.chunk()).await.map_err(|error| {
            if error.is_timeout() {
                let limit = humantime::format_duration(self.timeout);
                return format!("did not end within {limit}");
            }
            format!("broke off: {}", causes(&error))
        })
    }
}

/// Sends one request, and returns its response as soon as the headers are there.
pub(super) async fn open<'a>(
    endpoint: &'a Endpoint,
    has_begun: &'a relay::Answer,
    method: Method,
    content: Option<Vec<u8>>,
) -> Result<Opened<impl Future<Output = Result<(), relay::Failure>> + 'a>, ExchangeError> {
    let what = describe(&method, endpoint);
    let (listener, socket) = relay::open()
        .map_err(|error| ExchangeError::Failed(Reason::new(format!("{CANNOT_SET_UP}: {error}"))))?;
    let request = request(endpoint, &socket, method, content).map_err(ExchangeError::Failed)?;
    let mut relay = Relaying::new(relay::serve(listener, endpoint, has_begun));
    let sent = relay.during(request.send()).await;
    let response = sent.map_err(|error| failure(&what, endpoint, &error, relay.failure.take()))?;
    has_begun.has_begun();
    let status = response.status();
    let pause = response.headers().get(RETRY_AFTER).and_then(|pause| pause.to_str().ok());
    let retry_after = pause.and_then(|pause| pause.trim().parse().ok()).map(Duration::from_secs);
    Ok(Opened { status, retry_after, response, relay, timeout: endpoint.timeout })
}

fn request(
    endpoint: &Endpoint,
    socket: &Path,
    method: Method,
    content: Option<Vec<u8>>,
) -> Result<RequestBuilder, Reason> {
    let mut request = client(endpoint, socket)?.request(method, endpoint.url.clone());
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

/// Builds a client for one exchange through the relay. Reloads are rare, so no connection is kept.
fn client(endpoint: &Endpoint, socket: &Path) -> Result<Client, Reason> {
    let mut builder = base_client(endpoint.timeout).unix_socket(socket);
    if let Some(tls) = &endpoint.tls {
        builder = with_tls(builder, tls)?;
    }
    builder.build().map_err(|error| Reason::new(format!("{CANNOT_SET_UP}: {}", causes(&error))))
}

/// The settings of all HTTP clients: no proxy from the environment, no redirects, no retries, and
/// only the configured CAs (with the default ones, building a client fails if the image has none).
pub(crate) fn base_client(timeout: Duration) -> ClientBuilder {
    let builder = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .timeout(timeout)
        .connect_timeout(timeout * 3 / 4)
        .user_agent(concat!("podnudge/", env!("CARGO_PKG_VERSION")));
    #[cfg(feature = "tls")]
    let builder = builder.tls_certs_only([]);
    builder
}

#[cfg(feature = "tls")]
fn with_tls(builder: ClientBuilder, tls: &Tls) -> Result<ClientBuilder, Reason> {
    let bundle = files::read_with_hint(&tls.ca_file, files::LARGEST)?;
    let path = tls.ca_file.display();
    if tls.is_resumed {
        let config = session::config(&bundle)
            .ok_or_else(|| Reason::new(format!("`{path}` contains no PEM certificates")))?;
        return Ok(builder.tls_backend_preconfigured(config).https_only(true));
    }
    let certificates = reqwest::Certificate::from_pem_bundle(&bundle).map_err(|error| {
        Reason::new(format!("`{path}` contains no PEM certificates: {}", causes(&error)))
    })?;
    if certificates.is_empty() {
        return Err(Reason::new(format!("`{path}` contains no PEM certificates")));
    }
    let builder = builder.tls_certs_only(certificates).https_only(true);
    let Some(client) = &tls.client else { return Ok(builder) };
    let mut pem = files::read_with_hint(&client.cert_file, files::LARGEST)?;
    pem.push(b'\n');
    pem.extend(files::read_with_hint(&client.key_file, files::LARGEST)?);
    let identity = reqwest::Identity::from_pem(&pem).map_err(|_| {
        let (cert, key) = (client.cert_file.display(), client.key_file.display());
        Reason::new(format!("`{cert}` and `{key}` are not a PEM certificate and its key"))
    })?;
    Ok(builder.identity(identity))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: ClientBuilder, _: &Tls) -> Result<ClientBuilder, Reason> {
    Err(Reason::new("this podnudge was built without TLS"))
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
        None if !error.is_timeout() => ExchangeError::Failed(failed(&causes(error))),
        _ => {
            let limit = humantime::format_duration(endpoint.timeout);
            ExchangeError::Failed(
                Reason::new(format!("{what} got no answer within {limit}"))
                    .hint("the application may hang; or raise the timeout"),
            )
        }
    }
}

/// The causes of an error, without its own text, which repeats the URL and its query.
fn causes(error: &reqwest::Error) -> String {
    let causes: Vec<String> =
        std::iter::successors(std::error::Error::source(error), |error| error.source())
            .map(ToString::to_string)
            .collect();
    let mut distinct: Vec<&str> = Vec::new();
    for cause in &causes {
        // Some layers repeat the layer below.
        if !distinct.iter().any(|said| said.contains(cause.as_str())) {
            distinct.push(cause);
        }
    }
    if distinct.is_empty() { "no reason was given".to_owned() } else { distinct.join(": ") }
}
