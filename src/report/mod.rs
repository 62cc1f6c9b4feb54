//! Writes facts to the log (`logs` sets it up): one line per fact, with a stable `event` name and further fields.
//!
//! `info` is for what an operator acts on or looks for after an edit, `warn` for what may need a
//! person, `error` for what does, `debug` for the rest. Key names are escaped by their type;
//! contents never get here.

#[cfg(feature = "cluster")]
mod api;
#[cfg(feature = "cluster")]
mod eager;
mod line;
pub mod logs;

use std::net::SocketAddr;
use std::path::Path;

use tracing::{debug, error, info, warn};

use crate::checks;
use crate::system::version;
use crate::volume::mounts;
use crate::volume::naming::Naming;
#[cfg(feature = "cluster")]
pub(crate) use api::{api_unusable, events};
use podnudge_config::{Config, LogLevel, Rule};
use podnudge_core::event::VolumeId;
use podnudge_core::evidence::Evidence;
use podnudge_core::fact::{Attempt, Basis, Fact, Occasion};
use podnudge_core::kubelet::StartDelay;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::{Changes, Key};

#[cfg(feature = "cluster")]
pub(crate) use eager::eager_sync;
use line::{Line, time};

/// Why an application may not open the content after an action.
const UNREAD_HINT: &str = "the application probably reads a copy that was made at its start, another mount, or its configuration only when it starts: have it read the watched directory itself, or set `[rule.restart]`";

/// The most key names in a log line.
const KEYS_SHOWN: usize = 20;

/// Logs the start, and warns of settings that cannot work.
pub(crate) fn started(config: &Config, listen: Option<SocketAddr>) {
    info!(
        event = "started",
        version = version::VERSION,
        commit = version::COMMIT,
        rules = config.rules.len(),
        volumes = config.rules.iter().map(|rule| rule.settings.watch.len()).sum::<usize>(),
        listen = listen.map(|address| address.to_string()),
        "podnudge is watching"
    );
    for rule in &config.rules {
        warn_secret_on_disk(rule, &config.agent.work_dir);
    }
}

/// Logs the preset that was chosen for a rule without an action.
pub(crate) fn preset(rule: &str, target: &str, action: &str) {
    info!(event = "preset", rule, target, action, "podnudge knows how this program reloads");
}

/// Warns if the content of a Secret would be written to a disk of the node.
pub(crate) fn warn_secret_on_disk(rule: &Rule, work_dir: &Path) {
    let published = rule.settings.publish.as_ref().map(|publish| publish.dir.as_path());
    let copied = checks::has_programs(rule).then_some(work_dir);
    for folder in published.into_iter().chain(copied) {
        let Some(volume) = mounts::memory_volume_copied_to_disk(&rule.settings.watch, folder)
        else {
            continue;
        };
        let volume = shown::path(volume);
        warn!(
            event = "secret-on-disk",
            rule = rule.name,
            path = shown::path(folder),
            hint = "an emptyDir with medium: Memory keeps secrets off the node's disk",
            "the content of `{volume}`, which is kept in memory, is written to a disk"
        );
    }
}

/// Logs a fact about `rule`, with these names of content. `state_dir` is the state directory, if there is one, and `path` returns the
/// escaped path of a volume.
pub(crate) fn fact(
    rule: &str,
    naming: Naming,
    fact: &Fact,
    state_dir: Option<&Path>,
    path: impl Fn(VolumeId) -> String,
) {
    let (level, line) = line(fact, state_dir, path);
    // Each call site of tracing has a fixed level, so there is one for each.
    macro_rules! write {
        ($write:ident) => {
            $write!(
                event = line.event,
                rule,
                path = line.path,
                digest = line.digest.map(|digest| naming.short(digest)),
                back_to = line.back_to.map(|digest| naming.short(digest)),
                target = line.target,
                slot = line.slot,
                answer = line.answer,
                because = line.because,
                attempt = line.attempt,
                attempts = line.attempts,
                exit_code = line.exit_code,
                wait = line.wait,
                evidence = line.evidence,
                problem = line.problem,
                after = line.after,
                added = line.added,
                changed = line.changed,
                removed = line.removed,
                reason = line.reason,
                hint = line.hint,
                "{}",
                line.message
            )
        };
    }
    match level {
        LogLevel::Error => write!(error),
        LogLevel::Warn => write!(warn),
        LogLevel::Info => write!(info),
        LogLevel::Debug => write!(debug),
    }
}

