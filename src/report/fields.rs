//! The fields of a log line.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::field::Value;

use podnudge_core::event::Targets;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// Whether the log is for programs: a number of seconds then stands for a time, and a process has two fields.
pub(super) static IS_JSON: AtomicBool = AtomicBool::new(false);

/// The value of a field, as the format of the log needs it.
pub(super) type Field = Box<dyn Value>;

/// A log line. Fields that are `None` are omitted.
#[derive(Default)]
pub(super) struct Line {
    pub(super) event: &'static str,
    pub(super) message: &'static str,
    pub(super) path: Option<String>,
    pub(super) digest: Option<Digest>,
    pub(super) back_to: Option<Digest>,
    pub(super) target: Target,
    pub(super) slot: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) because: Option<&'static str>,
    pub(super) attempt: Option<u32>,
    pub(super) attempts: Option<u32>,
    pub(super) exit_code: Option<u8>,
    pub(super) wait: Option<Field>,
    pub(super) evidence: Option<&'static str>,
    pub(super) problem: Option<&'static str>,
    pub(super) after: Option<Field>,
    pub(super) added: Option<String>,
    pub(super) changed: Option<String>,
    pub(super) removed: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) hint: Option<String>,
}

/// The fields that name the target processes of an action.
#[derive(Default)]
pub(super) struct Target {
    /// For people `41 (nginx), 52 (nginx)`, with remarks; for programs the name of the first process.
    pub(super) name: Option<String>,
    /// For programs: the pid of the first process.
    pub(super) pid: Option<i32>,
    /// For programs: what people read, if that says more.
    pub(super) all: Option<String>,
}

impl Target {
    pub(super) fn new(Targets { names, pid, text, .. }: &Targets) -> Self {
        match (pid, names.first()) {
            (Some(pid), Some(first)) if IS_JSON.load(Ordering::Relaxed) => {
                let name = shown::text(first);
                let all = Some(text).filter(|text| **text != format!("{pid} ({name})"));
                Self { name: Some(name), pid: Some(*pid), all: all.cloned() }
            }
            _ => Self { name: Some(text.clone()), ..Self::default() },
        }
    }
}

impl Line {
    pub(super) fn new(event: &'static str, message: &'static str) -> Self {
        Self { event, message, ..Self::default() }
    }

    pub(super) fn path(self, path: String) -> Self {
        Self { path: Some(path), ..self }
    }

    pub(super) fn digest(self, digest: &Digest) -> Self {
        Self { digest: Some(*digest), ..self }
    }

    pub(super) fn target(self, targets: &Targets) -> Self {
        Self { target: Target::new(targets), ..self }
    }

    pub(super) fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(time(wait)), ..self }
    }

    pub(super) fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    pub(super) fn reason(self, Reason { message, hint }: &Reason) -> Self {
        Self { reason: Some(message.clone()), hint: hint.clone(), ..self }
    }
}

/// A duration: in words for people, in seconds for programs. From 1 ms on, it is rounded to milliseconds.
pub(super) fn time(duration: Duration) -> Field {
    let rounded = match duration.as_millis() {
        0 => duration,
        millis => Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
    };
    if IS_JSON.load(Ordering::Relaxed) {
        return Box::new(rounded.as_secs_f64());
    }
    Box::new(humantime::format_duration(rounded).to_string())
}
