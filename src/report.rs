//! Facts as log lines: one line a fact, a stable `event` name, the rest as fields.
//!
//! `info` is for what an operator acts on or looks for after an edit, `warn` for what may need a
//! person, `error` for what does; `debug` has the rest. Key names are escaped by their type,
//! contents never get here.

use std::net::SocketAddr;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::config::Config;
use crate::core::event::{Reason, VolumeId};
use crate::core::fact::{Basis, Fact};
use crate::shown;
use crate::volume::mount;
use crate::volume::snapshot::{Changes, Digest, Key};

/// How many key names a log line holds at most.
const KEYS_SHOWN: usize = 20;

/// Says at start what is watched, and warns of what cannot work.
pub(crate) fn started(config: &Config, listen: Option<SocketAddr>) {
    info!(
        event = "started",
        version = env!("CARGO_PKG_VERSION"),
        rules = config.rules.len(),
        volumes = config.rules.iter().map(|rule| rule.watch.len()).sum::<usize>(),
        listen = listen.map(|address| address.to_string()),
        "podnudge watches"
    );
    for rule in &config.rules {
        for (path, reason) in
            rule.watch.iter().filter_map(|path| Some((path, mount::subpath(path)?)))
        {
            warn!(
                event = "subpath",
                rule = rule.name,
                path = shown::path(path),
                hint = reason.hint,
                "{}",
                reason.message
            );
        }
    }
}

/// Logs a fact about `rule`. `path` gives the path of a volume, for people.
#[expect(clippy::too_many_lines, reason = "a table: one arm a fact")]
pub(crate) fn fact(rule: &str, fact: &Fact, path: impl Fn(VolumeId) -> String) {
    match fact {
        Fact::Baseline(digest, basis) => baseline(rule, digest, *basis),
        Fact::VolumeMissing(volume) => {
            warn!(
                event = "volume-missing",
                rule,
                path = path(*volume),
                "nothing is at the watched path; waiting for it"
            );
        }
        Fact::VolumeBack(volume) => {
            info!(event = "volume-back", rule, path = path(*volume), "the watched path is there");
        }
        Fact::Polling(volume, reason) => {
            warn!(
                event = "polling",
                rule,
                path = path(*volume),
                reason = reason.message,
                hint = reason.hint,
                "looking at the volume regularly instead of by inotify"
            );
        }
        Fact::WatchedAgain(volume) => {
            info!(
                event = "watched-again",
                rule,
                path = path(*volume),
                "inotify serves the volume again"
            );
        }
        Fact::MissedByWatch(volume) => {
            warn!(
                event = "missed-by-watch",
                rule,
                path = path(*volume),
                "the volume changed and the watch did not tell; the audit found it"
            );
        }
        Fact::Unreadable(volume, reason) => {
            warn!(
                event = "unreadable",
                rule,
                path = path(*volume),
                reason = reason.message,
                hint = reason.hint,
                "the volume cannot be read; the application keeps what it has"
            );
        }
        Fact::KeysChanged(volume, changes) => keys_changed(rule, &path(*volume), changes),
        Fact::Unchanged(digest) => {
            debug!(
                event = "unchanged",
                rule,
                digest = short(digest),
                "the content is what the application runs"
            );
        }
        Fact::Passed(digest) => {
            debug!(event = "passed", rule, digest = short(digest), "the checks let it pass");
        }
        Fact::Rejected(digest, reason) => {
            error!(
                event = "rejected",
                rule,
                digest = short(digest),
                reason = reason.message,
                hint = reason.hint,
                "the checks refuse the new content; it is not used"
            );
        }
        Fact::CheckFailed(reason, wait) => {
            warn!(
                event = "check-failed",
                rule,
                wait = time(*wait),
                reason = reason.message,
                hint = reason.hint,
                "the checks could not be done; the content is not used"
            );
        }
        Fact::Scheduled(digest, wait) => {
            info!(
                event = "scheduled",
                rule,
                digest = short(digest),
                wait = time(*wait),
                "new content"
            );
        }
        Fact::Cancelled(digest) => {
            info!(
                event = "cancelled",
                rule,
                digest = short(digest),
                "the content is again what the application runs; nothing to do"
            );
        }
        Fact::Forced => info!(event = "forced", rule, "a reload was asked for"),
        Fact::Published(digest) => {
            info!(
                event = "published",
                rule,
                digest = short(digest),
                "the application reads the new content from now on"
            );
        }
        Fact::RollingBack(bad, good, reason) => {
            error!(
                event = "rolling-back",
                rule,
                digest = short(bad),
                back_to = short(good),
                reason = reason.message,
                hint = reason.hint,
                "the new content does not work; the application gets the last good one again"
            );
        }
        Fact::RolledBack(digest) => {
            warn!(
                event = "rolled-back",
                rule,
                digest = short(digest),
                "the application runs the last good content again; what is on disk is not tried again until it changes"
            );
        }
        Fact::Restarted(digest, names) => {
            info!(
                event = "restarted",
                rule,
                digest = short(digest),
                target = names,
                "the target has ended; whoever started it starts it anew"
            );
        }
        Fact::Escalating(digest, reason) => {
            warn!(
                event = "escalating",
                rule,
                digest = short(digest),
                reason = reason.message,
                hint = reason.hint,
                "the content did not take; the target is restarted"
            );
        }
        Fact::Held(reason, wait) => {
            info!(
                event = "held",
                rule,
                wait = wait.map(time),
                reason = reason.message,
                hint = reason.hint,
                "new content has to wait"
            );
        }
        Fact::Sent(digest, to) => {
            info!(event = "sent", rule, digest = short(digest), target = to, "the signal was sent");
        }
        Fact::Accepted(digest, answer) => {
            info!(
                event = "accepted",
                rule,
                digest = short(digest),
                answer,
                "the application accepted"
            );
        }
        Fact::Fresh(digest, target) => {
            info!(
                event = "fresh",
                rule,
                digest = short(digest),
                target,
                "the target started after the change and has read it already"
            );
        }
        Fact::TargetAbsent(reason) => {
            info!(
                event = "waiting-for-target",
                rule,
                reason = reason.message,
                hint = reason.hint,
                "the target is not there yet, or not ready"
            );
        }
        Fact::Retrying(reason, attempt, wait) => {
            warn!(
                event = "retrying",
                rule,
                attempt,
                wait = time(*wait),
                reason = reason.message,
                hint = reason.hint,
                "the action failed"
            );
        }
        Fact::Refused(reason) => failure(rule, "refused", "nothing was done", reason),
        Fact::GaveUp(reason, _) => {
            failure(rule, "gave-up", "the last attempt failed; waiting for newer content", reason);
        }
        Fact::Tripped(_, reason) => {
            failure(
                rule,
                "tripped",
                "the target ended just after the action; no second shot",
                reason,
            );
        }
        Fact::Applied(digest, took) => {
            info!(
                event = "applied",
                rule,
                digest = short(digest),
                after = time(*took),
                "the application runs the new content"
            );
        }
        Fact::Superseded(digest) => {
            info!(
                event = "superseded",
                rule,
                digest = short(digest),
                "newer content is on disk; the proof of this one is not waited for"
            );
        }
    }
}

