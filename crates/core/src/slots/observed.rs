//! What follows from the state of a Lease, whichever way it was seen. Pure.

use std::sync::Arc;

use super::halting::Verdict;
use super::lease::{Lease, NOBODY};
use super::view::pod;
use super::{InFlight, Slots, Wanted};
use crate::clock::Moment;
use crate::command::Intent;

/// How a state was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// In the answer to a request that was sent then.
    Answer(Moment),
    Watch,
}

impl Slots {
    /// A Lease was seen so.
    pub(super) fn observe(&mut self, now: Moment, slot: usize, lease: &Arc<Lease>, by: By) {
        let own_time = self.own_time();
        let own = (self.settings.holder.as_str(), own_time);
        let Some(view) = self.views.get_mut(slot) else { return };
        let before = view.lease.clone();
        let asked = match by {
            By::Answer(sent) => Some(sent),
            By::Watch => None,
        };
        if !view.see(now, lease, asked, own) {
            return;
        }
        if self.place.line() == Some(slot) && self.place.accept(now, lease) {
            // What follows from the new home is seen when that is watched.
            return;
        }
        let is_asked = self.in_flight.as_ref().is_some_and(InFlight::is_line_up);
        if self.place.line().is_none()
            && !is_asked
            && let Some(entry) = lease.waiting().find(|next| next.holder == self.settings.holder)
        {
            // An earlier podnudge has written that, or a request that arrived late.
            self.place.adopt(slot, entry.clone());
        }
        if slot == self.place.home() {
            self.place.saw(now, before.as_deref(), lease);
            self.prepare_at = None;
        }
        let lined_up_at = self.place.lined_up_at(slot, lease);
        let is_own = lease.holder() == Some(self.settings.holder.as_str());
        if lease.holder().is_some() {
            self.place.slot_taken(slot);
        }
        if !is_own {
            self.lose_if_held(now, slot, lease);
        }
        let is_offered = self.place.arrives_by().is_some() && !is_own;
        let has_left = self.place.line() == Some(slot) && (is_own || lined_up_at.is_none());
        // Unless the request is still under way, it was passed on, or somebody has removed that.
        if has_left && !is_offered && !is_asked {
            self.place.left_line();
        }
        let passed_on = lined_up_at.filter(|_| is_own && self.is_waiting());
        if let Some(sent) = passed_on {
            self.passed_on(now, slot, sent, lease);
        }
        if slot == 0 {
            self.judge(now, asked.or(passed_on));
        }
    }

    /// The slot was passed on to this replica, which lined up by a request that was sent then.
    fn passed_on(&mut self, now: Moment, slot: usize, sent: Moment, lease: &Lease) {
        // Whoever passed it on may have a configuration with a shorter duration, and that is what the others wait for.
        let time = lease.duration().unwrap_or_default().min(self.settings.duration);
        let is_late = now >= sent.after(time / 2);
        if !is_late {
            // The first Lease itself says what had failed when it was passed on.
            let got = if slot == 0 { sent } else { now };
            self.hold(now, slot, (sent, time), got);
        }
        // Else it is in the own name, and is taken by a request.
    }

    /// The watch may have told that another replica has the slot before the older answer came by which it was got.
    pub(super) fn lose_if_taken(&mut self, now: Moment, slot: usize) {
        let holder = Some(self.settings.holder.as_str());
        let known = self.views.get(slot).and_then(|view| view.lease.as_ref());
        if let Some(lease) = known.filter(|lease| lease.holder() != holder).cloned() {
            self.lose_if_held(now, slot, &lease);
        }
    }

    fn lose_if_held(&mut self, now: Moment, slot: usize, lease: &Lease) {
        let Some(held) = self.held.filter(|held| held.slot == slot) else { return };
        let name = self.slot_name(slot);
        let how = match lease.holder() {
            // It was deleted, and made again. Nobody else has got it: it is taken again.
            Some(NOBODY) if now < held.until => return self.renew_now(now),
            Some(other) => format!("was taken by pod {}", pod(other)),
            None => "was given back by somebody else".to_owned(),
        };
        self.lose(now, format!("the slot `{name}` {how}"));
    }

    fn renew_now(&mut self, now: Moment) {
        if let Some(held) = &mut self.held {
            held.renew_at = held.renew_at.min(now);
        }
    }

    /// There is no such Lease.
    pub(super) fn found_missing(&mut self, now: Moment, slot: usize) {
        if let Some(view) = self.views.get_mut(slot) {
            view.found_missing(now);
        }
        if slot == self.place.home() {
            self.place.found_missing();
        }
        if self.place.line() == Some(slot) {
            self.place.left_line();
        }
        match self.held.filter(|held| held.slot == slot) {
            Some(held) if now < held.until => self.renew_now(now),
            Some(_) => {
                self.lose(now, format!("the Lease `{}` was deleted", self.slot_name(slot)));
            }
            None => {}
        }
    }

    /// Whether the wanted digest failed on another replica, by the first Lease, as it was at `since` or later. While the
    /// slot is held for a digest, nothing revokes that.
    pub(super) fn judge(&mut self, now: Moment, seen: Option<Moment>) {
        let Some(wanted) = self.wanted else { return };
        let Wanted { digest, since, intent } = wanted;
        if intent == Intent::Keep || (self.held.is_some() && self.is_usable(wanted)) {
            return;
        }
        let is_read = self.held.zip(seen).is_some_and(|(held, at)| at >= since.max(held.got));
        let first = self.views.first().and_then(|view| view.lease.as_deref());
        match self.halting.judge(digest, first) {
            Verdict::Failed(reason) => {
                let wait = self.contact.next_read(self.settings.duration.saturating_mul(4));
                self.halting.halt(reason, now.after(wait));
                // It is given back next.
                self.held = None;
                self.place.got_slot();
            }
            Verdict::Nothing if self.halting.end_halt() => self.wait_anew(now),
            Verdict::Nothing if is_read => self.halting.check(digest),
            Verdict::Nothing => {}
        }
    }
}
