//! `[[rule.check]]`: what content must be like before it is used. Pure.

use std::path::Path;
use std::time::Duration;

use super::problem::Given;
use super::program::{Program, program};
use super::request::{self, HttpCheck};
use super::table::Table;
use super::types::{choice, duration, glob, key};
use super::validate::{MINUTE, MS, SECOND, at_most_one};
use crate::reason::Reason;

/// One condition that the content of a rule's volumes must meet.
#[derive(Debug, Clone)]
pub struct Check {
    /// The keys it is about; empty: all.
    pub keys: Vec<glob::Pattern>,
    /// The condition.
    pub condition: Condition,
}

impl Check {
    /// Whether it knows when certificates expire.
    #[must_use]
    pub fn is_of_certificates(&self) -> bool {
        matches!(self.condition, Condition::Syntax(Syntax::Pem))
    }
}

/// What content must be like.
#[derive(Debug, Clone)]
pub enum Condition {
    /// Every key has content.
    NotEmpty,
    /// These keys are there.
    RequiredKeys(Vec<String>),
    /// All keys together hold at most this many bytes.
    MaxBytes(u64),
    /// Every key can be parsed.
    Syntax(Syntax),
    /// A program says so, by ending with 0. In its arguments, `{dir}` stands for the copy of the
    /// first volume, `{root}` for the directory below which each volume's copy is at the volume's
    /// own path.
    Exec(Program),
    /// A URL says so, by its status, of each key.
    Http(Box<HttpCheck>),
}

/// What podnudge can parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// RFC 8259.
    Json,
    /// YAML 1.2, one document or several.
    Yaml,
    /// TOML 1.0.
    Toml,
    /// Certificates and private keys, RFC 7468: valid now, and belonging together. Only with TLS.
    Pem,
}

/// The words for the syntaxes; `effective.rs` writes them.
pub(super) const SYNTAXES: [(&str, Syntax); 4] =
    [("json", Syntax::Json), ("yaml", Syntax::Yaml), ("toml", Syntax::Toml), ("pem", Syntax::Pem)];

const CONDITIONS: [&str; 6] = ["syntax", "required-keys", "max-bytes", "not-empty", "exec", "http"];

/// All checks of a rule, in their order; `None` only after a problem was reported.
pub(super) fn checks(rule: &mut Table<'_>, bundle: Option<&Path>) -> Option<Vec<Check>> {
    let tables = rule.tables("check", "[[rule.check]]");
    let checks: Vec<Option<Check>> = tables.into_iter().map(|table| check(table, bundle)).collect();
    checks.into_iter().collect()
}

fn check(mut table: Table<'_>, bundle: Option<&Path>) -> Option<Check> {
    let report = table.report;
    let at = table.at.clone();
    let one = at_most_one(&table, &CONDITIONS);
    let none = CONDITIONS.iter().all(|condition| table.place_of(condition).is_none());
    let keys_at = table.place_of("keys").cloned();
    let keys = table.list("keys", glob).map(|given| given.value).unwrap_or_default();
    let syntax = syntax(&mut table);
    let required = required_keys(&mut table);
    let most = table.number("max-bytes", 1, u32::MAX).map(u64::from).map(Condition::MaxBytes);
    let not_empty_at = table.place_of("not-empty").cloned();
    let not_empty = table.truth("not-empty").then_some(Condition::NotEmpty);
    if let (Some(at), None) = (not_empty_at, &not_empty) {
        let reason = Reason::new("`not-empty` can only be `true`");
        report.problem(&at, reason.hint("leave the check out"));
    }
    let timeout = timeout(&mut table);
    let exec = exec(&mut table, timeout);
    let http = request::check(&mut table, timeout, bundle).map(Box::new).map(Condition::Http);
    if none {
        let conditions = CONDITIONS.join("`, `");
        let reason = Reason::new("the check asks for nothing");
        report.problem(&at, reason.hint(format!("add one of `{conditions}`")));
    }
    let without_keys = [("required-keys", required.is_some()), ("exec", exec.is_some())];
    if let (Some(at), Some((name, _))) = (keys_at, without_keys.iter().find(|(_, is)| *is)) {
        let reason = Reason::new(format!("`keys` has no use beside `{name}`"));
        report.problem(&at, reason.hint("leave it out"));
    }
    table.finish();
    let condition = syntax.or(required).or(most).or(not_empty).or(exec).or(http);
    let keys = keys.into_iter().map(|given| given.value).collect();
    one.then_some(Check { keys, condition: condition? })
}

fn syntax(table: &mut Table<'_>) -> Option<Condition> {
    let Given { at, value } = table.parsed("syntax", choice(&SYNTAXES))?;
    if value == Syntax::Pem && !cfg!(feature = "tls") {
        let reason = Reason::new("this podnudge was built without TLS, and cannot read PEM");
        table.report.problem(&at, reason.hint("use the image with TLS"));
        return None;
    }
    Some(Condition::Syntax(value))
}

/// How long whoever is asked may take.
fn timeout(table: &mut Table<'_>) -> Duration {
    let is_asked = ["exec", "http"].iter().any(|by| table.place_of(by).is_some());
    match table.parsed("timeout", duration(10 * MS, 10 * MINUTE)) {
        Some(Given { value, .. }) if is_asked => value,
        Some(Given { at, .. }) => {
            let reason = Reason::new("`timeout` has a use only beside `exec` and `http`");
            table.report.problem(&at, reason.hint("leave it out"));
            10 * SECOND
        }
        None => 10 * SECOND,
    }
}

fn required_keys(table: &mut Table<'_>) -> Option<Condition> {
    let Given { at, value } = table.list("required-keys", key)?;
    if value.is_empty() {
        table.report.problem(&at, Reason::new("`required-keys` names no key"));
    }
    Some(Condition::RequiredKeys(value.into_iter().map(|given| given.value).collect()))
}

fn exec(table: &mut Table<'_>, timeout: Duration) -> Option<Condition> {
    if table.place_of("exec").is_none() {
        table.forget("exec");
        return None;
    }
    Some(Condition::Exec(Program { arguments: program(table, "exec")?, timeout }))
}