/// What podnudge remembers over a restart could not be written.
pub(crate) fn unwritable(rule: &str, reason: &Reason) {
    warn!(event = "state-unwritable", rule, hint = reason.hint, "{}", reason.message);
}

fn baseline(rule: &str, digest: &Digest, basis: Basis) {
    let because = match basis {
        Basis::Remembered => "what podnudge has kept says that it was applied",
        Basis::TargetIsYounger => "the target started after the last change",
        Basis::Never => "on-start is `never`",
        Basis::Unknown => {
            info!(
                event = "baseline",
                rule,
                digest = short(digest),
                hint = "set state-dir to an emptyDir mount, so that a restart of podnudge misses nothing",
                "nothing tells when the target started; what is on disk is taken as what it runs"
            );
            return;
        }
    };
    info!(
        event = "baseline",
        rule,
        digest = short(digest),
        because,
        "the application runs what is on disk"
    );
}

fn keys_changed(rule: &str, path: &str, changes: &Changes) {
    info!(
        event = "changed",
        rule,
        path,
        added = names(&changes.added),
        changed = names(&changes.changed),
        removed = names(&changes.removed),
        "keys changed"
    );
}

fn failure(rule: &str, event: &str, what: &str, reason: &Reason) {
    error!(event, rule, reason = reason.message, hint = reason.hint, "{what}");
}

/// Key names joined by commas, bounded; `None` for none, so that the field is left out.
fn names(keys: &[Key]) -> Option<String> {
    let (first, rest) = keys.split_at(keys.len().min(KEYS_SHOWN));
    let mut names: Vec<String> = first.iter().map(Key::to_string).collect();
    if !rest.is_empty() {
        names.push(format!("and {} more", rest.len()));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

fn short(digest: &Digest) -> String {
    format!("{digest:.12}")
}

/// A duration for people: milliseconds are enough above one of them.
fn time(duration: Duration) -> String {
    let rounded = match duration.as_millis() {
        0 => duration,
        millis => Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
    };
    humantime::format_duration(rounded).to_string()
}
