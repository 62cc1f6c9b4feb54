//! `[rule.verify]`: how it is known that the application runs the new content. Pure.

use std::time::Duration;

use super::action::Action;
use super::define::Heading::Verify as VERIFY;
use super::define::{Form, Relation, Type, option};
use super::place::Place;
use super::program::{Program, argument, judge_program};
use super::request::{Access, Endpoint, OF_A_REQUEST};
use super::socket::{SocketAddress, SocketCommand, judge_end, socket, something};
use super::types::{
    HOUR, MINUTE, MS, SECOND, ZERO, duration, expression, json_pointer, metric_name, status,
    string, truth, web,
};
use crate::reason::Reason;
use crate::shown::literal;

settings! {
    /// How to verify that the application runs the new content. All that is set here must hold.
    pub struct VerifySettings = "[rule.verify]",
        &[
            Relation::Needs(&["expect"], &["http"]),
            Relation::Needs(&BODY_PROOFS, &["http"]),
            Relation::Needs(&OF_A_REQUEST, &["http"]),
            Relation::Together(&["socket", "send", "answer-matches"]),
            Relation::Needs(&["socket-timeout"], &["socket"]),
            Relation::Needs(&["exec-timeout"], &["exec"]),
        ];
        judge judge_proofs
    {
        /// The process must survive a signal or a restart for this long.
        alive_for: Option<Duration> = optional("`1s`, if the rule signals or restarts a process", duration(ZERO, MINUTE.saturating_mul(10))), option("alive-for", "TIME", VERIFY);
        /// The time limit for all proofs.
        timeout: Duration = default("30s", duration(MS.saturating_mul(10), HOUR));
        /// After a signal, the process must start a new child process, as nginx, Apache httpd, gunicorn and php-fpm do.
        children_newer: Option<bool> = optional("", truth()), option("children-newer", "", VERIFY);
        /// This URL must answer with success after the action.
        http: Option<reqwest::Url> = optional("", web()), option("verify-url", "URL", VERIFY).common();
        /// The statuses that mean success.
        expect: Vec<u16> = list("any status from 200 to 299", status());
        /// The answer must match this.
        body_matches: Vec<regex_lite::Regex> = list("", expression());
        /// The number at this JSON pointer must be larger than before the action.
        json_grew: Vec<String> = list("", string("a JSON pointer", json_pointer));
        /// The value at this JSON pointer must differ from the one before the action.
        json_changed: Vec<String> = list("", string("a JSON pointer", json_pointer));
        /// The value at a JSON pointer must be equal to a given one.
        json_equals: Vec<JsonEquals> = one_or_more;
        /// The list or the text at a JSON pointer must contain a given value.
        json_contains: Vec<JsonContains> = one_or_more;
        /// This sample in the Prometheus text format, with its labels as printed, must be larger than before the action.
        metric_grew: Vec<String> = list("", string("a metric", metric_name));
        /// A sample in the Prometheus text format must be equal to a number.
        metric_equals: Vec<MetricEquals> = one_or_more;
        /// How one gets in.
        access: Access = flatten;
        /// The socket to send a command to.
        socket: Option<SocketAddress> = optional("", socket());
        /// The text to send to the socket.
        send: Option<String> = optional("", string("text", something));
        /// The socket's answer must match this.
        answer_matches: Option<regex_lite::Regex> = optional("", expression());
        /// The time limit for one exchange with the socket.
        socket_timeout: Duration = default("2s", duration(MS.saturating_mul(10), HOUR));
        /// This program must exit with 0 after the action.
        exec: Vec<String> = list("", string("an argument", argument));
        /// The time limit for one run of the program.
        exec_timeout: Duration = default("10s", duration(MS.saturating_mul(10), HOUR));
    }
}

settings! {
    /// A value in a JSON answer.
    pub struct JsonEquals = "json-equals"; {
        /// The JSON pointer of the value.
        pointer: String = required("pointer = \"/status/ok\"", string("a JSON pointer", json_pointer));
        /// The value that is expected.
        value: Scalar = required("value = true", scalar());
    }
}

settings! {
    /// A list or a text in a JSON answer.
    pub struct JsonContains = "json-contains"; {
        /// The JSON pointer of the list or the text.
        pointer: String = required("pointer = \"/status/ok\"", string("a JSON pointer", json_pointer));
        /// The value that it must contain.
        value: Scalar = required("value = true", scalar());
    }
}

settings! {
    /// A sample in the Prometheus text format.
    pub struct MetricEquals = "metric-equals"; judge judge_value {
        /// The name of the sample, with its labels as printed.
        name: String = required("name = \"prometheus_config_last_reload_successful\"", string("a metric", metric_name));
        /// The number that is expected.
        value: Scalar = required("value = 1", scalar());
    }
}

/// How it is known that the application took the change.
#[derive(Debug, Clone)]
pub struct Verify {
    /// After a signal: the same process must still be there after this time.
    pub alive_for: Duration,
    /// What else must be seen: all of it, asked for in this order.
    pub proofs: Vec<ProofBy>,
    /// How long the proofs may take.
    pub timeout: Duration,
}

/// Who tells that the application took the change.
#[derive(Debug, Clone)]
pub enum ProofBy {
    /// The answer to a request.
    Http(Box<HttpProof>),
    /// `/proc`: each process that was signalled has a child that started after the signal.
    ChildrenNewer,
    /// The answer to a command on a socket.
    Socket(SocketCommand),
    /// A program, by ending with 0.
    Exec(Program),
}

