//! `[[rule.check]]`: what content must be like before it is used. Pure.

use super::problem::{Given, literal};
use super::table::Table;
use super::types::{choice, glob};
use super::validate::at_most_one;
use crate::core::event::Reason;

/// One condition that the content of a rule's volumes must meet.
#[derive(Debug, Clone)]
pub struct Check {
    /// The keys it is about; empty: all.
    pub keys: Vec<glob::Pattern>,
    /// The condition.
    pub condition: Condition,
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
}

/// The words for the syntaxes; `effective.rs` writes them.
pub(super) const SYNTAXES: [(&str, Syntax); 3] =
    [("json", Syntax::Json), ("yaml", Syntax::Yaml), ("toml", Syntax::Toml)];

const CONDITIONS: [&str; 4] = ["syntax", "required-keys", "max-bytes", "not-empty"];

/// All checks of a rule, in their order; `None` only after a problem was reported.
pub(super) fn checks(rule: &mut Table<'_>) -> Option<Vec<Check>> {
    let tables = rule.tables("check", "[[rule.check]]");
    let checks: Vec<Option<Check>> = tables.into_iter().map(check).collect();
    checks.into_iter().collect()
}

fn check(mut table: Table<'_>) -> Option<Check> {
    let report = table.report;
    let at = table.at.clone();
    let one = at_most_one(&table, &CONDITIONS);
    let none = CONDITIONS.iter().all(|condition| table.place_of(condition).is_none());
    let keys_at = table.place_of("keys").cloned();
    let keys = table.list("keys", glob).map(|given| given.value).unwrap_or_default();
    let syntax = table.parsed("syntax", choice(&SYNTAXES)).map(|g| Condition::Syntax(g.value));
    let required = required_keys(&mut table);
    let most = table.number("max-bytes", 1, u32::MAX).map(u64::from).map(Condition::MaxBytes);
    let not_empty_at = table.place_of("not-empty").cloned();
    let not_empty = table.truth("not-empty").then_some(Condition::NotEmpty);
    if let (Some(at), None) = (not_empty_at, &not_empty) {
        let reason = Reason::new("`not-empty` can only be `true`");
        report.problem(&at, reason.hint("leave the check out"));
    }
    if none {
        let conditions = CONDITIONS.join("`, `");
        let reason = Reason::new("the check asks for nothing");
        report.problem(&at, reason.hint(format!("add one of `{conditions}`")));
    }
    if let (Some(at), Some(Condition::RequiredKeys(_))) = (keys_at, &required) {
        let reason = Reason::new("`keys` has no use beside `required-keys`");
        report.problem(&at, reason.hint("leave it out"));
    }
    table.finish();
    let condition = syntax.or(required).or(most).or(not_empty);
    let keys = keys.into_iter().map(|given| given.value).collect();
    one.then_some(Check { keys, condition: condition? })
}

fn required_keys(table: &mut Table<'_>) -> Option<Condition> {
    let key = |text: &str| {
        let parts_fit = text.split('/').all(|part| !part.is_empty() && !part.starts_with(".."));
        if parts_fit {
            return Ok(text.to_owned());
        }
        Err(Reason::new(format!("{} is not the name of a key", literal(text)))
            .hint("keys are named by their path below the volume, such as `sites/a.conf`"))
    };
    let Given { at, value } = table.list("required-keys", key)?;
    if value.is_empty() {
        table.report.problem(&at, Reason::new("`required-keys` names no key"));
    }
    Some(Condition::RequiredKeys(value.into_iter().map(|given| given.value).collect()))
}
