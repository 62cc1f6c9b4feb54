//! `[rule.verify]`: how it is known that the application took a change. Pure.

use std::path::Path;
use std::time::Duration;

use super::problem::{At, Given, Report};
use super::program::{Program, program};
use super::proof::{BODY_PROOFS, BodyProof, HttpProof, ProofBy};
use super::request::{endpoint, limit, statuses, without_url};
use super::socket::socket_command;
use super::table::Table;
use super::types::{duration, json_pointer, metric_name, regex, url};
use super::validate::{HOUR, MINUTE, SECOND, in_order, value_or};
use super::{Action, Scalar, Verify};
use crate::reason::Reason;

/// `[rule.verify]`; `None` only after a problem was reported.
pub(super) fn verify(
    rule: &mut Table<'_>,
    actions: &[Action],
    bundle: Option<&Path>,
) -> Option<Verify> {
    let Some(mut table) = rule.table("verify", "[rule.verify]", None) else {
        let (alive_for, timeout) = (SECOND, 30 * SECOND);
        return Some(Verify { alive_for, proofs: Vec::new(), timeout });
    };
    let report = table.report;
    let alive_for = table.parsed("alive-for", duration(Duration::ZERO, 10 * MINUTE));
    let children_at = table.place_of("children-newer").cloned();
    let children_newer = table.truth("children-newer").then_some(ProofBy::ChildrenNewer);
    let hint = "use `http`, a URL to ask afterwards";
    if !actions.iter().any(Action::needs_process) && !actions.is_empty() {
        only_for(
            report,
            "alive-for",
            "signals and restarts",
            alive_for.as_ref().map(|g| &g.at),
            hint,
        );
    }
    let is_signal = |action: &Action| matches!(action, Action::Signal(_));
    if !actions.iter().any(is_signal) && !actions.is_empty() {
        only_for(report, "children-newer", "signals", children_at.as_ref(), hint);
    }
    let timeout = table.parsed("timeout", limit(HOUR));
    let (socket_limit, for_socket) =
        limits(&mut table, ("socket", "socket-timeout"), 2 * SECOND, timeout.as_ref());
    let (exec_limit, for_exec) =
        limits(&mut table, ("exec", "exec-timeout"), 10 * SECOND, timeout.as_ref());
    let timeout = for_socket.max(for_exec);
    let by_http = http_proof(&mut table, timeout.min(10 * SECOND), bundle);
    let by_socket = socket_proof(&mut table, socket_limit);
    let by_exec = exec_proof(&mut table, exec_limit);
    table.finish();
    let mut proofs = Vec::new();
    proofs.extend(by_http?);
    proofs.extend(children_newer);
    proofs.extend(by_socket?);
    proofs.extend(by_exec?);
    Some(Verify { alive_for: value_or(alive_for, SECOND), proofs, timeout })
}

fn only_for(report: &Report<'_>, key: &str, what: &str, at: Option<&At>, hint: &str) {
    if let Some(at) = at {
        let reason = format!("`{key}` is for {what}, and this rule has none");
        report.problem(at, Reason::new(reason).hint(hint));
    }
}

