//! The admin listener: `/metrics`, `/livez`, `/readyz`, `/serving`, `/status`, the page for people at `/`, and
//! `POST /reload` if it is enabled. Everything else is read-only, and contains no secrets. Digests and reasons are for the pod
//! itself, or for a client with the token.
//!
//! All resources are limited: the headers are small, bodies are not read, and a connection serves
//! one request within a time limit. Each request becomes an [`AdminRequest`] to the loop, which
//! renders nothing in advance. If the loop does not answer, podnudge is not alive.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
#[cfg(feature = "page")]
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::warn;

use super::ask::ask;
use super::caller::Caller;
use super::order::Order;
#[cfg(feature = "page")]
use super::page;
use super::respond::{self, Answer, not_allowed, stuck, text, with_type};
#[cfg(feature = "cluster")]
use super::sync;
#[cfg(feature = "cluster")]
pub use super::sync::AskStatus;
use super::{metrics, own_process};
use crate::exchange::connect::Stream;
use crate::system::files;
use crate::system::own_socket;
use podnudge_config::ReloadEndpoint;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::status::Status;

const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
const HEADER_LIMIT: Duration = Duration::from_secs(2);
const HEADER_BYTES: usize = 8 * 1024;
/// What there is to read.
#[cfg(feature = "page")]
const PATHS: &str = "/ /metrics /livez /readyz /serving /status";
#[cfg(not(feature = "page"))]
const PATHS: &str = "/metrics /livez /readyz /serving /status";
const RELOAD_DISABLED: &str = "POST /reload, /approve, /pause and /resume are disabled\nrun `podnudge trigger`, or \
    the command of that name, in podnudge's own container; or start it with --reload=loopback, or \
    PODNUDGE_RELOAD=loopback\n";

/// A request to the loop.
#[derive(Debug)]
pub enum AdminRequest {
    /// Return the status of all rules.
    Status(oneshot::Sender<Status>),
    /// Return what probes need of it: the processes and the history are missing, and digests have no names.
    Health(oneshot::Sender<Status>),
    /// Do what a person asks for, for one rule or for all.
    Order {
        /// What that is.
        order: Order,
        /// The rule's name.
        rule: Option<String>,
        /// Why it is not done, if so.
        reply: oneshot::Sender<Option<NotDone>>,
    },
}

/// Why an order is not carried out.
#[derive(Debug)]
pub enum NotDone {
    /// There is no such rule; the names of those that exist.
    NoSuchRule(String),
    /// There is nothing to approve.
    NothingHeld,
}

/// What a client may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    ForPeople,
    Metrics,
    /// The page of prometheus-config-reloader.
    Reloader,
    Live,
    Ready,
    Serving,
    Status,
}

impl Page {
    fn of_path(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::ForPeople,
            "/metrics" => Self::Metrics,
            "/healthz" => Self::Reloader,
            "/livez" => Self::Live,
            "/readyz" => Self::Ready,
            "/serving" => Self::Serving,
            "/status" => Self::Status,
            _ => return None,
        })
    }

    /// Whether it is for probes, which come often and need few facts.
    fn is_probe(self) -> bool {
        matches!(self, Self::Reloader | Self::Live | Self::Ready | Self::Serving)
    }
}

/// What the pages are about, and whom to ask.
#[derive(Debug, Clone)]
pub enum Serves {
    /// The rules of a pod; who may trigger them.
    Agent(mpsc::Sender<AdminRequest>, ReloadEndpoint),
    /// `podnudge sync`.
    #[cfg(feature = "cluster")]
    Sync(mpsc::Sender<AskStatus>),
}

/// A connection to one of podnudge's listeners.
#[derive(Debug)]
pub enum Accepted {
    /// To the port, from this address.
    Port(TcpStream, SocketAddr),
    /// To the socket for podnudge's own container.
    OwnSocket(UnixStream),
}

