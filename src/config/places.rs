//! Which keys each table of the file has, for a word about a key that stands in another. Pure.

use super::action::KINDS;
use super::proof::BODY_PROOFS;
use super::request::OF_AN_ENDPOINT;

/// The tables, as the file writes them, and their keys.
#[rustfmt::skip] // a table
const TABLES: [(&str, &[&[&str]]); 15] = [
    ("[agent]", &[&[
        "listen", "reload", "reload-token-file", "log", "log-level", "work-dir", "state-dir",
        "watch", "audit", "poll", "grace",
    ]]),
    ("[[rule]]", &[&KINDS, &[
        "name", "watch", "only", "ignore", "check", "publish", "settle", "settle-max", "hold",
        "jitter", "min-interval", "retry", "on-start", "target", "on-failure", "verify",
    ]]),
    ("[[rule.check]]", &[&OF_AN_ENDPOINT, &[
        "keys", "syntax", "required-keys", "max-bytes", "not-empty", "exec", "http", "timeout",
        "method", "content-type", "expect",
    ]]),
    ("[rule.publish]", &[&["dir", "keep", "mode", "uid", "gid", "rollback"]]),
    ("[rule.hold]", &[&["pause-file", "pause-key", "window", "time-zone", "approve"]]),
    ("[rule.jitter]", &[&["window", "by"]]),
    ("[rule.retry]", &[&["first", "max", "attempts"]]),
    ("[rule.target]", &[&["process", "exe", "cmdline", "pidfile", "uid", "all", "wait"]]),
    ("[rule.signal]", &[&["name", "allow-unhandled"]]),
    ("[rule.http]", &[&OF_AN_ENDPOINT, &[
        "url", "method", "timeout", "body", "body-file", "expect",
    ]]),
    ("[rule.exec]", &[&["argv", "timeout"]]),
    ("[rule.command]", &[&["socket", "send", "answer-matches", "timeout"]]),
    ("[rule.restart]", &[&["grace", "most", "within"]]),
    ("[rule.verify]", &[&OF_AN_ENDPOINT, &BODY_PROOFS, &[
        "alive-for", "children-newer", "timeout", "http", "expect", "socket", "socket-timeout",
        "send", "answer-matches", "exec", "exec-timeout",
    ]]),
    ("basic", &[&["username", "password-file"]]),
];

/// The only table that has this key, if there is one.
pub(super) fn only_place_of(key: &str) -> Option<&'static str> {
    let mut tables = TABLES.iter().filter(|(_, keys)| has(keys, key));
    let (header, _) = tables.next()?;
    tables.next().is_none().then_some(header)
}

/// Whether all these keys are listed here for this table, if it is.
pub(super) fn are_listed(header: &str, keys: &[&str]) -> bool {
    let table = TABLES.iter().find(|(listed, _)| *listed == header);
    table.is_none_or(|(_, listed)| keys.iter().all(|key| has(listed, key)))
}

fn has(lists: &[&[&str]], key: &str) -> bool {
    lists.iter().any(|keys| keys.contains(&key))
}
