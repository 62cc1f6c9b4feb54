//! What follows from the answer to a request, and from what the watch tells. Pure.

use std::sync::Arc;

use super::in_flight::{InFlight, Purpose};
use super::lease::Lease;
use super::observed::By;
use super::view::Standing;
use super::waiter::Waiter;
use super::{Slots, SlotsSettings, View};
use crate::api_error::ApiError;
use crate::clock::{Moment, Now};
use crate::reason::Reason;

impl Slots {
    /// Handles the answer to the request under way.
    pub fn handle(&mut self, now: Now, answer: Result<Lease, ApiError>) {
        let Some(InFlight { step, sent, creates }) = self.in_flight.take() else { return };
        let now = now.mono;
        let answer = answer.map(Arc::new).and_then(|lease| self.expected(&step, lease));
        if let Some(view) = self.views.get_mut(step.slot()) {
            view.take_answered(answer.as_ref().is_err_and(ApiError::may_be_done));
        }
        match answer {
            Ok(lease) => self.succeeded(now, &step, sent, &lease),
            // The object does not exist; to create it, the namespace is missing.
            Err(ApiError::NotFound(_)) if !creates => self.not_found(now, sent, &step),
            Err(ApiError::Conflict(_) | ApiError::Gone(_)) => self.conflicted(now, sent, &step),
            Err(error) => self.failed(now, &step, &error),
        }
        self.tell();
    }

    /// The watch has begun.
    pub fn watch_opened(&mut self, now: Moment) {
        self.watching.opened(now);
        self.place.watch_opened(now);
        self.contact.answered(false);
    }

    /// The watch has told this state of its Lease; `None` if it was deleted.
    pub fn watch_seen(&mut self, now: Moment, lease: Option<&Arc<Lease>>) {
        let Some(slot) = self.watching.slot() else { return };
        match lease {
            Some(lease) if lease.name() == self.slot_name(slot) => {
                self.observe(now, slot, lease, By::Watch);
            }
            Some(_) => return,
            None => self.found_missing(now, slot),
        }
        if self.is_waiting() && self.has_nothing_to_write(now) {
            self.contact.answered(true);
        }
        self.tell();
    }

    /// The watch has ended. Load balancers and proxies cut idle connections, so that it broke off is no outage: the Lease
    /// is read next, and that shows whether it is one.
    pub fn watch_ended(&mut self, now: Moment, how: &Result<(), ApiError>) {
        self.watching.ended(now, how);
        self.place.watch_ended(now, how.is_ok());
    }

    /// Refuses an answer that does not fit the request.
    fn expected(&self, step: &Purpose, lease: Arc<Lease>) -> Result<Arc<Lease>, ApiError> {
        let is_own = lease.holder() == Some(self.settings.holder.as_str());
        let is_refuted = match step {
            Purpose::Take(_) => !is_own,
            Purpose::GiveBack(_) | Purpose::PassOn(..) => is_own,
            Purpose::Read(_)
            | Purpose::Make(_)
            | Purpose::LineUp(_)
            | Purpose::Leave(_)
            | Purpose::Offer(..)
            | Purpose::Tell(_) => false,
        };
        if lease.name() != self.slot_name(step.slot()) || is_refuted {
            let reason = Reason::new("the API server has answered with another Lease")
                .hint("check what answers at the URL of `[cluster]`, and the cluster's admission webhooks");
            return Err(ApiError::Unusable(reason));
        }
        Ok(lease)
    }

    fn succeeded(&mut self, now: Moment, step: &Purpose, sent: Moment, lease: &Arc<Lease>) {
        let slot = step.slot();
        let has_arrived = self.place.arrives_by().is_some_and(|by| sent >= by);
        let offered = self.place.line().filter(|_| has_arrived);
        if matches!(step, Purpose::Read(_)) && offered == Some(slot) && self.leaves_line(slot) {
            // If it was passed on, it is in the own name now, and given back.
            self.place.left_line();
        }
        if matches!(step, Purpose::Tell(notice) if !notice.is_told(lease)) {
            let wait = self.contact.untold();
            self.halting.tell_again(now.after(wait));
        }
        self.contact.answered(step.is_write());
        match step {
            // It is known before what else follows from it.
            Purpose::Take(_) if self.wanted.is_some() => {
                self.hold(now, slot, (sent, self.settings.duration), sent);
            }
            Purpose::LineUp(_) if !self.is_in_line(lease) => {
                self.place.stop_lining_up();
            }
            _ => {}
        }
        self.observe(now, slot, lease, By::Answer(sent));
        match step {
            Purpose::Read(_) => self.seen(now, slot),
            Purpose::Take(_) => self.lose_if_taken(now, slot),
            Purpose::Offer(_, offered) => match lease.offered_to(*offered).cloned() {
                Some(next) => self.offering.told(Waiter { offered: None, ..next }),
                None => self.offering.end(),
            },
            Purpose::GiveBack(_) | Purpose::PassOn(..) => self.offering.end(),
            Purpose::Leave(_) => self.place.left_line(),
            _ => {}
        }
    }

