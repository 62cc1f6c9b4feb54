//! HTTP requests that reload, verify or check. Pure.

use std::net::IpAddr;
use std::path::Path;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use super::prelude::*;
use super::settings::{Setting, Write, nested};
use super::table::PairError;

settings! {
    /// An HTTP request that makes the application reload.
    pub struct HttpSettings = "[rule.http]",
        &[Relation::AtMostOne(&["body", "body-file"]), Relation::Together(&["reject-body", "reject-because"])];
    {
        /// Send a request to this http or https URL.
        url: url::Url = required("url = \"http://127.0.0.1:9090/-/reload\"", url()).option("url", "URL", Actions).common();
        /// The method of the request.
        method: Method = default("POST", any_method()).option("method", "METHOD", Actions);
        /// The time limit for the request.
        timeout: Duration = default("10s", time_limit(MINUTE.saturating_mul(10)));
        /// The body of the request.
        body: Option<String> = optional("none", string("text"));
        /// A file of the content that is sent as the body: `{dir}/NAME`, where `{dir}` is the first volume as the application reads it, or its path in a watched volume or in the publish directory.
        body_file: Option<PathBuf> = optional("", path_by(parsers::content_path));
        /// Do not send a body that matches this regular expression: the application does not take it as it is meant. Such content counts as rejected.
        reject_body: Option<regex_lite::Regex> = optional("", regex());
        /// Why such a body is not sent, and what to write instead.
        reject_because: Option<String> = optional("", string("text"));
        /// The statuses that mean success.
        expect: Vec<u16> = list("any status from 200 to 299", status());
        /// Credentials, headers and certificates.
        access: Access = flatten();
    }
}

settings! {
    /// Settings of HTTP requests.
    pub struct Access = "access",
        &[
            Relation::AtMostOne(&["basic", "bearer-file"]),
            Relation::Together(&["cert-file", "key-file"]),
        ];
    {
        /// Connect to this socket file instead of the URL's host.
        unix_socket: Option<PathBuf> = optional("", path());
        /// Additional request headers.
        headers: Vec<(HeaderName, HeaderValue)> = headers();
        /// Credentials for basic authentication.
        basic: Option<Basic> = optional_table();
        /// A file with a bearer token, read for each request.
        bearer_file: Option<PathBuf> = optional("", path());
        /// A file with the CA certificates (PEM) to trust for https.
        ca_file: Option<PathBuf> = optional("the CA bundle of the image, if it has one", path()).option("ca-file", "FILE", Actions);
        /// A file with the client certificate chain (PEM), for https.
        cert_file: Option<PathBuf> = optional("", path());
        /// A file with the private key of the client certificate (PEM).
        key_file: Option<PathBuf> = optional("", path());
    }
}

settings! {
    /// Credentials for basic authentication.
    pub struct Basic = "basic"; {
        /// The user name.
        username: String = required("username = \"admin\"", checked("a name", user_name));
        /// A file with the password, read for each request.
        password_file: PathBuf = required("password-file = \"/etc/podnudge/password\"", path());
    }
}

/// An HTTP request that makes the application reload.
#[derive(Debug, Clone)]
pub struct HttpAction {
    /// The URL and its credentials.
    pub endpoint: Endpoint,
    /// The request method.
    pub method: Method,
    /// The request body.
    pub body: Body,
    /// A body that is not sent, and why.
    pub reject: Option<(regex_lite::Regex, String)>,
    /// Statuses that mean success; empty: any 2xx.
    pub expect: Vec<u16>,
}

/// A request body.
#[derive(Debug, Clone)]
pub enum Body {
    /// No body.
    Empty,
    /// A fixed text.
    Text(String),
    /// A file of the content that the request is about, as `body-file` names it.
    Content(PathBuf),
}