#[rustfmt::skip] // a table
#[expect(clippy::too_many_lines, reason = "a table: one arm a fact")]
fn line(
    fact: &Fact,
    state_dir: Option<&Path>,
    path: impl Fn(VolumeId) -> String,
) -> (LogLevel, Line) {
    use LogLevel::{Debug, Error, Info, Warn};
    let line = Line::new;
    match fact {
        Fact::Baseline(digest, basis) =>
            (Info, baseline(*basis, state_dir).digest(digest)),
        Fact::VolumeMissing(volume) =>
            (Warn, line("volume-missing", "nothing exists at the watched path; waiting for it")
                .path(path(*volume))),
        Fact::VolumeUnmounted(volume) =>
            (Warn, line("volume-missing", "nothing is mounted at the watched path any more; waiting for the volume")
                .path(path(*volume))),
        Fact::VolumeBack(volume) =>
            (Info, line("volume-back", "the watched path exists")
                .path(path(*volume))),
        Fact::Polling(volume, reason) =>
            (Warn, line("polling", "polling the volume instead of using inotify")
                .path(path(*volume)).reason(reason)),
        Fact::WatchedAgain(volume) =>
            (Info, line("watched-again", "inotify watches the volume again")
                .path(path(*volume))),
        Fact::MissedByWatch(volume) =>
            (Warn, line("missed-by-watch", "inotify did not report this commit; the resync found it")
                .path(path(*volume))),
        Fact::Unreadable(volume, reason) =>
            (Warn, line("unreadable", "the volume cannot be read; the application keeps what it has")
                .path(path(*volume)).reason(reason)),
        Fact::KeysChanged(volume, changes) =>
            (Info, keys_changed(changes).path(path(*volume))),
        Fact::Unchanged(digest) =>
            (Debug, line("unchanged", "the content is what the application runs")
                .digest(digest)),
        Fact::CheckedAgain(digest, times) =>
            (Warn, Line {
                attempts: Some(*times),
                ..line("checked-again", "podnudge ended during the check of this content; it is checked again")
                    .digest(digest)
            }),
        Fact::Passed(digest) =>
            (Debug, line("passed", "the content passed the checks")
                .digest(digest)),
        Fact::Rejected(digest, reason) =>
            (Error, line("rejected", "the checks rejected the new content; it is not used")
                .digest(digest).reason(reason)),
        Fact::CheckFailed(reason, wait) =>
            (Warn, line("check-failed", "the checks could not be run; the content is not used")
                .wait(*wait).reason(reason)),
        Fact::Scheduled(digest, wait, Occasion::New) =>
            (Info, line("scheduled", "new content")
                .digest(digest).wait(*wait)),
        Fact::Scheduled(digest, wait, Occasion::Unknown) =>
            (Info, line("scheduled", "nothing shows whether the application has read this content")
                .digest(digest).wait(*wait)),
        Fact::Cancelled(digest) =>
            (Info, line("cancelled", "the content is again what the application runs; nothing to do")
                .digest(digest)),
        Fact::Triggered =>
            (Info, line("triggered", "a person requested an action")),
        Fact::Published(digest) =>
            (Info, line("published", "the application reads the new content from now on")
                .digest(digest)),
        Fact::PublicationLost(_) =>
            (Warn, line("publication-lost", "the publish directory does not hold what podnudge has published; it is published again")),
        Fact::RollingBack(bad, good, reason) =>
            (Error, Line {
                back_to: Some(*good),
                ..line("rolling-back", "the new content does not work; rolling back to the last good content")
                    .digest(bad).reason(reason)
            }),
        Fact::RolledBack(digest) =>
            (Warn, line("rolled-back", "rolled back to the last good content; the content on disk is quarantined")
                .digest(digest)),
        Fact::Restarted(digest, names, delay) =>
            (Info, restarted(*delay).digest(digest).target(names)),
        Fact::EndingForPod(digest, code) =>
            (Info, Line {
                exit_code: Some(*code),
                ..line("ending-for-pod", "podnudge ends, so that the kubelet restarts all containers of the pod")
                    .digest(digest)
            }),
        Fact::Evicted(digest) =>
            (Info, line("evicted", "the pod was evicted; its controller replaces it")
                .digest(digest)),
        Fact::PodNotRestarted(digest, reason) =>
            (Error, line("pod-not-restarted", "the kubelet does not restart the pod; waiting for newer content")
                .digest(digest).reason(reason)),
        Fact::Escalating(digest, reason) =>
            (Warn, line("escalating", "the application does not run the new content; restarting the target")
                .digest(digest).reason(reason)),
        Fact::Held(reason, wait) =>
            (Info, Line {
                wait: wait.map(time),
                ..line("held", "new content is held").reason(reason)
            }),
        Fact::SlotHeld(slot) =>
            (Info, Line {
                slot: Some(slot.clone()),
                ..line("slot-held", "the rule has a slot, and may act")
            }),
        Fact::WithoutSlot(reason) =>
            (Warn, line("without-slot", "the rule acts without a slot: other replicas may act at the same time")
                .reason(reason)),
        Fact::SlotLost(reason) =>
            (Warn, line("slot-lost", "another replica may take the slot of this rule")
                .reason(reason)),
        Fact::ReadinessUnknown(reason) =>
            (Warn, line("readiness-unknown", "the slot is given back without knowing whether the pod serves again")
                .reason(reason)),
        Fact::Draining(digest, wait) =>
            (Info, line("draining", "/serving answers 503, so that the pod leaves its Services before the action")
                .digest(digest).wait(*wait)),
        Fact::Sent(digest, names) =>
            (Info, line("sent", "the signal was sent")
                .digest(digest).target(names)),
        Fact::Accepted(digest, answer) =>
            (Info, Line {
                answer: Some(answer.clone()),
                ..line("accepted", "the application accepted the action").digest(digest)
            }),
        Fact::Fresh(digest, names) =>
            (Info, line("fresh", "the target started after the change and has read it already")
                .digest(digest).target(names)),
        Fact::TargetAbsent(reason) =>
            (Info, line("waiting-for-target", "the target does not run yet, or is not ready")
                .reason(reason)),
        Fact::Retrying(digest, Attempt { number, most, next, is_unproven }, reason) => {
            let message = match is_unproven {
                true => "nothing shows yet that the application runs the new content; podnudge acts again",
                false => "the action failed; podnudge acts again",
            };
            (Warn, Line {
                attempt: Some(*number),
                attempts: Some(*most),
                ..line("retrying", message).digest(digest).wait(*next).reason(reason)
            })
        }
        Fact::Refused(reason) =>
            (Error, line("refused", "action not attempted")
                .reason(reason)),
        Fact::GaveUp(digest, reason, attempts) =>
            (Error, Line {
                attempts: Some(*attempts),
                ..line("gave-up", "the last attempt failed; waiting for newer content")
                    .digest(digest).reason(reason)
            }),
        Fact::Tripped(digest, reason) =>
            (Error, line("tripped", "the target ended just after the action; nothing more is sent")
                .digest(digest).reason(reason)),
        Fact::KeepsEnding(digest, reason) =>
            (Error, line("keeps-ending", "the target does not keep running")
                .digest(digest).reason(reason)),
        Fact::Applied(digest, evidence, took) => {
            let message = match evidence {
                Evidence::Accepted => "the application has accepted the new content",
                _ => "the application runs the new content",
            };
            (Info, Line {
                evidence: Some(evidence.name()),
                after: Some(time(*took)),
                ..line("applied", message).digest(digest)
            })
        }
        Fact::Delivered(digest, Evidence::Unread, took) =>
            (Warn, Line {
                after: Some(time(*took)),
                ..line("unread", "nothing has opened the new content since the action")
                    .digest(digest).hint(UNREAD_HINT)
            }),
        Fact::Delivered(digest, evidence, took) => {
            let message = match evidence {
                Evidence::Read => "delivered and read; not verified: no proof is configured",
                _ => "delivered; not verified: no proof is configured",
            };
            (Info, Line {
                after: Some(time(*took)),
                ..line("delivered", message).digest(digest)
            })
        }
        Fact::Preflight(problem) =>
            (Warn, Line {
                problem: Some(problem.kind.name()),
                ..line("preflight", "something is wrong that the next change would show").reason(&problem.reason)
            }),
        Fact::PreflightSolved(kind) =>
            (Info, Line {
                problem: Some(kind.name()),
                ..line("preflight-solved", "a problem no longer exists")
            }),
        Fact::Superseded(digest) =>
            (Info, line("superseded", "newer content is on disk; no longer waiting for the proof of this one")
                .digest(digest)),
    }
}

