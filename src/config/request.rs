//! The part of the validation that concerns HTTP requests: to reload, to ask for the proof, and to
//! check content. Pure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use super::problem::{At, Given, literal};
use super::table::Table;
use super::types::{duration, method, path, url};
use super::validate::{MINUTE, MS, SECOND, at_most_one, value_or};
use super::{Auth, Body, ClientCertificate, Endpoint, HttpAction, Tls};
use crate::reason::Reason;

/// A URL that says whether the application would take a key's content.
#[derive(Debug, Clone)]
pub struct HttpCheck {
    /// Where the content goes and how one gets in.
    pub endpoint: Endpoint,
    /// A method that carries content.
    pub method: Method,
    /// What the content is called.
    pub content_type: HeaderValue,
    /// Statuses that mean that the content is good; empty: any 2xx.
    pub expect: Vec<u16>,
}

/// `[rule.http]`; `None` only after a problem was reported.
pub(super) fn action(mut table: Table<'_>, bundle: Option<&Path>) -> Option<HttpAction> {
    let url = table.required("url", "url = \"http://127.0.0.1:9090/-/reload\"", url);
    let timeout = value_or(table.parsed("timeout", limit(10 * MINUTE)), 10 * SECOND);
    let method = table.parsed("method", method);
    let one_body = at_most_one(&table, &["body", "body-file"]);
    let text = table.parsed("body", |text| Ok(text.to_owned()));
    let file = table.parsed("body-file", path);
    let body = match (text, file) {
        (Some(text), _) => Body::Text(text.value),
        (None, Some(file)) => Body::File(file.value),
        (None, None) => Body::Empty,
    };
    let endpoint = endpoint(&mut table, url, timeout, bundle);
    let expect = statuses(&mut table);
    table.finish();
    one_body.then_some(HttpAction {
        endpoint: endpoint?,
        method: value_or(method, Method::POST),
        body,
        expect,
    })
}

/// What [`endpoint`] reads.
pub(super) const OF_AN_ENDPOINT: [&str; 7] =
    ["unix-socket", "headers", "basic", "bearer-file", "ca-file", "cert-file", "key-file"];

/// Takes out what makes sense only with a URL, and reports what is there of it.
pub(super) fn without_url(table: &mut Table<'_>, keys: &[&'static str], hint: &str) {
    let keys = [keys, &OF_AN_ENDPOINT].concat();
    table.without("http", &keys, "`http`, the URL to ask", hint);
}

/// What `[[rule.check]]` has for `http`; `None` if that is not there, or after a problem was
/// reported.
pub(super) fn check(
    table: &mut Table<'_>,
    timeout: Duration,
    bundle: Option<&Path>,
) -> Option<HttpCheck> {
    if table.place_of("http").is_none() {
        let hint = "leave it out, or add for example `http = \"http://127.0.0.1:2019/adapt\"`";
        without_url(table, &["method", "content-type", "expect"], hint);
        return None;
    }
    let url = table.parsed("http", url);
    let carrying = |text: &str| {
        let refused = match method(text) {
            Ok(method @ (Method::POST | Method::PUT | Method::PATCH)) => return Ok(method),
            Ok(other) => Reason::new(format!("a {other} carries no content that could be checked")),
            Err(reason) => reason,
        };
        Err(refused.hint("one of `POST`, `PUT`, `PATCH`"))
    };
    let method = table.parsed("method", carrying);
    let content_type = table.parsed("content-type", |text| match HeaderValue::from_str(text) {
        Ok(value) if text.contains('/') => Ok(value),
        _ => Err(Reason::new(format!("{} is not a content type", literal(text)))
            .hint("for example `text/plain`, or `text/caddyfile` for Caddy")),
    });
    let expect = statuses(table);
    let report = table.report;
    let header_at = table.place_of("headers").cloned();
    let at = url.as_ref().map(|given| given.at.clone());
    let endpoint = endpoint(table, url, timeout, bundle)?;
    if let Some(at) = header_at
        && endpoint.headers.iter().any(|(name, _)| name == CONTENT_TYPE)
    {
        let reason = Reason::new("the content type is no header like others here");
        report.problem(&at, reason.hint("use `content-type`"));
    }
    // Credentials in the clear are warned of already.
    if let Some(at) = at
        && endpoint.auth.is_none()
        && goes_in_the_clear(&endpoint.url, endpoint.unix_socket.as_deref())
    {
        let reason = Reason::new("what the keys hold goes over the network unencrypted");
        report.warn(&at, reason.hint("use https"));
    }
    Some(HttpCheck {
        endpoint,
        method: value_or(method, Method::POST),
        content_type: value_or(content_type, HeaderValue::from_static("text/plain")),
        expect,
    })
}

/// A time limit for a request.
pub(super) fn limit(most: Duration) -> impl Fn(&str) -> Result<Duration, Reason> {
    duration(10 * MS, most)
}

pub(super) fn statuses(table: &mut Table<'_>) -> Vec<u16> {
    let statuses = table.numbers("expect", 100, 599);
    statuses.into_iter().filter_map(|status| u16::try_from(status).ok()).collect()
}