/// A request whose answer proves that the application took the change.
#[derive(Debug, Clone)]
pub struct HttpProof {
    /// Where it goes.
    pub endpoint: Endpoint,
    /// Statuses that mean success; empty: any 2xx.
    pub expect: Vec<u16>,
    /// What the body must say: all of it.
    pub bodies: Vec<BodyProof>,
}

/// What the body of the answer must say.
#[derive(Debug, Clone)]
pub enum BodyProof {
    /// It matches this.
    Matches(regex_lite::Regex),
    /// The number at this JSON pointer is larger than before the action.
    JsonGrew(String),
    /// The value at this JSON pointer is another one than before the action.
    JsonChanged(String),
    /// The value at this JSON pointer is this one.
    JsonEquals(String, Scalar),
    /// At this JSON pointer, there is a list with this element, or a text with this part.
    JsonContains(String, Scalar),
    /// The sample of this name (labels included, as printed) in the Prometheus text format is
    /// larger than before the action.
    MetricGrew(String),
    /// The sample of this name is this number.
    MetricEquals(String, i64),
}

/// A value to compare with. There are no fractions: how one is printed and rounded is nobody's
/// promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Truth(bool),
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

/// Read as JSON writes it, shown as TOML does.
const fn scalar() -> Type<Scalar> {
    let parse = |text: &str| match serde_json::from_str(text) {
        Ok(serde_json::Value::String(text)) => Ok(Scalar::Text(text)),
        Ok(serde_json::Value::Bool(truth)) => Ok(Scalar::Truth(truth)),
        Ok(serde_json::Value::Number(number)) if number.is_i64() => {
            Ok(Scalar::Number(number.as_i64().unwrap_or_default()))
        }
        _ => Err(Reason::new(format!("{} cannot be compared", literal(text)))
            .hint("write it in decimal, up to 64 bits")),
    };
    let show = |scalar: &Scalar| match scalar {
        Scalar::Text(text) => toml::Value::from(text.as_str()).to_string(),
        Scalar::Number(number) => number.to_string(),
        Scalar::Truth(truth) => truth.to_string(),
    };
    Type { form: Form::Scalar, parse, show }
}

impl MetricEquals {
    fn judge_value(&mut self, place: &Place<'_>) {
        if !matches!(self.value, Scalar::Number(_)) {
            let message = "`value`: must be a whole number, as metrics are numbers";
            place.wrong("value", Reason::new(message));
        }
    }
}

impl VerifySettings {
    fn judge_proofs(&mut self, place: &Place<'_>) {
        for key in BODY_PROOFS.iter().chain(&["exec"]).filter(|key| place.has_empty_list(key)) {
            let reason = Reason::new(format!("`{key}` is empty"));
            place.problem(key, reason.hint("leave it out"));
        }
        judge_program(place, "exec", &self.exec);
        self.send.iter().for_each(|send| judge_end(place, send));
        // A limit that nothing needs does not move the one for all.
        if self.socket.is_some() {
            let socket = ("socket-timeout", &mut self.socket_timeout);
            place.in_order(socket, ("timeout", &mut self.timeout));
        }
        if !self.exec.is_empty() {
            place
                .in_order(("exec-timeout", &mut self.exec_timeout), ("timeout", &mut self.timeout));
        }
    }

    /// `None` only after a problem was reported.
    pub(super) fn decide(&mut self, place: &Place<'_>, actions: &[Action]) -> Option<Verify> {
        if actions.iter().any(Action::needs_process) {
            self.alive_for.get_or_insert(SECOND);
        } else {
            only_for(place, "alive-for", "signals and restarts");
        }
        if !actions.iter().any(|action| matches!(action, Action::Signal(_))) {
            only_for(place, "children-newer", "signals");
        }
        let by_http = self.http.clone().map(|url| self.by_http(place, &url));
        let mut proofs: Vec<ProofBy> = by_http.into_iter().collect::<Option<_>>()?;
        proofs.extend((self.children_newer == Some(true)).then_some(ProofBy::ChildrenNewer));
        if let (Some(socket), Some(send), Some(answer_matches)) =
            (self.socket.clone(), self.send.clone(), self.answer_matches.clone())
        {
            let timeout = self.socket_timeout;
            proofs.push(ProofBy::Socket(SocketCommand { socket, send, answer_matches, timeout }));
        }
        if !self.exec.is_empty() {
            let (arguments, timeout) = (self.exec.clone(), self.exec_timeout);
            proofs.push(ProofBy::Exec(Program { arguments, timeout }));
        }
        let alive_for = self.alive_for.unwrap_or(SECOND);
        Some(Verify { alive_for, proofs, timeout: self.timeout })
    }

    fn by_http(&mut self, place: &Place<'_>, url: &reqwest::Url) -> Option<ProofBy> {
        let timeout = self.timeout.min(SECOND.saturating_mul(10));
        let endpoint = self.access.endpoint(place, ("http", url), timeout)?;
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
            Scalar::Text(_) | Scalar::Truth(_) => None,
        }));
        let expect = self.expect.clone();
        Some(ProofBy::Http(Box::new(HttpProof { endpoint, expect, bodies })))
    }
}

fn only_for(place: &Place<'_>, key: &str, what: &str) {
    if place.has(key) {
        let reason = format!("`{key}` is for {what}, and this rule has none");
        place.problem(key, Reason::new(reason).hint("use `http`, a URL to ask afterwards"));
    }
}