fn baseline(basis: Basis, state_dir: Option<&Path>) -> Line {
    let because = match basis {
        Basis::Remembered => {
            let message = "the content on disk was rolled out before podnudge was restarted";
            return Line::new("baseline", message);
        }
        Basis::TargetIsYounger => "the target started after the last change",
        Basis::Never => {
            let message =
                "assuming that the application runs the content on disk: on-start is `never`";
            return Line::new("baseline", message);
        }
        Basis::Unknown => {
            let hint =
                "set state-dir to an emptyDir mount, so that a restart of podnudge misses nothing";
            let hint = state_dir.is_none().then(|| hint.to_owned());
            let message =
                "start time of the target unknown; assuming that it runs the content on disk";
            return Line { hint, ..Line::new("baseline", message) };
        }
    };
    Line {
        because: Some(because),
        ..Line::new("baseline", "the application runs the content on disk")
    }
}

fn restarted(delay: Option<StartDelay>) -> Line {
    let by_kubelet = "the target has ended; the kubelet is expected to start it after a delay";
    let by_any = "the target has ended; its supervisor is expected to restart it";
    let Some(delay) = delay else { return Line::new("restarted", by_any) };
    Line::new("restarted", by_kubelet).wait(delay.delay).reason(&delay.reason())
}

fn keys_changed(changes: &Changes) -> Line {
    Line {
        added: names(&changes.added),
        changed: names(&changes.changed),
        removed: names(&changes.removed),
        ..Line::new("changed", "keys changed")
    }
}

