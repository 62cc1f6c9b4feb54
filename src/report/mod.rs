//! Writes facts to the log (`logs` sets it up): one line per fact, with a stable `event` name and further fields.
//!
//! `info` is for what an operator acts on or looks for after an edit, `warn` for what may need a
//! person, `error` for what does, `debug` for the rest. Key names are escaped by their type;
//! contents never get here.

#[cfg(feature = "cluster")]
mod api;
#[cfg(feature = "cluster")]
mod eager;
mod facts;
mod fields;
pub mod logs;
#[cfg(feature = "cluster")]
mod sync;

use std::net::SocketAddr;
use std::path::Path;

use tracing::{debug, error, info, warn};

use crate::checks;
use crate::system::version;
use crate::volume::mounts;
use crate::volume::naming::Naming;
#[cfg(feature = "cluster")]
pub(crate) use api::{api_unusable, events};
use fields::Target;
use podnudge_config::{Config, LogLevel, Rule};
use podnudge_core::event::{Targets, VolumeId};
use podnudge_core::fact::Fact;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

#[cfg(feature = "cluster")]
pub(crate) use eager::eager_sync;
#[cfg(feature = "cluster")]
pub(crate) use sync::sync;

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
pub(crate) fn preset(rule: &str, target: &Targets, action: &str) {
    let Target { name: target, pid, all: targets } = Target::new(target);
    let message = "podnudge knows how this program reloads";
    info!(event = "preset", rule, target, pid, targets, action, "{message}");
}

/// Logs whether content has to pass the check of the rule's preset, which the rule does not ask for; with the reason, if it
/// has not.
pub(crate) fn preset_check(rule: &Rule, why_not: Option<&Reason>) {
    let check = rule.preset.map(|preset| shown::program(&preset.check));
    let (name, event) = (&rule.name, "preset-check");
    match why_not {
        None => {
            info!(event, rule = name, check, "content has to pass this check before it is used");
        }
        Some(Reason { message, hint }) => {
            info!(
                event,
                rule = name,
                check,
                reason = message,
                hint,
                "content is not checked before it is used"
            );
        }
    }
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
    let (level, line) = facts::line(fact, state_dir, path);
    // Each call site of tracing has a fixed level, so there is one for each.
    macro_rules! write {
        ($write:ident) => {
            $write!(
                event = line.event,
                rule,
                path = line.path,
                digest = line.digest.map(|digest| naming.short(digest)),
                back_to = line.back_to.map(|digest| naming.short(digest)),
                target = line.target.name,
                pid = line.target.pid,
                targets = line.target.all,
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

/// Warns that a file of the state directory could not be written.
pub(crate) fn state_unwritable(rule: &str, reason: &Reason) {
    warn!(event = "state-unwritable", rule, hint = reason.hint, "{}", reason.message);
}

/// What an earlier podnudge has saved cannot be used.
pub(crate) fn state_unreadable(Reason { message, hint }: &Reason) {
    warn!(event = "state-unreadable", hint, "{message}");
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use podnudge_core::evidence::Evidence;
    use podnudge_core::fact::{AfterFresh, Attempt, Basis, Occasion};
    use podnudge_core::kubelet::StartDelay;
    use podnudge_core::preflight::{Problem, ProblemKind};
    use podnudge_core::snapshot::{Changes, Digest, Key};

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
        let targets = |text: &str| Targets {
            names: vec!["app".to_owned()],
            ancestors: Vec::new(),
            containers: Vec::new(),
            pid: Some(41),
            text: text.to_owned(),
            are_containers: false,
        };
        let target = || targets("41 (app)");
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
            Fact::Scheduled(one, Duration::ZERO, Occasion::New),
            Fact::Scheduled(one, wait, Occasion::New),
            Fact::Scheduled(one, wait, Occasion::Unknown),
            Fact::Cancelled(one),
            Fact::Triggered,
            Fact::Paused(wait),
            Fact::Resumed,
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
            Fact::Sent(one, targets("41 (app), 42 (app); restarted its worker")),
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
            Fact::Fresh(one, target(), AfterFresh::Ends),
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
        let bases = [
            Basis::Remembered,
            Basis::TargetIsYounger,
            Basis::Unchecked,
            Basis::Unknown,
            Basis::Never,
        ];
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
        fields::IS_JSON.store(true, Ordering::Relaxed);
        tracing::subscriber::with_default(json, all);
        fields::IS_JSON.store(false, Ordering::Relaxed);
        let log = log.0.lock().expect("nobody panics with it");
        insta::with_settings!({snapshot_path => "../../tests/snapshots"}, {
            insta::assert_snapshot!("every_fact", String::from_utf8_lossy(&log));
        });
    }
}
