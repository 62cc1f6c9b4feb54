//! `[rule.verify]`: how to verify that the application runs the new content. Pure.

use std::net::{IpAddr, SocketAddr};

use super::action::Action;
use super::prelude::*;
use super::program::{Program, argument, validate_program};
use super::request::{Access, Endpoint, REQUEST_KEYS};
use super::socket::{SocketAddress, SocketCommand, command_text, port, socket, warn_of_escape};

settings! {
    /// How to verify that the application runs the new content. All that is set here must hold.
    pub struct VerifySettings = "[rule.verify]",
        &[
            Relation::Needs(&["expect"], &["http"]),
            Relation::Needs(&BODY_PROOFS, &["http"]),
            Relation::Needs(&REQUEST_KEYS, &["http"]),
            Relation::Needs(&["tls-certificate", "tls-server-name"], &["tls"]),
            Relation::Together(&["socket", "send", "answer-matches"]),
            Relation::Needs(&["attempt-timeout"], &["http", "tls", "socket", "exec"]),
        ];
        validated
    {
        /// The process must survive a signal or a restart for this long, and with `children-newer` also its new child process.
        alive_for: Option<Duration> = optional("`1s` after a signal, `10s` after a restart whose new process is the only evidence", duration(ZERO, MINUTE.saturating_mul(10))).option("alive-for", "TIME", Verification);
        /// The time limit for all proofs. For the same time after them, published content is rolled back if the target ends.
        timeout: Duration = default("30s", time_limit(HOUR));
        /// The time limit for one attempt of a proof: a request, a TLS handshake, an exchange with the socket, or a run of the program. Failed attempts are repeated until `timeout`.
        attempt_timeout: Option<Duration> = optional("`10s` for requests and programs, `5s` for handshakes, `2s` for sockets", time_limit(HOUR));
        /// After a signal, the process must start a new child process that survives, as nginx, Apache httpd, gunicorn and php-fpm do.
        children_newer: Option<bool> = optional("", boolean()).option("children-newer", "", Verification);
        /// A URL that must answer with success after the action.
        http: Option<url::Url> = optional("", url()).option("verify-url", "URL", Verification).common();
        /// The statuses that mean success.
        expect: Vec<u16> = list("any status from 200 to 299", status());
        /// The answer must match this.
        body_matches: Vec<regex_lite::Regex> = optional_list(regex());
        /// The number at this JSON pointer must be larger than before the action.
        json_grew: Vec<String> = optional_list(checked("a JSON pointer", parsers::json_pointer));
        /// The value at this JSON pointer must differ from the one before the action.
        json_changed: Vec<String> = optional_list(checked("a JSON pointer", parsers::json_pointer));
        /// The value at a JSON pointer must be equal to a given one.
        json_equals: Vec<JsonEquals> = one_or_more();
        /// The list or the text at a JSON pointer must contain a given value.
        json_contains: Vec<JsonContains> = one_or_more();
        /// A sample in the Prometheus text format, with its labels as printed, that must be larger than before the action.
        metric_grew: Vec<String> = optional_list(checked("a metric", parsers::metric_name));
        /// A sample in the Prometheus text format must be equal to a number.
        metric_equals: Vec<MetricEquals> = one_or_more();
        /// Credentials, headers and certificates.
        access: Access = flatten();
        /// After the action, this address must present the certificate of the content in a TLS handshake. STARTTLS is not supported.
        tls: Option<SocketAddr> = optional("", port()).option("verify-tls", "ADDRESS", Verification);
        /// The key with the certificate to compare with: the first certificate in it.
        tls_certificate: String = default("tls.crt", checked("a key", parsers::key));
        /// The server name to send (SNI), for an address that has several certificates.
        tls_server_name: Option<String> = optional("none is sent", checked("a DNS name", server_name));
        /// The socket to send a command to.
        socket: Option<SocketAddress> = optional("", socket());
        /// The text to send to the socket.
        send: Option<String> = optional("", checked("text", command_text));
        /// The socket's answer must match this.
        answer_matches: Option<regex_lite::Regex> = optional("", regex());
        /// A program that must exit with 0 after the action.
        exec: Vec<String> = optional_list(checked("an argument", argument));
    }
}