/// Warns that a file of the state directory could not be written.
pub(crate) fn state_unwritable(rule: &str, reason: &Reason) {
    warn!(event = "state-unwritable", rule, hint = reason.hint, "{}", reason.message);
}

/// Key names joined by commas, at most [`KEYS_SHOWN`]; `None` if there are none.
fn names(keys: &[Key]) -> Option<String> {
    let (first, rest) = keys.split_at(keys.len().min(KEYS_SHOWN));
    let mut names: Vec<String> = first.iter().map(Key::to_string).collect();
    if !rest.is_empty() {
        names.push(format!("and {} more", rest.len()));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// What an earlier podnudge has saved cannot be used.
pub(crate) fn state_unreadable(Reason { message, hint }: &Reason) {
    warn!(event = "state-unreadable", hint, "{message}");
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use podnudge_core::preflight::{Problem, ProblemKind};
    use podnudge_core::snapshot::Digest;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics with it").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn every_fact() -> Vec<Fact> {
        let (one, two, volume) = (Digest([1; 32]), Digest([2; 32]), VolumeId(0));
        let why = || Reason::new("no \"way\"").hint("go on");
        let wait = Duration::from_micros(1_500_700);
        let kind = ProblemKind::TargetNotFound;
        let problem = || Problem { kind, reason: why() };
        let target = || "41 (app)".to_owned();
        let key = |name: &str| Key(name.as_bytes().to_vec());
        let changes = Changes {
            added: (0..22).map(|n| key(&n.to_string())).collect(),
            changed: Vec::new(),
            removed: vec![key("b\n")],
        };
        let mut facts = vec![
            Fact::VolumeMissing(volume),
            Fact::VolumeUnmounted(volume),
            Fact::VolumeBack(volume),
            Fact::Polling(volume, why()),
            Fact::WatchedAgain(volume),
            Fact::MissedByWatch(volume),
            Fact::Unreadable(volume, why()),
            Fact::KeysChanged(volume, changes),
            Fact::Unchanged(one),
            Fact::CheckedAgain(one, 1),
            Fact::Passed(one),
            Fact::Rejected(one, why()),
            Fact::CheckFailed(why(), wait),
            Fact::Scheduled(one, wait, Occasion::New),
            Fact::Scheduled(one, wait, Occasion::Unknown),
            Fact::Cancelled(one),
            Fact::Triggered,
            Fact::PublicationLost(Some(one)),
            Fact::Published(one),
            Fact::RollingBack(one, two, why()),
            Fact::RolledBack(one),
            Fact::SlotHeld("web-0".to_owned()),
            Fact::WithoutSlot(why()),
            Fact::SlotLost(why()),
            Fact::ReadinessUnknown(why()),
            Fact::Draining(one, wait),
            Fact::Sent(one, target()),
            Fact::Accepted(one, "yes".to_owned()),
            Fact::Restarted(one, target(), None),
            Fact::Restarted(
                one,
                target(),
                Some(StartDelay { delay: Duration::from_secs(20), ends: 2 }),
            ),
            Fact::EndingForPod(one, 88),
            Fact::Evicted(one),
            Fact::PodNotRestarted(one, why()),
            Fact::Escalating(one, why()),
            Fact::Held(why(), None),
            Fact::Held(why(), Some(wait)),
            Fact::Fresh(one, target()),
            Fact::TargetAbsent(Reason::new("nobody")),
            Fact::Retrying(
                one,
                Attempt { number: 2, most: 10, next: wait, is_unproven: true },
                why(),
            ),
            Fact::Refused(why()),
            Fact::GaveUp(one, why(), 3),
            Fact::Tripped(one, why()),
            Fact::KeepsEnding(one, why()),
            Fact::Applied(one, Evidence::Verified, wait),
            Fact::Delivered(one, Evidence::Delivered, wait),
            Fact::Delivered(one, Evidence::Read, wait),
            Fact::Delivered(one, Evidence::Unread, wait),
            Fact::Preflight(problem()),
            Fact::PreflightSolved(kind),
            Fact::Superseded(one),
        ];
        let bases = [Basis::Remembered, Basis::TargetIsYounger, Basis::Unknown, Basis::Never];
        facts.extend(bases.map(|basis| Fact::Baseline(one, basis)));
        facts
    }

    /// Guards the messages and fields that operators and their tools rely on.
    #[test]
    fn every_fact_has_its_line_in_both_formats() {
        let log = Log::default();
        let writer = log.clone();
        let lines = fmt::layer()
            .with_writer(move || writer.clone())
            .with_target(false)
            .without_time()
            .with_ansi(false);
        let text = tracing_subscriber::registry().with(lines);
        let writer = log.clone();
        let lines = fmt::layer().with_writer(move || writer.clone()).with_target(false);
        let json =
            tracing_subscriber::registry().with(lines.without_time().json().flatten_event(true));
        let all = || {
            for known in every_fact() {
                fact("web", Naming::Plain, &known, None, |_| "/etc/app".to_owned());
            }
        };
        tracing::subscriber::with_default(text, all);
        tracing::subscriber::with_default(json, all);
        let log = log.0.lock().expect("nobody panics with it");
        insta::with_settings!({snapshot_path => "../../tests/snapshots"}, {
            insta::assert_snapshot!("every_fact", String::from_utf8_lossy(&log));
        });
    }
}