/// The limit for one look, and for all of them.
fn limits(
    table: &mut Table<'_>,
    (of, key): (&str, &'static str),
    default: Duration,
    timeout: Option<&Given<Duration>>,
) -> (Duration, Duration) {
    let one = table.parsed(key, limit(HOUR));
    if let (Some(given), None) = (&one, table.place_of(of)) {
        let reason = Reason::new(format!("`{key}` has a use only beside `{of}`"));
        table.report.problem(&given.at, reason.hint("leave it out"));
    }
    in_order(table.report, (one, default), (timeout.cloned(), 30 * SECOND), &|a, b| {
        format!("`{key}` is {a}, longer than `timeout`, {b}")
    })
}

/// The outer `None` only after a problem was reported.
#[expect(clippy::option_option, reason = "refused, not asked for, asked for: as everywhere here")]
fn http_proof(
    table: &mut Table<'_>,
    timeout: Duration,
    bundle: Option<&Path>,
) -> Option<Option<ProofBy>> {
    if table.place_of("http").is_none() {
        let hint = "for example `http = \"http://127.0.0.1/healthz\"`";
        without_url(table, &[["expect"].as_slice(), &BODY_PROOFS].concat(), hint);
        return Some(None);
    }
    let url = table.parsed("http", url);
    let endpoint = endpoint(table, url, timeout, bundle);
    let bodies = bodies(table);
    let expect = statuses(table);
    Some(Some(ProofBy::Http(Box::new(HttpProof { endpoint: endpoint?, expect, bodies }))))
}

fn bodies(table: &mut Table<'_>) -> Vec<BodyProof> {
    const EQUALS: (&str, &str) = ("json-equals", "json-equals = { pointer = …, value = … }");
    const CONTAINS: (&str, &str) = ("json-contains", "json-contains = { pointer = …, value = … }");
    for key in BODY_PROOFS {
        if table.has_empty_list(key)
            && let Some(at) = table.place_of(key)
        {
            let reason = Reason::new(format!("`{key}` asks for nothing"));
            table.report.problem(at, reason.hint("leave it out"));
        }
    }
    let mut bodies = texts(table, "body-matches", regex, BodyProof::Matches);
    bodies.extend(texts(table, "json-grew", json_pointer, BodyProof::JsonGrew));
    bodies.extend(texts(table, "json-changed", json_pointer, BodyProof::JsonChanged));
    bodies.extend(at_pointer(table, EQUALS, BodyProof::JsonEquals));
    bodies.extend(at_pointer(table, CONTAINS, BodyProof::JsonContains));
    bodies.extend(texts(table, "metric-grew", metric_name, BodyProof::MetricGrew));
    bodies.extend(metric_equals(table));
    bodies
}

fn texts<T>(
    table: &mut Table<'_>,
    key: &'static str,
    parse: fn(&str) -> Result<T, Reason>,
    proof: fn(T) -> BodyProof,
) -> Vec<BodyProof> {
    let given = table.list(key, parse).map(|given| given.value).unwrap_or_default();
    given.into_iter().map(|given| proof(given.value)).collect()
}

/// What is refused here is missing in the list, and reported.
fn at_pointer(
    table: &mut Table<'_>,
    (key, header): (&'static str, &'static str),
    proof: fn(String, Scalar) -> BodyProof,
) -> Vec<BodyProof> {
    let one = |mut table: Table<'_>| {
        let pointer = table.required("pointer", "pointer = \"/status/ok\"", json_pointer);
        let value = table.required_scalar("value", "value = true");
        table.finish();
        Some(proof(pointer?.value, value?.value))
    };
    table.one_or_more(key, header).into_iter().filter_map(one).collect()
}

fn metric_equals(table: &mut Table<'_>) -> Vec<BodyProof> {
    let one = |mut table: Table<'_>| {
        let example = "name = \"prometheus_config_last_reload_successful\"";
        let name = table.required("name", example, metric_name);
        let value = table.required_scalar("value", "value = 1");
        let report = table.report;
        table.finish();
        let Given { at, value } = value?;
        if let Scalar::Number(number) = value {
            return Some(BodyProof::MetricEquals(name?.value, number));
        }
        report.problem(&at, Reason::new("`value`: must be a whole number, as metrics are numbers"));
        None
    };
    let header = "metric-equals = { name = …, value = … }";
    table.one_or_more("metric-equals", header).into_iter().filter_map(one).collect()
}

/// The outer `None` only after a problem was reported.
#[expect(clippy::option_option, reason = "refused, not asked for, asked for: as everywhere here")]
fn socket_proof(table: &mut Table<'_>, timeout: Duration) -> Option<Option<ProofBy>> {
    const OF_THE_SOCKET: [&str; 2] = ["send", "answer-matches"];
    if table.place_of("socket").is_none() {
        let hint = "for example `socket = \"/run/haproxy/master.sock\"`";
        table.without("socket", &OF_THE_SOCKET, "`socket`, the socket to ask", hint);
        return Some(None);
    }
    socket_command(table, timeout).map(|command| Some(ProofBy::Socket(command)))
}

/// The outer `None` only after a problem was reported.
#[expect(clippy::option_option, reason = "refused, not asked for, asked for: as everywhere here")]
fn exec_proof(table: &mut Table<'_>, timeout: Duration) -> Option<Option<ProofBy>> {
    if table.place_of("exec").is_none() {
        table.forget("exec");
        return Some(None);
    }
    let arguments = program(table, "exec")?;
    Some(Some(ProofBy::Exec(Program { arguments, timeout })))
}
