//! Which request is next, and when. Pure.

use super::in_flight::{InFlight, Purpose};
use super::lease::LeaseRequest;
use super::{Slots, SlotsSettings};
use crate::clock::{Moment, Now};

impl Slots {
    /// The next request to send. Its answer goes to [`Slots::handle`], and until then there is no other; its
    /// time limit is [`Slots::time_limit`].
    pub fn next_request(&mut self, now: Now) -> Option<LeaseRequest> {
        if self.in_flight.is_some() {
            return None;
        }
        let (at, step) = self.due(now.mono)?;
        if at.max(self.not_before) > now.mono {
            return None;
        }
        let request = self.request(&step, now)?;
        if let Purpose::Take(slot) = step {
            let until = now.mono.after(self.own_time());
            self.views.get_mut(slot)?.may_be_own(until);
        }
        let creates = matches!(request, LeaseRequest::Create(_));
        self.in_flight = Some(InFlight { step, sent: now.mono, creates });
        Some(request)
    }

    /// When to call [`Slots::next_request`] and [`Slots::state`] again, if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self, now: Moment) -> Option<Moment> {
        let due = self.due(now).filter(|_| self.in_flight.is_none());
        let request = due.map(|(at, _)| at.max(self.not_before));
        let wanted = self.wanted.is_some();
        let until = self.held.map(|held| held.until).filter(|_| wanted);
        let unreachable = self.unreachable_at().filter(|_| wanted);
        let later = until.into_iter().chain(unreachable);
        request.into_iter().chain(later.filter(|at| *at > now)).min()
    }

    /// Whether a request is under way, or due because something is to be given back or told to others, and the
    /// server has answered the last one.
    #[must_use]
    pub fn is_busy(&self, now: Moment) -> bool {
        let is_due = self.due(now).is_some_and(|(at, _)| at <= now);
        let gives_back = self.wanted.is_none() && is_due && self.failing.is_none();
        self.in_flight.is_some() || gives_back || self.is_telling()
    }

    /// The next step, and when it is due.
    fn due(&self, now: Moment) -> Option<(Moment, Purpose)> {
        let held = self.held.filter(|_| self.wanted.is_some() && self.halted.is_none());
        if let Some(held) = held.filter(|held| held.renew_at <= now) {
            return Some((held.renew_at, self.write(held.slot, Purpose::Take)));
        }
        let tell = self.notices.first().map(|notice| {
            let is_known = self.views.first().is_some_and(|view| view.lease.is_some());
            let step = if is_known { Purpose::Tell(notice.clone()) } else { Purpose::Read(0) };
            (self.tell_at.unwrap_or(now).max(now), step)
        });
        match (tell, self.due_for_slot(now)) {
            (Some(tell), Some(slot)) => Some(if tell.0 <= slot.0.max(now) { tell } else { slot }),
            (tell, slot) => tell.or(slot),
        }
    }

    /// The same without what is to be told to others.
    fn due_for_slot(&self, now: Moment) -> Option<(Moment, Purpose)> {
        let entitled = self.wanted.filter(|_| self.halted.is_none());
        let held = self.held.filter(|_| entitled.is_some());
        let renewal = held.map(|held| (held.renew_at, self.write(held.slot, Purpose::Take)));
        // A slot that an earlier request may have taken, or that an earlier podnudge has left.
        let other = |slot: &usize| held.is_none_or(|held| held.slot != *slot);
        let is_own = |slot: &usize| self.views.get(*slot).is_some_and(|view| view.is_own(now));
        if let Some(slot) = (0..self.views.len()).filter(other).find(is_own) {
            let takes = entitled.is_some() && held.is_none();
            let step = if takes { Purpose::Take } else { Purpose::GiveBack };
            return Some((now, self.write(slot, step)));
        }
        if let Some((_, look_at)) = &self.halted {
            return Some((*look_at, Purpose::Read(0)));
        }
        let wanted = entitled?;
        if renewal.is_some() {
            return if self.is_usable(wanted) { renewal } else { Some((now, Purpose::Read(0))) };
        }
        match self.search.chosen {
            Some(slot) => Some((now, self.write(slot, Purpose::Take))),
            None => Some((self.search.at, Purpose::Read(self.searched()))),
        }
    }

    /// The step if the Lease is known well enough to be written; else to read it.
    fn write(&self, slot: usize, step: fn(usize) -> Purpose) -> Purpose {
        let is_known = self.views.get(slot).is_some_and(|view| view.lease.is_some());
        if is_known { step(slot) } else { Purpose::Read(slot) }
    }

    fn request(&self, step: &Purpose, now: Now) -> Option<LeaseRequest> {
        let lease = |slot: usize| self.views.get(slot)?.lease.clone();
        Some(match step {
            Purpose::Read(slot) => LeaseRequest::Read(self.views.get(*slot)?.name.clone()),
            Purpose::Take(slot) => {
                let SlotsSettings { holder, duration, .. } = &self.settings;
                lease(*slot)?.held_by(holder, *duration, now.wall).write()
            }
            Purpose::GiveBack(slot) => lease(*slot)?.given_back(now.wall).write(),
            Purpose::Tell(notice) => {
                let first = lease(0)?;
                let halts = notice.applied_to(first.halts());
                first.with_halts(&halts).write()
            }
        })
    }
}
