//! Content on disk that differs from what runs, and waits for the gate to open.
//!
//! A candidate keeps its time when newer content takes its place: replicas that wait do not wait
//! again, and take what is on disk when their time has come.

use super::event::Probe;
use super::source::OnDisk;
use crate::clock::Moment;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// What a person asked for: an action for what the next scan finds, and for no later content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    None,
    /// The scan that says what it is for is still to begin, or under way: one that began at this moment
    /// or later.
    Unbound(Moment),
    For(Digest),
}

impl Trigger {
    /// A scan that began at `begun` found this; `running` is what the application runs, for which it
    /// is in any case.
    #[must_use]
    pub(super) fn bound(self, begun: Moment, found: Digest, running: Option<Digest>) -> Self {
        match self {
            Self::Unbound(since) if begun < since => self,
            Self::Unbound(_) => Self::For(found),
            Self::For(digest) if found == digest || running == Some(found) => self,
            _ => Self::None,
        }
    }

    pub(super) fn is_unbound(self) -> bool {
        matches!(self, Self::Unbound(_))
    }

    /// What it was for was rejected or rolled back. What the next scan finds is another matter.
    #[must_use]
    pub(super) fn ended(self) -> Self {
        if self.is_unbound() { self } else { Self::None }
    }

    /// Whether an action is asked for although the application may run this.
    pub(super) fn is_for(self, found: Digest, running: Option<Digest>) -> bool {
        matches!(self, Self::For(digest) if digest == found || running == Some(found))
    }
}

/// An answer to a question of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Probed {
    NotAsked,
    Asked,
    /// The answer, and when it came.
    Answered(Moment, Option<Reason>),
}

#[derive(Debug)]
pub(super) struct Candidate {
    content: OnDisk,
    /// Its own time, from the moment on in which it has passed the checks.
    turn: Option<Moment>,
    /// The number of its draw, for a jitter that is drawn by chance.
    draw: u64,
    /// It could not be published, and is tried again then.
    retry: Option<(Moment, Reason)>,
    pause_file: Probed,
    /// The hold that was told last.
    told: Option<Reason>,
    /// Whether that hold is still on it.
    held: bool,
}

impl Candidate {
    pub(super) fn new(content: OnDisk) -> Self {
        Self {
            content,
            turn: None,
            draw: 0,
            retry: None,
            pause_file: Probed::NotAsked,
            told: None,
            held: false,
        }
    }

    /// One that could not be published, and is tried again later. Its own time has come before.
    pub(super) fn again(content: OnDisk, now: Moment, until: Moment, reason: Reason) -> Self {
        let told = Some(reason.clone());
        Self { turn: Some(now), retry: Some((until, reason)), told, ..Self::new(content) }
    }

    pub(super) fn content(&self) -> OnDisk {
        self.content
    }

    pub(super) fn digest(&self) -> Digest {
        self.content.digest
    }

    /// Newer content is on disk, or the same committed anew.
    pub(super) fn update(&mut self, content: OnDisk) {
        if content.digest != self.content.digest {
            self.retry = None;
        }
        self.content = content;
    }

    /// Whether it has a time of its own: it has passed the checks once.
    pub(super) fn is_scheduled(&self) -> bool {
        self.turn.is_some()
    }

    pub(super) fn schedule(&mut self, until: Moment, draw: u64) {
        self.turn = Some(until);
        self.draw = draw;
    }

    /// A person asks for another try now.
    pub(super) fn retry_now(&mut self) {
        self.retry = None;
    }

    /// The checks rejected it: what comes next gets a time of its own.
    pub(super) fn unschedule(&mut self) {
        (self.turn, self.held) = (None, false);
    }

    /// Its own time, once it has one.
    pub(super) fn turn(&self) -> Option<Moment> {
        self.turn
    }

    /// When it may be published again, after that has failed.
    pub(super) fn retry_at(&self) -> Option<Moment> {
        self.retry.as_ref().map(|(at, _)| *at)
    }

    pub(super) fn draw(&self) -> u64 {
        self.draw
    }

    /// Something holds it, in any case until this moment, if one is given. Says whether that is to
    /// be told: each hold is told once.
    pub(super) fn hold(&mut self, until: Option<Moment>, reason: &Reason) -> bool {
        if let Some(until) = until {
            self.turn = Some(until);
        }
        self.held = true;
        self.tell(reason)
    }

    /// Whether it is held by something that people put there.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Why it waits, where it is not the jitter.
    pub(super) fn holding(&self) -> Option<&Reason> {
        let retry = self.retry.as_ref().map(|(_, reason)| reason);
        self.told.as_ref().filter(|_| self.held).or(retry)
    }

    pub(super) fn probed(&self, probe: Probe) -> &Probed {
        match probe {
            Probe::PauseFile => &self.pause_file,
        }
    }

    /// Says whether the question is to be asked: not while the answer is on its way.
    pub(super) fn ask(&mut self, probe: Probe) -> bool {
        let is_new = *self.probed(probe) != Probed::Asked;
        self.set_probed(probe, Probed::Asked);
        is_new
    }

    pub(super) fn set_probed(&mut self, probe: Probe, probed: Probed) {
        match probe {
            Probe::PauseFile => self.pause_file = probed,
        }
    }

    /// Whether this is to be told: each reason is told once.
    pub(super) fn tell(&mut self, reason: &Reason) -> bool {
        let told = self.told.replace(reason.clone());
        told.is_none_or(|told| told.message != reason.message)
    }
}