/// An HTTP request that checks the content of a key.
#[derive(Debug, Clone)]
pub struct HttpCheck {
    /// The URL and its credentials.
    pub endpoint: Endpoint,
    /// `POST`, `PUT` or `PATCH`.
    pub method: Method,
    /// The `Content-Type` of the request.
    pub content_type: HeaderValue,
    /// Status codes that accept the content; empty: any 2xx.
    pub expect: Vec<u16>,
}

/// A URL for people: without its query, which may hold a secret.
#[must_use]
pub fn without_query(url: &url::Url) -> url::Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// A URL with all that a request to it needs.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `http` or `https`.
    pub url: url::Url,
    /// Connect here instead of to the URL's host.
    pub unix_socket: Option<PathBuf>,
    /// Additional request headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The credentials of the request.
    pub auth: Option<Auth>,
    /// Files for https; `None` for http.
    pub tls: Option<Tls>,
    /// The limit for the whole exchange.
    pub timeout: Duration,
}

/// Credentials; the secrets are in files, read for each request.
#[derive(Debug, Clone)]
pub enum Auth {
    /// `Authorization: Basic`.
    Basic(Basic),
    /// `Authorization: Bearer` with the token in this file.
    Bearer(PathBuf),
}

/// Files for https, read for each request.
#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM certificates that sign the server's.
    pub ca_file: PathBuf,
    /// The client's certificate chain and its key.
    pub client: Option<ClientCertificate>,
    /// Whether later requests resume the session, which saves most of the handshake.
    pub is_resumed: bool,
}

/// The client's certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate chain.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}

/// The keys of [`Access`], which are only valid with a URL.
pub(super) const REQUEST_KEYS: [&str; 7] =
    ["unix-socket", "headers", "basic", "bearer-file", "ca-file", "cert-file", "key-file"];

const fn any_method() -> Type<Method> {
    parsed("a method", parsers::method, Method::to_string)
}

/// A method with a request body.
pub(super) const fn method_with_body() -> Type<Method> {
    parsed("`POST`, `PUT` or `PATCH`", parse_method_with_body, Method::to_string)
}

fn parse_method_with_body(text: &str) -> Result<Method, Reason> {
    let refused = match parsers::method(text) {
        Ok(method @ (Method::POST | Method::PUT | Method::PATCH)) => return Ok(method),
        Ok(other) => Reason::new(format!("a {other} request has no body")),
        Err(reason) => reason,
    };
    Err(refused.hint("one of `POST`, `PUT`, `PATCH`"))
}

pub(super) const fn content_type() -> Type<HeaderValue> {
    let parse = |text: &str| match HeaderValue::from_str(text) {
        Ok(value) if text.contains('/') => Ok(value),
        _ => Err(is_not(text, "a content type")
            .hint("for example `text/plain`, or `text/caddyfile` for Caddy")),
    };
    parsed("a content type", parse, value_text)
}

fn user_name(text: &str) -> Result<String, Reason> {
    match text {
        "" => Err(Reason::new("the user name is empty")),
        _ if text.contains(':') => {
            Err(Reason::new("a user name for basic authentication cannot have a colon in it"))
        }
        _ => Ok(text.to_owned()),
    }
}

impl HttpSettings {
    pub(super) fn resolve(&mut self, place: &Place<'_>) -> HttpAction {
        let endpoint = self.access.endpoint(place, ("url", &self.url), self.timeout);
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => Body::Text(text.clone()),
            (None, Some(file)) => Body::Content(file.clone()),
            (None, None) => Body::Empty,
        };
        let reject = self.reject_body.clone().zip(self.reject_because.clone());
        let expect = self.expect.clone();
        HttpAction { endpoint, method: self.method.clone(), body, reject, expect }
    }
}