settings! {
    /// A value in a JSON answer.
    pub struct JsonEquals = "json-equals"; {
        /// The JSON pointer of the value.
        pointer: String = required("pointer = \"/status/ok\"", checked("a JSON pointer", parsers::json_pointer));
        /// The value that is expected.
        value: Scalar = required("value = true", scalar());
    }
}

settings! {
    /// A list or a text in a JSON answer.
    pub struct JsonContains = "json-contains"; {
        /// The JSON pointer of the list or the text.
        pointer: String = required("pointer = \"/status/ok\"", checked("a JSON pointer", parsers::json_pointer));
        /// The value that it must contain.
        value: Scalar = required("value = true", scalar());
    }
}

settings! {
    /// A sample in the Prometheus text format.
    pub struct MetricEquals = "metric-equals"; validated {
        /// The name of the sample, with its labels as printed.
        name: String = required("name = \"prometheus_config_last_reload_successful\"", checked("a metric", parsers::metric_name));
        /// The number that is expected.
        value: Scalar = required("value = 1", scalar());
    }
}

/// How to verify that the application runs the new content.
#[derive(Debug, Clone)]
pub struct Verify {
    /// The process must survive a signal or a restart for this long.
    pub alive_for: Duration,
    /// The proofs, in the order in which they are requested; all must hold.
    pub proofs: Vec<ProofBy>,
    /// The time limit for all proofs.
    pub timeout: Duration,
}

/// A source of proof that the application runs the new content.
#[derive(Debug, Clone)]
pub enum ProofBy {
    /// The answer to a request.
    Http(Box<HttpProof>),
    /// Each signalled process has a child that started after the signal, as `/proc` shows.
    ChildrenNewer,
    /// The certificate that is presented in a TLS handshake.
    #[cfg(feature = "tls")]
    Tls(TlsProof),
    /// The answer to a socket command.
    Socket(SocketCommand),
    /// The exit status of a program.
    Exec(Program),
}

impl ProofBy {
    /// The proof's key in `[rule.verify]`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::ChildrenNewer => "children-newer",
            #[cfg(feature = "tls")]
            Self::Tls(_) => "tls",
            Self::Socket(_) => "socket",
            Self::Exec(_) => "exec",
        }
    }
}

/// A TLS handshake in which the certificate of the content is the proof.
#[cfg(feature = "tls")]
#[derive(Debug, Clone)]
pub struct TlsProof {
    /// Where the application listens.
    pub address: SocketAddr,
    /// The key of the content whose first certificate must be presented.
    pub certificate: String,
    /// The server name to send.
    pub server_name: Option<String>,
    /// The time limit for one handshake.
    pub timeout: Duration,
}

/// An HTTP request whose answer is the proof.
#[derive(Debug, Clone)]
pub struct HttpProof {
    /// The URL and its credentials.
    pub endpoint: Endpoint,
    /// Status codes that mean success; empty: any 2xx.
    pub expect: Vec<u16>,
    /// Conditions on the body; all must hold.
    pub bodies: Vec<BodyProof>,
}

/// A condition on the body of an answer.
#[derive(Debug, Clone)]
pub enum BodyProof {
    /// The body matches this.
    Matches(regex_lite::Regex),
    /// The number at this JSON pointer is larger than before the action.
    JsonGrew(String),
    /// The value at this JSON pointer differs from the one before the action.
    JsonChanged(String),
    /// The value at this JSON pointer equals this one.
    JsonEquals(String, Scalar),
    /// The list or text at this JSON pointer contains this value.
    JsonContains(String, Scalar),
    /// The sample of this name (labels included, as printed) in the Prometheus text format is
    /// larger than before the action.
    MetricGrew(String),
    /// The sample of this name equals this number.
    MetricEquals(String, i64),
}

/// A value to compare with. Fractions are left out: how they are printed and rounded is not defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Bool(bool),
}

