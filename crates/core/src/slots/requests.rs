//! Which request is next, and when. Pure.

use std::time::Duration;

use super::in_flight::{InFlight, Purpose};
use super::lease::NOBODY;
use super::lease_request::Pass;
use super::notice::Notice;
use super::offering::Offer;
use super::place::Home;
use super::{Lease, LeaseRequest, Slots, SlotsSettings};
use crate::clock::{Moment, Now};

/// A Lease that was seen within this time need not be read before it is given back.
const FRESH: Duration = Duration::from_millis(20);

impl Slots {
    /// The next request to send, after [`Slots::watched`]. Its answer goes to [`Slots::handle`], and until then there is
    /// no other; its
    /// time limit is [`Slots::time_limit`].
    pub fn next_request(&mut self, now: Now) -> Option<LeaseRequest> {
        if self.in_flight.is_some() {
            return None;
        }
        let (at, step) = self.due(now.mono)?;
        if self.contact.allowed_at(at) > now.mono {
            return None;
        }
        let request = self.request(&step, now)?;
        if let Purpose::Take(slot) = step {
            let until = now.mono.after(self.own_time());
            self.views.get_mut(slot)?.asked_to_take(until);
        }
        let creates = matches!(request, LeaseRequest::Create(_));
        self.in_flight = Some(InFlight { step, sent: now.mono, creates });
        Some(request)
    }

    /// The Lease to watch now, and whether that watch is to be begun. Any other one is to be ended.
    pub fn watched(&mut self, now: Moment) -> Option<(&str, bool)> {
        let slot = self.to_watch(now);
        let (slot, is_new) = self.watching.watch(now, slot);
        let view = self.views.get(slot?)?;
        Some((&view.name, is_new))
    }

    /// The home, and where a slot was got there, as long as it is held: others line up there meanwhile.
    fn to_watch(&self, now: Moment) -> Option<usize> {
        let watched = self.watching.slot();
        match self.held {
            Some(held) => watched.filter(|slot| *slot == held.slot && self.wanted.is_some()),
            None if self.is_waiting() => {
                Some(self.place.home()).filter(|_| now >= self.place.begins())
            }
            // Until it is given back, one may line up there.
            None => {
                watched.filter(|slot| self.views.get(*slot).is_some_and(|view| view.is_own(now)))
            }
        }
    }

