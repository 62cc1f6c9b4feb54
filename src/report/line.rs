//! The fields of a log line.

use std::time::Duration;

use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

/// A log line. Fields that are `None` are omitted.
#[derive(Default)]
pub(super) struct Line {
    pub(super) event: &'static str,
    pub(super) message: &'static str,
    pub(super) path: Option<String>,
    pub(super) digest: Option<Digest>,
    pub(super) back_to: Option<Digest>,
    pub(super) target: Option<String>,
    pub(super) slot: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) because: Option<&'static str>,
    pub(super) attempt: Option<u32>,
    pub(super) attempts: Option<u32>,
    pub(super) exit_code: Option<u8>,
    pub(super) wait: Option<String>,
    pub(super) evidence: Option<&'static str>,
    pub(super) problem: Option<&'static str>,
    pub(super) after: Option<String>,
    pub(super) added: Option<String>,
    pub(super) changed: Option<String>,
    pub(super) removed: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) hint: Option<String>,
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

    pub(super) fn target(self, names: &str) -> Self {
        Self { target: Some(names.to_owned()), ..self }
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

/// Formats a duration; from 1 ms on, rounded to milliseconds.
pub(super) fn time(duration: Duration) -> String {
    let rounded = match duration.as_millis() {
        0 => duration,
        millis => Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
    };
    humantime::format_duration(rounded).to_string()
}