/// Serves one connection.
pub async fn connection(accepted: Accepted, serves: Serves) {
    // One type of stream, because each would cost tens of KiB of the binary.
    let (stream, caller): (Box<dyn Stream>, _) = match accepted {
        Accepted::Port(stream, peer) => {
            let caller = Caller::of(peer, stream.local_addr().ok());
            (Box::new(stream), caller)
        }
        Accepted::OwnSocket(stream) if own_socket::is_of_own_container(&stream) => {
            (Box::new(stream), Caller::Container)
        }
        Accepted::OwnSocket(_) => return,
    };
    let service = service_fn(|request: Request<Incoming>| {
        let serves = &serves;
        let caller = caller.by_name(request.headers().get(HOST));
        async move {
            Ok::<_, Infallible>(match serves {
                Serves::Agent(requests, reload) => answer(&request, caller, requests, reload).await,
                #[cfg(feature = "cluster")]
                Serves::Sync(asks) => sync::answer(&request, asks).await,
            })
        }
    });
    let exchange = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Clients that disconnect, send invalid requests or are too slow are not an error of podnudge.
    drop(timeout(CONNECTION_LIMIT, exchange).await);
}

async fn answer<B>(
    request: &Request<B>,
    caller: Caller,
    requests: &mpsc::Sender<AdminRequest>,
    reload: &ReloadEndpoint,
) -> Answer {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.uri().path();
    if let Some(order) = Order::of_path(path) {
        if *reload == ReloadEndpoint::Off && caller != Caller::Container {
            return text(StatusCode::NOT_FOUND, RELOAD_DISABLED);
        }
        if *request.method() != Method::POST {
            return not_allowed("POST");
        }
        return match authorize_reload(request, caller, reload) {
            Ok(()) => carry_out(order, request, requests).await,
            Err(answer) => *answer,
        };
    }
    let Some(page) = Page::of_path(path) else { return not_found() };
    if !is_read {
        return not_allowed("GET, HEAD");
    }
    match status(page, requests).await {
        Some(status) => {
            // The metrics have no reasons, and the digests that the configuration allows.
            let is_for_all = page == Page::Metrics || caller != Caller::Anybody;
            let sees_all = is_for_all || has_token(request, reload);
            let status = if sees_all { status } else { status.for_anybody() };
            show(page, request, &status)
        }
        None => stuck(),
    }
}

async fn status(page: Page, requests: &mpsc::Sender<AdminRequest>) -> Option<Status> {
    let request = if page.is_probe() { AdminRequest::Health } else { AdminRequest::Status };
    ask(requests, request).await
}