const BODY_PROOFS: [&str; 7] = [
    "body-matches",
    "json-grew",
    "json-changed",
    "json-equals",
    "json-contains",
    "metric-grew",
    "metric-equals",
];

/// Parsed as JSON and printed as TOML.
const fn scalar() -> Type<Scalar> {
    let parse = |text: &str| match serde_json::from_str(text) {
        Ok(serde_json::Value::String(text)) => Ok(Scalar::Text(text)),
        Ok(serde_json::Value::Bool(truth)) => Ok(Scalar::Bool(truth)),
        Ok(serde_json::Value::Number(number)) if number.is_i64() => {
            Ok(Scalar::Number(number.as_i64().unwrap_or_default()))
        }
        _ => Err(Reason::new(format!("{} cannot be compared", literal(text)))
            .hint("a whole number must fit into 64 bits")),
    };
    let show = |scalar: &Scalar| match scalar {
        Scalar::Text(text) => toml::Value::from(text.as_str()).to_string(),
        Scalar::Number(number) => number.to_string(),
        Scalar::Bool(truth) => truth.to_string(),
    };
    Type { form: Form::Scalar, parse, print: show }
}

impl MetricEquals {
    fn validate(&mut self, place: &Place<'_>) {
        if !matches!(self.value, Scalar::Number(_)) {
            let message = "`value`: must be a whole number, as metrics are numbers";
            place.problem(Value("value"), Reason::new(message));
        }
    }
}

/// The time limits for one attempt of a proof, by default: of a request or a program, a handshake, and a socket.
const USUAL: Duration = SECOND.saturating_mul(10);
#[cfg(feature = "tls")]
const A_HANDSHAKE: Duration = SECOND.saturating_mul(5);
const ON_A_SOCKET: Duration = SECOND.saturating_mul(2);
/// How long a process must survive its restart, if nothing else shows that it works: one that cannot use its content may
/// end after some seconds only.
const AFTER_RESTART: Duration = SECOND.saturating_mul(10);

impl VerifySettings {
    fn validate(&mut self, place: &Place<'_>) {
        validate_program(place, "exec", &self.exec);
        self.send.iter().for_each(|send| warn_of_escape(place, send));
        if self.tls.is_some() && !cfg!(feature = "tls") {
            let reason =
                Reason::new("this podnudge was built without TLS, and cannot make a handshake");
            place.problem(Value("tls"), reason.hint("use the image with TLS"));
        }
        if let Some(attempt) = &mut self.attempt_timeout {
            place.in_order(("attempt-timeout", attempt), ("timeout", &mut self.timeout));
        }
    }

    /// The time limit for one attempt of a proof: without the setting, this default.
    fn attempt(&self, default: Duration) -> Duration {
        self.attempt_timeout.unwrap_or(default.min(self.timeout))
    }

