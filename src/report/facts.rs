//! The log line of each fact: its level, its event name, its message and its fields.

use std::path::Path;

use super::fields::{Line, time};
use podnudge_config::LogLevel;
use podnudge_core::event::VolumeId;
use podnudge_core::evidence::Evidence;
use podnudge_core::fact::{Attempt, Basis, Fact, Occasion};
use podnudge_core::kubelet::StartDelay;
use podnudge_core::snapshot::{Changes, Key};
use podnudge_core::status::MOUNT_HINT;

/// Why an application may not open the content after an action.
const UNREAD_HINT: &str = "the application probably reads a copy that was made at its start, another mount, its configuration only when it starts, or a file only when it needs it: have it read the watched directory itself, or set `[rule.restart]`";

/// The most key names in a log line.
const KEYS_SHOWN: usize = 20;

#[rustfmt::skip] // a table
#[expect(clippy::too_many_lines, reason = "a table: one arm a fact")]
pub(super) fn line(
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
                .path(path(*volume)).hint(MOUNT_HINT)),
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
            (Error, line("rejected", "the checks rejected the content; nothing is sent")
                .digest(digest).reason(reason)),
        Fact::CheckFailed(reason, wait) =>
            (Warn, line("check-failed", "the checks could not be run; the content is not used")
                .wait(*wait).reason(reason)),
        Fact::Scheduled(digest, wait, Occasion::New) if wait.is_zero() =>
            (Info, line("scheduled", "the new content is due")
                .digest(digest).wait(*wait)),
        Fact::Scheduled(digest, wait, Occasion::New) =>
            (Info, line("scheduled", "the new content is due after the wait")
                .digest(digest).wait(*wait)),
        Fact::Scheduled(digest, wait, Occasion::Unknown) =>
            (Info, line("scheduled", "nothing shows whether the application has read this content")
                .digest(digest).wait(*wait)),
        Fact::Cancelled(digest) =>
            (Info, line("cancelled", "the content is again what the application runs; nothing to do")
                .digest(digest)),
        Fact::Triggered =>
            (Info, line("triggered", "a person requested an action")),
        Fact::Paused(time) =>
            (Info, line("paused", "a person paused the rule: no action begins for this time")
                .wait(*time)),
        Fact::Resumed =>
            (Info, line("resumed", "the pause by a person is over")),
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
        Fact::Fresh(digest, names, _) =>
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
                Evidence::Accepted => "the application accepted the new content",
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
        Basis::Unchecked => {
            let message = "the target has read the content at its start; checking it now";
            return Line::new("baseline", message);
        }
        Basis::Never => {
            let message =
                "assuming that the application runs the content on disk: on-start is `never`";
            return Line::new("baseline", message);
        }
        Basis::Unknown => {
            let hint =
                "set state-dir to an emptyDir mount, so that a restart of podnudge misses nothing";
            let hint = state_dir.is_none().then(|| hint.to_owned());
            let message = "no start time of a target is known; assuming that the application runs the content on disk";
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

/// Key names joined by commas, at most [`KEYS_SHOWN`]; `None` if there are none.
fn names(keys: &[Key]) -> Option<String> {
    let (first, rest) = keys.split_at(keys.len().min(KEYS_SHOWN));
    let mut names: Vec<String> = first.iter().map(Key::to_string).collect();
    if !rest.is_empty() {
        names.push(format!("and {} more", rest.len()));
    }
    (!names.is_empty()).then(|| names.join(", "))
}