fn show<B>(page: Page, request: &Request<B>, status: &Status) -> Answer {
    match page {
        Page::Metrics => respond::metrics(request, metrics::render(status, &own_process::read())),
        Page::Reloader if status.reloads.is_none() => not_found(),
        Page::Reloader if status.unhealthy.is_none() => {
            with_type(StatusCode::OK, "application/json", "{\"status\":\"up\"}".to_owned())
        }
        Page::Live | Page::Reloader => match &status.unhealthy {
            None => text(StatusCode::OK, "ok\n"),
            Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        },
        Page::Serving if status.serving => text(StatusCode::OK, "ok\n"),
        Page::Serving => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining: an action is near, and the pod is to leave its Services\n",
        ),
        Page::Ready if status.ready => text(StatusCode::OK, "ok\n"),
        Page::Ready => {
            let waiting = status.rules.iter().filter_map(|rule| {
                // A line for each rule, whatever a record or a checker wrote.
                let message = shown::text(&rule.not_ready.as_ref()?.message);
                Some(format!("{}: {message}\n", rule.name))
            });
            text(StatusCode::SERVICE_UNAVAILABLE, waiting.collect::<String>())
        }
        #[cfg(feature = "page")]
        Page::ForPeople => for_people(status),
        #[cfg(not(feature = "page"))]
        Page::ForPeople => text(StatusCode::OK, format!("podnudge: {PATHS}\n")),
        Page::Status => match serde_json::to_string_pretty(status) {
            Ok(json) => with_type(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
    }
}

/// The page for people. Another page cannot show it in a frame, and no cache keeps it.
#[cfg(feature = "page")]
fn for_people(status: &Status) -> Answer {
    let mut answer = with_type(StatusCode::OK, "text/html; charset=utf-8", page::render(status));
    let headers = answer.headers_mut();
    let policy = HeaderValue::try_from(page::policy()).ok();
    headers.extend(policy.map(|policy| (CONTENT_SECURITY_POLICY, policy)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Checks that this request may order something. A browser sends the origin of a page: no web page
/// may do it.
fn authorize_reload<B>(
    request: &Request<B>,
    caller: Caller,
    reload: &ReloadEndpoint,
) -> Result<(), Box<Answer>> {
    if request.headers().contains_key(ORIGIN) {
        return Err(Box::new(text(
            StatusCode::FORBIDDEN,
            "requests from web pages are not allowed\n",
        )));
    }
    if caller == Caller::Container {
        return Ok(());
    }
    let refused = match reload {
        ReloadEndpoint::Off => text(StatusCode::NOT_FOUND, RELOAD_DISABLED),
        ReloadEndpoint::Loopback if caller == Caller::Pod => return Ok(()),
        ReloadEndpoint::Loopback => {
            text(StatusCode::FORBIDDEN, "only allowed from the pod itself, by 127.0.0.1 or ::1\n")
        }
        ReloadEndpoint::Token(file) => match has_valid_token(request, file) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let required = "a bearer token is required\nthe commands of podnudge take it by --token-file\n";
                let mut answer = text(StatusCode::UNAUTHORIZED, required);
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                answer
            }
            Err(Reason { message, hint }) => {
                warn!(event = "token-unreadable", hint, "{message}");
                let answer = "podnudge cannot read its token: see its log\n";
                text(StatusCode::SERVICE_UNAVAILABLE, answer)
            }
        },
    };
    Err(Box::new(refused))
}

/// Whether a request has the token, if there is one.
fn has_token<B>(request: &Request<B>, reload: &ReloadEndpoint) -> bool {
    match reload {
        ReloadEndpoint::Token(file) if request.headers().contains_key(AUTHORIZATION) => {
            has_valid_token(request, file).unwrap_or(false)
        }
        _ => false,
    }
}

/// Whether a request has the token in this file, which is read each time, because it rotates.
fn has_valid_token<B>(request: &Request<B>, file: &Path) -> Result<bool, Reason> {
    let wanted = files::secret(file)?;
    let given = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
    // In constant time, so that the duration does not reveal a matching prefix.
    Ok(given.ct_eq(wanted.as_bytes()).into())
}

async fn carry_out<B>(
    order: Order,
    request: &Request<B>,
    requests: &mpsc::Sender<AdminRequest>,
) -> Answer {
    let query = request.uri().query().unwrap_or_default();
    let (mut rule, mut time) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("rule", name)) => rule = Some(name.to_owned()),
            Some(("for", given)) if matches!(order, Order::Pause(_)) => time = Some(given),
            // Without it, the order would be for all rules, or for another time.
            _ => {
                let answer = format!("unknown parameter {}\n", shown::literal(pair));
                return text(StatusCode::BAD_REQUEST, answer);
            }
        }
    }
    let order = match order.with_time(time) {
        Ok(order) => order,
        Err(Reason { message, .. }) => {
            return text(StatusCode::BAD_REQUEST, format!("`for`: {message}\n"));
        }
    };
    let shown = shown::literal(rule.as_deref().unwrap_or_default());
    match ask(requests, |reply| AdminRequest::Order { order, rule, reply }).await {
        Some(None) => text(StatusCode::ACCEPTED, order.answer()),
        Some(Some(NotDone::NoSuchRule(names))) => {
            let answer = format!("there is no rule {shown}\nthe rules are {names}\n");
            text(StatusCode::NOT_FOUND, answer)
        }
        Some(Some(NotDone::NothingHeld)) => {
            text(StatusCode::CONFLICT, "nothing is held\n`podnudge trigger` acts in any case\n")
        }
        None => stuck(),
    }
}

fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, format!("not found; see {PATHS}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole status has the processes of the targets, for which the loop reads `/proc`.
    #[tokio::test]
    async fn probes_do_not_ask_for_the_whole_status() {
        for (path, is_probe) in [
            ("/livez", true),
            ("/readyz", true),
            ("/serving", true),
            ("/healthz", true),
            ("/status", false),
            ("/metrics", false),
            ("/", false),
        ] {
            let (requests, mut asked) = mpsc::channel(1);
            let request = Request::get(path).body(()).expect("it is valid");
            let off = ReloadEndpoint::Off;
            let answer = answer(&request, Caller::Pod, &requests, &off);
            // Dropped unanswered, as by a loop that ends.
            let (answer, asked) = tokio::join!(answer, async {
                matches!(asked.recv().await, Some(AdminRequest::Health(_)))
            });
            assert_eq!(
                (answer.status(), asked),
                (StatusCode::SERVICE_UNAVAILABLE, is_probe),
                "{path}"
            );
        }
    }
}