    pub(super) fn resolve(&mut self, rule: &Place<'_>, actions: &[Action]) -> Verify {
        let place = &rule.inner("verify");
        let has_process = actions.iter().any(Action::needs_process);
        let may_end_it = ["signal", "restart"].iter().any(|key| rule.has(key));
        let evicts = actions.iter().any(|action| matches!(action, Action::Evict(_)));
        if !has_process && !actions.is_empty() && (!may_end_it || evicts) {
            refuse_without(place, "alive-for", "a signal or a restart");
        }
        if self.children_newer == Some(true) && !actions.is_empty() && !rule.has("signal") {
            refuse_without(place, "children-newer", "a signal");
        }
        let by_http = self.http.clone().map(|url| self.by_http(place, &url));
        let mut proofs: Vec<ProofBy> = by_http.into_iter().collect();
        proofs.extend((self.children_newer == Some(true)).then_some(ProofBy::ChildrenNewer));
        #[cfg(feature = "tls")]
        proofs.extend(self.tls.map(|address| {
            ProofBy::Tls(TlsProof {
                address,
                certificate: self.tls_certificate.clone(),
                server_name: self.tls_server_name.clone(),
                timeout: self.attempt(A_HANDSHAKE),
            })
        }));
        if let (Some(socket), Some(send), Some(answer_matches)) =
            (self.socket.clone(), self.send.clone(), self.answer_matches.clone())
        {
            let timeout = self.attempt(ON_A_SOCKET);
            proofs.push(ProofBy::Socket(SocketCommand { socket, send, answer_matches, timeout }));
        }
        if !self.exec.is_empty() {
            let (arguments, timeout) = (self.exec.clone(), self.attempt(USUAL));
            proofs.push(ProofBy::Exec(Program { arguments, timeout }));
        }
        if let [ProofBy::Http(http)] = &proofs[..]
            && http.bodies.is_empty()
            && rule.has("signal")
            && !rule.has("restart")
        {
            let message = "every answer with success is a proof, also with the old configuration";
            let hint = "add a condition on the answer, such as `json-grew`, or `children-newer`";
            place.warn(Value("http"), Reason::new(message).hint(hint));
        }
        if has_process {
            let is_only_evidence = proofs.is_empty() && actions.iter().any(Action::restarts);
            self.alive_for.get_or_insert(if is_only_evidence { AFTER_RESTART } else { SECOND });
        }
        let alive_for = self.alive_for.unwrap_or(SECOND);
        if self.children_newer == Some(true) && self.timeout <= alive_for {
            self.allow_children_to_survive(place, alive_for);
        }
        Verify { alive_for, proofs, timeout: self.timeout }
    }

    /// New child processes must run for `alive-for` within `timeout`.
    fn allow_children_to_survive(&mut self, place: &Place<'_>, alive_for: Duration) {
        if !place.has("timeout") {
            self.timeout = self.timeout.saturating_add(alive_for);
            return;
        }
        let shown = humantime::format_duration;
        let (timeout, alive_for) = (shown(self.timeout), shown(alive_for));
        let message =
            format!("`timeout` is {timeout}, and new child processes must run for {alive_for}");
        let hint = "set a longer `timeout`, or a shorter `alive-for`";
        place.problem(Value("timeout"), Reason::new(message).hint(hint));
    }

    fn by_http(&mut self, place: &Place<'_>, url: &url::Url) -> ProofBy {
        let timeout = self.attempt(USUAL);
        let endpoint = self.access.endpoint(place, ("http", url), timeout);
        let mut bodies: Vec<BodyProof> =
            self.body_matches.iter().cloned().map(BodyProof::Matches).collect();
        bodies.extend(self.json_grew.iter().cloned().map(BodyProof::JsonGrew));
        bodies.extend(self.json_changed.iter().cloned().map(BodyProof::JsonChanged));
        let equals = self.json_equals.iter().cloned();
        bodies.extend(equals.map(|one| BodyProof::JsonEquals(one.pointer, one.value)));
        let contains = self.json_contains.iter().cloned();
        bodies.extend(contains.map(|one| BodyProof::JsonContains(one.pointer, one.value)));
        bodies.extend(self.metric_grew.iter().cloned().map(BodyProof::MetricGrew));
        bodies.extend(self.metric_equals.iter().filter_map(|one| match one.value {
            Scalar::Number(number) => Some(BodyProof::MetricEquals(one.name.clone(), number)),
            Scalar::Text(_) | Scalar::Bool(_) => None,
        }));
        let expect = self.expect.clone();
        ProofBy::Http(Box::new(HttpProof { endpoint, expect, bodies }))
    }
}

/// A name that can be sent as the server name (RFC 6066, section 3): no IP address, and no pattern.
fn server_name(text: &str) -> Result<String, Reason> {
    let name = text.to_ascii_lowercase();
    if parsers::is_subdomain(&name) && name.parse::<IpAddr>().is_err() {
        return Ok(name);
    }
    Err(is_not(text, "a DNS name")
        .hint("write a name that the certificate is for, such as `www.example.com`"))
}

fn refuse_without(place: &Place<'_>, key: &str, needed: &str) {
    if place.has(key) {
        let reason = Reason::new(format!("`{key}` is only valid with {needed}"));
        place.problem(Key(key), reason.hint("verify with `http` instead"));
    }
}
