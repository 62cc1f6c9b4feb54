//! How the API server has answered, and when to send the next request. Pure.

use std::time::Duration;

use crate::api_error::ApiError;
use crate::clock::Moment;
use crate::pace::Pace;
use crate::reason::Reason;

/// The contact with the API server.
#[derive(Debug)]
pub(super) struct Contact {
    /// No request before this.
    not_before: Moment,
    failing: Option<Failing>,
    pace: Pace,
}

/// How the last request failed.
#[derive(Debug, Clone)]
struct Failing {
    /// Since when the server has not answered.
    since: Option<Moment>,
    reason: Reason,
    of_write: bool,
    /// Whether the server has answered, and may carry out the next request.
    may_pass: bool,
}

impl Contact {
    pub(super) fn new(seed: u64) -> Self {
        Self { not_before: Moment::default(), failing: None, pace: Pace::new(seed) }
    }

    /// The server has carried out a request. If writing fails, that it can be read does not help.
    pub(super) fn answered(&mut self, has_written: bool) {
        if has_written || self.failing.as_ref().is_none_or(|failing| !failing.of_write) {
            self.failing = None;
            self.pace.answered();
        }
    }

    /// A request has failed. The wait is at most `most`, unless the server asks for a longer one.
    pub(super) fn failed(&mut self, now: Moment, error: &ApiError, of_write: bool, most: Duration) {
        let wait = self.pace.failed(most, error.retry_after());
        self.not_before = now.after(wait);
        let earlier = self.failing.take().and_then(|failing| failing.since);
        self.failing = Some(Failing {
            since: if error.is_outage() { earlier.or(Some(now)) } else { None },
            reason: error.reason().clone(),
            of_write,
            may_pass: !error.is_outage() && !error.is_refusal(),
        });
    }

    /// Somebody else has changed the object.
    pub(super) fn conflicted(&mut self, now: Moment) {
        self.not_before = now.after(self.pace.conflicted());
    }

    /// Whether the last write met another one, or the server gave that as the reason.
    pub(super) fn has_conflicted(&self) -> bool {
        self.pace.has_conflicted()
    }

    /// A slot was taken, or none is wanted any more.
    pub(super) fn done(&mut self) {
        self.pace.done();
    }

    /// The wait until the next read of what other replicas have to change, doubled up to `most`.
    pub(super) fn next_read(&mut self, most: Duration) -> Duration {
        self.pace.next_read(most)
    }

    /// The wait after an answer that lacks what was written for the other replicas.
    pub(super) fn untold(&mut self) -> Duration {
        self.pace.untold()
    }

    /// The other replicas know all.
    pub(super) fn told(&mut self) {
        self.pace.told();
    }

    /// When a request that is due then may be sent.
    pub(super) fn allowed_at(&self, due: Moment) -> Moment {
        due.max(self.not_before)
    }

    /// Whether another request soon is in vain: the server does not answer, or refuses.
    pub(super) fn is_cut_off(&self) -> bool {
        self.failing.as_ref().is_some_and(|failing| !failing.may_pass)
    }

    /// Why the last request failed, unless another one was carried out since.
    pub(super) fn reason(&self) -> Option<&Reason> {
        self.failing.as_ref().map(|failing| &failing.reason)
    }

    /// From when on the server is taken for unreachable, if it has not answered for some time.
    pub(super) fn unreachable_at(&self, patience: Duration) -> Option<Moment> {
        self.failing.as_ref()?.since.map(|since| since.after(patience))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(30);

    fn contact_after(of_write: bool) -> Contact {
        let mut contact = Contact::new(1);
        let refused = ApiError::Refused(Reason::new("403"));
        contact.failed(Moment::default(), &refused, of_write, MOST);
        contact
    }

    #[test]
    fn only_what_succeeds_again_ends_a_failure() {
        for (failed_to_write, has_written, is_over) in
            [(false, false, true), (false, true, true), (true, false, false), (true, true, true)]
        {
            let mut contact = contact_after(failed_to_write);
            assert!(contact.is_cut_off());
            contact.answered(has_written);
            assert_eq!(contact.is_cut_off(), !is_over, "{failed_to_write} {has_written}");
        }
    }
}
