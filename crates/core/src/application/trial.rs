//! The trial of published content that was verified: it becomes the last good generation once the
//! target has run with it for `verify.timeout`. If the target ends before that, the content is
//! rolled back: an application that starts slowly fails late.
//!
//! If another rule has published newer content for the same target meanwhile, that is suspected instead. A rollout of
//! newer content ends the trial, and what was on trial is not good then. There is no trial if nothing is good to go
//! back to, or with `alive-for = "0s"`. `rule/trial.rs` does what follows from it.

use crate::clock::Moment;
use crate::intake::OnDisk;
use crate::policy::Policy;
use crate::rollout::Rollout;

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Trial {
    content: OnDisk,
    /// Whether the target was restarted with the content.
    after_restart: bool,
    /// When the target has run for long enough.
    until: Moment,
    /// Whether podnudge is finding out whether the target still runs.
    is_polling: bool,
    /// A process of the target has ended, and no poll has begun since.
    has_ended: bool,
    /// Another rule has published newer content for the target: if that ends, the newer content is the
    /// cause.
    is_excused: bool,
}

impl Trial {
    /// The trial of a rollout's content, which was verified now.
    pub(crate) fn new(rollout: &Rollout, now: Moment, policy: &Policy) -> Self {
        Self {
            content: rollout.content(),
            after_restart: rollout.ends_target(&policy.rollout),
            until: now.after(policy.rollout.verify_timeout.max(policy.rollout.alive_for)),
            is_polling: false,
            has_ended: false,
            is_excused: false,
        }
    }

    pub(crate) fn content(&self) -> OnDisk {
        self.content
    }

    pub(crate) fn after_restart(&self) -> bool {
        self.after_restart
    }

    /// Whether a command is in progress.
    pub(crate) fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        now >= self.until
    }

    /// When to poll, unless the target ends before.
    pub(crate) fn next_wakeup(&self) -> Option<Moment> {
        (!self.is_polling).then_some(self.until)
    }

    /// A process of the target has ended, perhaps because another rule acts on it now.
    pub(crate) fn ended(&mut self, acts_elsewhere: bool) {
        self.has_ended = true;
        self.is_excused |= acts_elsewhere;
    }

    /// Another rule has published newer content for the target.
    pub(crate) fn excuse(&mut self) {
        self.is_excused = true;
    }

    /// Begins a poll if one is due. Returns whether it did.
    pub(crate) fn begin_due_poll(&mut self, now: Moment) -> bool {
        let is_due = !self.is_polling && (self.has_ended || self.is_over(now));
        self.is_polling |= is_due;
        self.has_ended &= !is_due;
        is_due
    }

    /// Ends a poll. Returns whether the content is the cause, if the target has ended.
    pub(crate) fn end_poll(&mut self) -> bool {
        self.is_polling = false;
        !self.is_excused
    }
}
