//! Content on disk that differs from what the application runs, and waits for the gate to open.
//!
//! A candidate keeps its scheduled time when newer content supersedes it: replicas do not wait
//! again, and roll out what is on disk at that time.

use super::source::OnDisk;
use crate::clock::Moment;
use crate::event::Probe;
use crate::reason::Reason;
use crate::snapshot::Digest;

/// A person's request to act on the content that the next scan finds, and on no later content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    None,
    /// No scan has determined the content yet. The scan must begin at this time or later.
    Unbound(Moment),
    For(Digest),
}

impl Trigger {
    /// Binds the trigger to the content `found` by a scan that began at `begun`. The trigger also
    /// applies to `running`, the content that the application runs.
    #[must_use]
    pub(crate) fn bound(self, begun: Moment, found: Digest, running: Option<Digest>) -> Self {
        match self {
            Self::Unbound(since) if begun < since => self,
            Self::Unbound(_) => Self::For(found),
            Self::For(digest) if found == digest || running == Some(found) => self,
            _ => Self::None,
        }
    }

    pub(crate) fn is_unbound(self) -> bool {
        matches!(self, Self::Unbound(_))
    }

    /// Ends the trigger because its content was rejected or rolled back. An unbound trigger stays.
    #[must_use]
    pub(crate) fn ended(self) -> Self {
        if self.is_unbound() { self } else { Self::None }
    }

    /// Whether the trigger requests an action for `found`, even if the application runs it.
    pub(crate) fn applies_to(self, found: Digest, running: Option<Digest>) -> bool {
        matches!(self, Self::For(digest) if digest == found || running == Some(found))
    }
}

/// The state of a probe of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeState {
    NotStarted,
    Pending,
    /// The answer, and its time.
    Answered(Moment, Option<Reason>),
}

#[derive(Debug)]
pub(crate) struct Candidate {
    content: OnDisk,
    /// When its rollout is scheduled; set when it has passed the checks.
    scheduled_at: Option<Moment>,
    /// The number of its random draw, for the jitter.
    draw: u64,
    /// Publishing it failed, and is retried at this time.
    retry: Option<(Moment, Reason)>,
    pause_file: ProbeState,
    /// The last reported hold.
    reported: Option<Reason>,
    /// Whether that hold still applies.
    held: bool,
}

impl Candidate {
    pub(crate) fn new(content: OnDisk) -> Self {
        Self {
            content,
            scheduled_at: None,
            draw: 0,
            retry: None,
            pause_file: ProbeState::NotStarted,
            reported: None,
            held: false,
        }
    }

    /// Content whose publication failed, to be retried at `until`. Its scheduled time has passed.
    pub(crate) fn retry_later(content: OnDisk, now: Moment, until: Moment, reason: Reason) -> Self {
        let reported = Some(reason.clone());
        Self {
            scheduled_at: Some(now),
            retry: Some((until, reason)),
            reported,
            ..Self::new(content)
        }
    }

    pub(crate) fn content(&self) -> OnDisk {
        self.content
    }

    pub(crate) fn digest(&self) -> Digest {
        self.content.digest
    }

    /// Takes newer content, or the same content committed again.
    pub(crate) fn update(&mut self, content: OnDisk) {
        if content.digest != self.content.digest {
            self.retry = None;
        }
        self.content = content;
    }

    /// Whether it has passed the checks and is scheduled.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.scheduled_at.is_some()
    }

    pub(crate) fn schedule(&mut self, until: Moment, draw: u64) {
        self.scheduled_at = Some(until);
        self.draw = draw;
    }

    /// Retries the publication at once because of a trigger.
    pub(crate) fn retry_now(&mut self) {
        self.retry = None;
    }

    /// Drops the schedule because the checks rejected the content: the next content gets its own.
    pub(crate) fn unschedule(&mut self) {
        (self.scheduled_at, self.held) = (None, false);
    }

    /// Ends the hold because of a trigger. The next evaluation of the gate finds what else holds it.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    /// Reports the hold of newer content anew, because a person has approved this one.
    pub(crate) fn approved(&mut self) {
        self.reported = None;
    }

    /// When its rollout is scheduled.
    pub(crate) fn scheduled_at(&self) -> Option<Moment> {
        self.scheduled_at
    }

    /// When to retry a failed publication.
    pub(crate) fn retry_at(&self) -> Option<Moment> {
        self.retry.as_ref().map(|(at, _)| *at)
    }

    pub(crate) fn draw(&self) -> u64 {
        self.draw
    }

    /// Holds it, at least until this time if one is given. Returns whether to report the hold: each
    /// is reported once.
    pub(crate) fn hold(&mut self, until: Option<Moment>, reason: &Reason) -> bool {
        if let Some(until) = until {
            self.scheduled_at = Some(until);
        }
        self.held = true;
        self.record_reason(reason)
    }

    /// Whether a hold applies.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The reason for the wait, unless that is the jitter.
    pub(crate) fn hold_reason(&self) -> Option<&Reason> {
        let retry = self.retry.as_ref().map(|(_, reason)| reason);
        self.reported.as_ref().filter(|_| self.held).or(retry)
    }

    pub(crate) fn probe_state(&self, probe: Probe) -> &ProbeState {
        match probe {
            Probe::PauseFile => &self.pause_file,
        }
    }

    /// Marks the probe as pending. Returns whether it has to be started.
    pub(crate) fn start_probe(&mut self, probe: Probe) -> bool {
        let is_new = *self.probe_state(probe) != ProbeState::Pending;
        self.set_probe_state(probe, ProbeState::Pending);
        is_new
    }

    pub(crate) fn set_probe_state(&mut self, probe: Probe, state: ProbeState) {
        match probe {
            Probe::PauseFile => self.pause_file = state,
        }
    }

    /// Records the reason. Returns whether to report it: each reason is reported once.
    pub(crate) fn record_reason(&mut self, reason: &Reason) -> bool {
        let reported = self.reported.replace(reason.clone());
        reported.is_none_or(|reported| reported.message != reason.message)
    }
}
