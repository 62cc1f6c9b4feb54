//! The trial of published content that was verified: it becomes the last good generation once the
//! target has run with it for `verify.timeout`, or when newer content is published for the same
//! target. If the target ends before that, the content is rolled back: an application that starts
//! slowly fails late.

use super::policy::Policy;
use super::rollout::Rollout;
use super::source::OnDisk;
use crate::clock::Moment;

#[derive(Debug)]
pub(super) struct Trial {
    content: OnDisk,
    /// Whether the target was restarted with the content.
    after_restart: bool,
    /// When the content becomes the last good generation.
    until: Moment,
    /// Whether podnudge is finding out why a process of the target has ended.
    is_polling: bool,
}

impl Trial {
    /// The trial of a rollout's content, which was verified now.
    pub(super) fn new(rollout: &Rollout, now: Moment, policy: &Policy) -> Self {
        Self {
            content: rollout.content(),
            after_restart: rollout.is_restart() || policy.is_restart,
            until: now.after(policy.verify_timeout.max(policy.alive_for)),
            is_polling: false,
        }
    }

    pub(super) fn content(&self) -> OnDisk {
        self.content
    }

    pub(super) fn after_restart(&self) -> bool {
        self.after_restart
    }

    /// Whether a command is in progress.
    pub(super) fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.next_wakeup().is_some_and(|at| at <= now)
    }

    /// When it ends without an event.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        (!self.is_polling).then_some(self.until)
    }

    /// Begins a poll, unless one is in progress. Returns whether it did.
    pub(super) fn begin_poll(&mut self) -> bool {
        !std::mem::replace(&mut self.is_polling, true)
    }

    pub(super) fn end_poll(&mut self) {
        self.is_polling = false;
    }
}