    /// When to call [`Slots::next_request`], [`Slots::watched`] and [`Slots::state`] again, if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self, now: Moment) -> Option<Moment> {
        let due = self.due(now).filter(|_| self.in_flight.is_none());
        let request = due.map(|(at, _)| self.contact.allowed_at(at));
        let wanted = self.wanted.is_some();
        let until = self.held.map(|held| held.until).filter(|_| wanted);
        let unreachable = self.unreachable_at().filter(|_| wanted);
        let watch = self.to_watch(now).filter(|slot| self.watching.slot() != Some(*slot));
        let watch = watch.map(|_| self.watching.opens_at());
        let begins = Some(self.place.begins()).filter(|at| *at > now && self.is_waiting());
        let later = until.into_iter().chain(unreachable);
        request.into_iter().chain(watch).chain(begins).chain(later.filter(|at| *at > now)).min()
    }

    /// Whether something is being written, or is to be given back or told to others, and the server may carry it out. The
    /// end of podnudge waits for that, and ends whatever else is under way.
    #[must_use]
    pub fn is_busy(&self, now: Moment) -> bool {
        let leaves = self.leave(now).is_some();
        let owes = self.wanted.is_none() && (leaves || self.left_over(now, None).is_some());
        let writes = self.in_flight.as_ref().is_some_and(|it| it.step.is_write());
        writes || (owes && !self.contact.is_cut_off()) || self.is_telling()
    }

    /// The next step, and when it is due.
    fn due(&self, now: Moment) -> Option<(Moment, Purpose)> {
        let held = self.held.filter(|_| self.wanted.is_some() && !self.halting.is_halted());
        if let Some(held) = held.filter(|held| held.renew_at <= now || self.is_gone(held.slot)) {
            return Some((now, self.take(now, held.slot)));
        }
        let tell = self.halting.next_notice(now).map(|(at, notice)| {
            let is_known = self.views.first().is_some_and(|view| view.lease.is_some());
            let tell = |notice: &Notice| Purpose::Tell(notice.clone());
            (at, if is_known { tell(notice) } else { Purpose::Read(0) })
        });
        match (tell, self.due_for_slot(now)) {
            (Some(tell), Some(slot)) => Some(if tell.0 <= slot.0.max(now) { tell } else { slot }),
            (tell, slot) => tell.or(slot),
        }
    }

    /// The next step, and when it is due, without what is to be told to others.
    fn due_for_slot(&self, now: Moment) -> Option<(Moment, Purpose)> {
        let entitled = self.wanted.filter(|_| !self.halting.is_halted());
        let held = self.held.filter(|_| entitled.is_some());
        let leave = self.leave(now);
        if leave.as_ref().is_some_and(|(at, _)| *at <= now) {
            // A slot elsewhere may be on its way.
            return leave;
        }
        if let Some(slot) = self.left_over(now, held.map(|held| held.slot)) {
            let takes = entitled.is_some() && held.is_none();
            let step = if takes { self.take(now, slot) } else { self.give_back(now, slot) };
            return Some((now, step));
        }
        if held.is_some() && entitled.is_some_and(|wanted| !self.is_usable(wanted)) {
            return Some((now, Purpose::Read(0)));
        }
        let step = match (self.halting.halted(), entitled, held) {
            (Some((_, read_at)), ..) => Some((*read_at, Purpose::Read(0))),
            (None, None, _) => {
                let home = self.place.home();
                self.prepare_at.map(|at| (at, self.preparation(home)))
            }
            (None, Some(_), Some(held)) => Some((held.renew_at, self.take(now, held.slot))),
            (None, Some(_), None) => {
                let step = self.home(now).and_then(|home| self.place.next(now, &home));
                step.map(|(at, step)| match step {
                    Purpose::Take(slot) => (at, self.take(now, slot)),
                    step => (at, step),
                })
            }
        };
        step.into_iter().chain(leave).min_by_key(|(at, _)| *at)
    }

    /// The slot besides the held one that is in the own name: an earlier request may have taken it, an earlier podnudge has
    /// left it, or it was passed on.
    fn left_over(&self, now: Moment, held: Option<usize>) -> Option<usize> {
        let is_own = |slot: &usize| self.views.get(*slot).is_some_and(|view| view.is_own(now));
        (0..self.views.len()).filter(|slot| Some(*slot) != held).find(is_own)
    }

    /// How it leaves the line in which it need not wait any more, and when.
    fn leave(&self, now: Moment) -> Option<(Moment, Purpose)> {
        let slot = self.place.line().filter(|slot| self.leaves_line(*slot))?;
        Some(match self.place.arrives_by() {
            // What is on its way cannot be refused: it is given back.
            Some(at) => (at, Purpose::Read(slot)),
            None => (now, self.write(slot, Purpose::Leave)),
        })
    }

    fn preparation(&self, slot: usize) -> Purpose {
        if self.is_gone(slot) { Purpose::Make(slot) } else { Purpose::Read(slot) }
    }

    /// Whether it is known that there is no such Lease.
    fn is_gone(&self, slot: usize) -> bool {
        let lease = self.views.get(slot).and_then(|view| view.lease.as_deref());
        lease.is_some_and(|lease| lease.version().is_empty())
    }

    fn home(&self, now: Moment) -> Option<Home<'_>> {
        let slot = self.place.home();
        let SlotsSettings { holder, duration, .. } = &self.settings;
        let view = self.views.get(slot)?;
        Some(Home {
            watched_since: self.watching.since(slot),
            silent_at: view.silent_at(*duration),
            view,
            standing: view.standing(now, holder, *duration),
            holder,
        })
    }

    /// Gives it back, and reads it before if another one may have lined up since it was seen.
    fn give_back(&self, now: Moment, slot: usize) -> Purpose {
        let is_known = self.watching.since(slot).is_some()
            || self.views.get(slot).is_some_and(|view| view.is_fresh(now, FRESH));
        let is_waited_for = self.views.get(slot).is_some_and(|view| !view.has_no_next());
        match self.offering.step() {
            Offer::Read(other) if !is_waited_for && *other != slot => Purpose::Read(*other),
            Offer::Tell(other) if !is_waited_for && *other != slot => Purpose::Offer(*other, slot),
            _ if !is_known => Purpose::Read(slot),
            Offer::PassOn(next) if !is_waited_for => Purpose::PassOn(slot, next.clone()),
            _ => self.write(slot, Purpose::GiveBack),
        }
    }

    /// Takes or renews a slot. Only who held it when its Lease was deleted may create that in its own name.
    fn take(&self, now: Moment, slot: usize) -> Purpose {
        let is_held = self.held.is_some_and(|held| held.slot == slot && now < held.until);
        if self.is_gone(slot) && !is_held {
            Purpose::Make(slot)
        } else {
            self.write(slot, Purpose::Take)
        }
    }

    /// The step if the Lease is known well enough to be written; else to read it.
    fn write(&self, slot: usize, step: fn(usize) -> Purpose) -> Purpose {
        let is_known = self.views.get(slot).is_some_and(|view| view.lease.is_some());
        if is_known { step(slot) } else { Purpose::Read(slot) }
    }

    fn request(&mut self, step: &Purpose, now: Now) -> Option<LeaseRequest> {
        let lease = |slot: usize| self.views.get(slot)?.lease.as_deref().cloned();
        let SlotsSettings { holder, duration, cover, .. } = &self.settings;
        Some(match step {
            Purpose::Read(slot) => LeaseRequest::Read(self.views.get(*slot)?.name.clone()),
            Purpose::Take(slot) => lease(*slot)?.held_by(holder, *cover, now.wall).write(),
            Purpose::Make(slot) => {
                let view = self.views.get(*slot)?;
                let time = view.time_of_nobody(*duration);
                Lease::new(&view.name).held_by(NOBODY, time, now.wall).write()
            }
            Purpose::LineUp(slot) => {
                let name = self.views.get(*slot)?.name.clone();
                let home = lease(*slot);
                LeaseRequest::LineUp(name, self.place.line_up(now.mono, holder, home.as_ref()))
            }
            Purpose::Leave(slot) => lease(*slot)?.left_by(holder).write(),
            Purpose::Offer(slot, offered) => lease(*slot)?.offered(*offered).write(),
            Purpose::PassOn(slot, to) => {
                lease(*slot)?.passed_on_to(to.clone(), *cover, now.wall).write()
            }
            Purpose::GiveBack(slot) => {
                let lease = lease(*slot)?;
                let next = lease.waiting().next().cloned();
                match next {
                    // An admission policy that refuses a patch gives the same answer as a condition that does not hold.
                    Some(to) if self.place.is_line_kept() && !self.contact.has_conflicted() => {
                        LeaseRequest::PassOn(Pass::new(lease, to, *cover, now.wall))
                    }
                    Some(to) => lease.passed_on_to(to, *cover, now.wall).write(),
                    None => lease.given_back(now.wall).write(),
                }
            }
            Purpose::Tell(notice) => {
                let first = lease(0)?;
                let halts = notice.applied_to(first.halts());
                let first = first.with_halts(&halts);
                let is_new = first.version().is_empty();
                let time = self.views.first()?.time_of_nobody(*duration);
                let first = if is_new { first.held_by(NOBODY, time, now.wall) } else { first };
                first.write()
            }
        })
    }
}