    /// Whether the Lease says that this replica waits in its line, also if it is offered a slot elsewhere meanwhile.
    fn is_in_line(&self, lease: &Lease) -> bool {
        lease.entry_of(&self.settings.holder).is_some()
    }

    fn not_found(&mut self, now: Moment, sent: Moment, step: &Purpose) {
        let slot = step.slot();
        self.contact.answered(false);
        self.found_missing(now, slot);
        if matches!(step, Purpose::Read(_)) {
            self.seen(now, slot);
        }
        if slot == 0 {
            self.judge(now, Some(sent));
        }
    }

    /// Somebody else has changed the object: read it again.
    fn conflicted(&mut self, now: Moment, sent: Moment, step: &Purpose) {
        let slot = step.slot();
        self.contact.answered(step.is_write());
        self.contact.conflicted(now);
        if matches!(step, Purpose::Offer(..) | Purpose::PassOn(..)) {
            self.offering.end();
        }
        // A slot in the own name is to be written now, and the watch may tell each state too late while others line up.
        let is_own = self.views.get(slot).is_some_and(|view| view.is_own(now));
        let is_told = self.watching.since(slot).is_some() && self.is_waiting() && !is_own;
        if let Some(view) = self.views.get_mut(slot) {
            if !is_told {
                view.forget();
            } else if !view.was_seen_after(sent) {
                self.place.home_changed(now);
            }
        }
        if self.is_waiting() {
            self.place.collided();
        }
    }

    /// There is no usable answer.
    fn failed(&mut self, now: Moment, step: &Purpose, error: &ApiError) {
        let is_patch = matches!(step, Purpose::LineUp(_) | Purpose::GiveBack(_));
        if is_patch && self.place.is_line_kept() && error.is_refusal() {
            // A Role may not allow that. It is not needed.
            return self.place.stop_lining_up();
        }
        self.offering.end();
        if error.is_outage() {
            self.interrupted();
        }
        let duration = self.settings.duration;
        let most = if self.held.is_some() { duration / 10 } else { duration };
        self.contact.failed(now, error, step.is_write(), most);
        if error.is_refusal() && self.wanted.is_none() {
            self.prepare_at = None;
        } else if error.is_refusal() && self.is_waiting() {
            self.place.slot_refused(step.slot());
        }
        if matches!(step, Purpose::LineUp(_))
            && error.may_be_done()
            && let Some(view) = self.views.get_mut(step.slot())
        {
            view.forget();
        }
    }

    fn interrupted(&mut self) {
        self.views.iter_mut().for_each(View::interrupted);
    }

    /// Goes on with the search after one Lease was read.
    fn seen(&mut self, now: Moment, slot: usize) {
        if !self.is_waiting() {
            let is_waited_for = self.views.get(slot).is_some_and(|view| !view.has_no_next());
            return self.offering.seen(slot, is_waited_for);
        }
        let home = self.place.home();
        let is_watched = self.watching.since(home).is_some();
        if slot != home {
            let duration = self.settings.duration;
            let Some(view) = self.views.get_mut(slot) else { return };
            let standing = view.standing(now, &self.settings.holder, duration);
            let has_room = view.has_room();
            let is_full = self.views.get(home).is_some_and(|home| !home.has_room());
            self.place.seen_elsewhere(slot, standing.as_ref(), has_room, is_watched && is_full);
        }
        if self.has_nothing_to_write(now) {
            self.contact.answered(true);
        }
        let wait = self.contact.next_read(self.settings.duration);
        self.place.seen(now, slot, is_watched, wait);
    }

    /// Whether another replica has the slot of the home: then an earlier failure to write does not matter.
    fn has_nothing_to_write(&self, now: Moment) -> bool {
        let SlotsSettings { holder, duration, .. } = &self.settings;
        let home = self.views.get(self.place.home());
        let standing = home.and_then(|view| view.standing(now, holder, *duration));
        matches!(standing, Some(Standing::Busy(..)))
    }

    /// What the others know by now need not be told any more.
    fn tell(&mut self) {
        let first = self.views.first().and_then(|view| view.lease.as_deref());
        if first.is_some_and(|first| self.halting.seen(first)) {
            self.contact.told();
        }
    }
}