impl Access {
    /// The endpoint of requests to the URL at this key.
    pub(super) fn endpoint(
        &mut self,
        place: &Place<'_>,
        (key, url): (&str, &url::Url),
        timeout: Duration,
    ) -> Endpoint {
        let bearer = self.bearer_file.clone().map(Auth::Bearer);
        let auth = self.basic.clone().map(Auth::Basic).or(bearer);
        if auth.is_some() && self.is_sent_unencrypted(url) {
            let reason = Reason::new("the credentials are sent over the network unencrypted");
            place.warn(Value(key), reason.hint("use https"));
        }
        Endpoint {
            url: url.clone(),
            unix_socket: self.unix_socket.clone(),
            headers: self.headers.clone(),
            auth,
            tls: self.tls(place, key, url),
            timeout,
        }
    }

    /// Whether requests leave the pod unencrypted.
    pub(super) fn is_sent_unencrypted(&self, url: &url::Url) -> bool {
        url.scheme() == "http" && self.unix_socket.is_none() && !is_loopback(url)
    }

    /// The files for an https URL; `None` for http, or after a problem was reported.
    fn tls(&mut self, place: &Place<'_>, key: &str, url: &url::Url) -> Option<Tls> {
        if url.scheme() != "https" {
            for name in ["ca-file", "cert-file", "key-file"].iter().filter(|key| place.has(key)) {
                let reason = Reason::new(format!("`{name}` is only valid with an https URL"));
                place.problem(
                    Value(name),
                    reason.hint("leave it out, or write https:// in the URL"),
                );
            }
            return None;
        }
        if !cfg!(feature = "tls") {
            let reason = Reason::new("this podnudge was built without TLS, and the URL is https");
            let hint = "use the image with TLS, or an http URL within the pod";
            place.problem(Value(key), reason.hint(hint));
            return None;
        }
        if self.ca_file.is_none() {
            self.ca_file = place.report.bundle.map(Path::to_owned);
        }
        let Some(ca_file) = self.ca_file.clone() else {
            let reason = Reason::new("no CA certificates are configured for the https URL");
            let hint = "set `ca-file` to the CA's certificate (PEM), or mount a bundle at \
                        /etc/ssl/certs/ca-certificates.crt";
            place.problem(Value(key), reason.hint(hint));
            return None;
        };
        let client = self.cert_file.clone().zip(self.key_file.clone());
        let client = client.map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file });
        Some(Tls { ca_file, client, is_resumed: false })
    }
}

/// Whether the host of a URL is the machine itself.
pub(super) fn is_loopback(url: &url::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Checks have a setting for the content type.
pub(super) fn refuse_content_type(access: &Access, place: &Place<'_>) {
    if access.headers.iter().any(|(name, _)| name == CONTENT_TYPE) {
        let reason = Reason::new("the header Content-Type cannot be set here");
        place.problem(Key("headers"), reason.hint("use `content-type`"));
    }
}

const fn headers() -> Setting<Vec<(HeaderName, HeaderValue)>, ()> {
    let write: Write<Vec<(HeaderName, HeaderValue)>, ()> = |_, key, headers, page| {
        let headers = headers.iter();
        page.pairs(key, headers.map(|(name, value)| (name.to_string(), value_text(value))));
    };
    nested(Form::Pairs, |_, key, table| Some(table.pairs(key, header)), write)
}

fn value_text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), PairError> {
    let shown = literal(name);
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| PairError::Name(is_not(name, "the name of a header")))?;
    let hint = match header.as_str() {
        "authorization" | "proxy-authorization" | "cookie" => {
            "a secret does not belong in a configuration; use `bearer-file` or `basic`"
        }
        "content-length" | "transfer-encoding" | "connection" | "upgrade" | "te" => {
            "leave it out: podnudge sets it as the request needs it"
        }
        _ => {
            let value = HeaderValue::from_str(value).map_err(|_| {
                let reason = Reason::new(format!("the value of the header {shown} cannot be sent"));
                let hint = "line breaks and other control characters are not allowed in it";
                PairError::Text(reason.hint(hint))
            })?;
            return Ok((header, value));
        }
    };
    Err(PairError::Name(Reason::new(format!("the header {shown} cannot be set")).hint(hint)))
}