pub(super) fn endpoint(
    table: &mut Table<'_>,
    url: Option<Given<reqwest::Url>>,
    timeout: Duration,
    bundle: Option<&Path>,
) -> Option<Endpoint> {
    let unix_socket = table.parsed("unix-socket", path).map(|given| given.value);
    let headers = headers(table);
    let auth = auth(table);
    let tls = tls(table, url.as_ref(), bundle);
    let Given { at, value: url } = url?;
    if auth.is_some() && goes_in_the_clear(&url, unix_socket.as_deref()) {
        let reason = Reason::new("credentials go over the network unencrypted");
        table.report.warn(&at, reason.hint("use https"));
    }
    Some(Endpoint { url, unix_socket, headers, auth, tls: tls?, timeout })
}

/// Whether others on the network can read a request.
fn goes_in_the_clear(url: &reqwest::Url, unix_socket: Option<&Path>) -> bool {
    let is_local = unix_socket.is_some()
        || matches!(url.host_str(), Some("localhost" | "[::1]"))
        || url.host_str().is_some_and(|host| host.starts_with("127."));
    url.scheme() == "http" && !is_local
}

fn headers(table: &mut Table<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let report = table.report;
    let header = |(name, value): (Given<String>, Given<String>)| {
        let shown = literal(&name.value);
        let Ok(header) = HeaderName::from_bytes(name.value.as_bytes()) else {
            report.problem(&name.at, Reason::new(format!("{shown} is not the name of a header")));
            return None;
        };
        let refused = match header.as_str() {
            "authorization" | "proxy-authorization" | "cookie" => {
                Some("a secret does not belong in a configuration; use `bearer-file` or `basic`")
            }
            "content-length" | "transfer-encoding" | "connection" | "upgrade" | "te" => {
                Some("leave it out: podnudge sets it as the request needs it")
            }
            _ => None,
        };
        if let Some(hint) = refused {
            let reason = Reason::new(format!("the header {shown} cannot be set"));
            report.problem(&name.at, reason.hint(hint));
            return None;
        }
        let Ok(value_of_header) = HeaderValue::from_str(&value.value) else {
            let reason = Reason::new(format!("the value of the header {shown} cannot be sent"));
            let hint = "line breaks and other control characters are not allowed in it";
            report.problem(&value.at, reason.hint(hint));
            return None;
        };
        Some((header, value_of_header))
    };
    table.pairs("headers").into_iter().filter_map(header).collect()
}

fn auth(table: &mut Table<'_>) -> Option<Auth> {
    at_most_one(table, &["basic", "bearer-file"]);
    let bearer = table.parsed("bearer-file", path);
    let basic = table.table("basic", "basic", None).and_then(|mut basic| {
        let user = |text: &str| match text {
            "" => Err(Reason::new("the user name is empty")),
            _ if text.contains(':') => {
                Err(Reason::new("a user name for basic authentication cannot have a colon in it"))
            }
            _ => Ok(text.to_owned()),
        };
        let username = basic.required("username", "username = \"admin\"", user);
        let example = "password-file = \"/etc/podnudge/password\"";
        let password_file = basic.required("password-file", example, path);
        basic.finish();
        Some(Auth::Basic { username: username?.value, password_file: password_file?.value })
    });
    basic.or(bearer.map(|given| Auth::Bearer { token_file: given.value }))
}

/// The outer `None` only after a problem was reported.
#[expect(clippy::option_option, reason = "refused, not needed, needed: as everywhere here")]
fn tls(
    table: &mut Table<'_>,
    url: Option<&Given<reqwest::Url>>,
    bundle: Option<&Path>,
) -> Option<Option<Tls>> {
    let report = table.report;
    let ca = table.parsed("ca-file", path);
    let cert = table.parsed("cert-file", path);
    let key = table.parsed("key-file", path);
    let Given { at, value: url } = url?;
    if url.scheme() != "https" {
        for (name, given) in [("ca-file", &ca), ("cert-file", &cert), ("key-file", &key)] {
            if let Some(given) = given {
                let reason = Reason::new(format!("`{name}` is of use only for an https URL"));
                report
                    .problem(&given.at, reason.hint("leave it out, or write https:// in the URL"));
            }
        }
        return Some(None);
    }
    if !cfg!(feature = "tls") {
        let reason = Reason::new("this podnudge was built without TLS, and the URL is https");
        report.problem(at, reason.hint("use the image with TLS, or an http URL within the pod"));
        return None;
    }
    let client = client_certificate(table, cert, key);
    let ca_file = ca.map(|given| given.value).or_else(|| bundle.map(PathBuf::from));
    if ca_file.is_none() {
        let reason = Reason::new("an https URL needs to know whose certificates to trust");
        let hint = "set `ca-file` to the CA's certificate (PEM), or mount a bundle at \
                    /etc/ssl/certs/ca-certificates.crt";
        report.problem(at, reason.hint(hint));
    }
    Some(Some(Tls { ca_file: ca_file?, client }))
}

fn client_certificate(
    table: &Table<'_>,
    cert: Option<Given<PathBuf>>,
    key: Option<Given<PathBuf>>,
) -> Option<ClientCertificate> {
    let missing = |at: &At, there: &str, missing: &str| {
        let message = format!("`{there}` needs `{missing}` beside it");
        table.report.problem(at, Reason::new(message));
    };
    match (cert, key) {
        (Some(cert), Some(key)) => {
            return Some(ClientCertificate { cert_file: cert.value, key_file: key.value });
        }
        (Some(cert), None) => missing(&cert.at, "cert-file", "key-file"),
        (None, Some(key)) => missing(&key.at, "key-file", "cert-file"),
        (None, None) => {}
    }
    None
}
