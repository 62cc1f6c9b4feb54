//! What follows from the answer to a request. Pure.

use super::in_flight::{InFlight, Purpose};
use super::lease::Lease;
use super::notice::Notice;
use super::view::{Standing, View, pod};
use super::{Failing, Held, Search, Slots, Wanted};
use crate::api_error::ApiError;
use crate::clock::{Moment, Now};
use crate::command::Intent;
use crate::reason::Reason;

impl Slots {
    /// Handles the answer to the request under way.
    pub fn handle(&mut self, now: Now, answer: Result<Lease, ApiError>) {
        let Some(InFlight { step, sent, creates }) = self.in_flight.take() else { return };
        let now = now.mono;
        match answer.and_then(|lease| self.expected(&step, lease)) {
            Ok(lease) => self.succeeded(now, &step, sent, lease),
            // The object does not exist; to create it, the namespace is missing.
            Err(ApiError::NotFound(_)) if !creates => self.missing(now, sent, &step),
            Err(ApiError::Conflict(_) | ApiError::Gone(_)) => self.conflicted(now, &step),
            Err(error) => self.failed(now, &step, &error),
        }
        if let Some(first) = self.views.first().and_then(|view| view.lease.as_ref()) {
            let told = self.notices.extract_if(.., |notice| notice.is_told(first));
            self.written.extend(told.filter_map(|notice| notice.halted()));
        }
        if self.notices.is_empty() {
            self.tell_at = None;
            self.pace.told();
        }
    }

    /// Refuses an answer that does not fit the request.
    fn expected(&self, step: &Purpose, lease: Lease) -> Result<Lease, ApiError> {
        let is_own = lease.holder() == Some(self.settings.holder.as_str());
        let is_refuted = match step {
            Purpose::Take(_) => !is_own,
            Purpose::GiveBack(_) => is_own,
            Purpose::Read(_) | Purpose::Tell(_) => false,
        };
        if lease.name() != self.slot_name(step.slot()) || is_refuted {
            let reason = Reason::new("the API server has answered with another Lease")
                .hint("check what answers at the URL of `[cluster]`, and the cluster's admission webhooks");
            return Err(ApiError::Unavailable(reason, None));
        }
        Ok(lease)
    }

    fn succeeded(&mut self, now: Moment, step: &Purpose, sent: Moment, lease: Lease) {
        let slot = step.slot();
        let holder = lease.holder().map(ToOwned::to_owned);
        let own_time = self.own_time();
        if matches!(step, Purpose::Tell(notice) if !notice.is_told(&lease)) {
            self.tell_at = Some(now.after(self.pace.untold()));
        }
        if let Some(view) = self.views.get_mut(slot) {
            view.learn(now, lease, &self.settings.holder, own_time);
        }
        self.answered(!matches!(step, Purpose::Read(_)));
        let is_own = holder.as_ref() == Some(&self.settings.holder);
        if !is_own && self.held.is_some_and(|held| held.slot == slot) {
            let how = match &holder {
                Some(other) => format!("was taken by pod {}", pod(other)),
                None => "was given back by somebody else".to_owned(),
            };
            self.lose(now, format!("the slot `{}` {how}", self.slot_name(slot)));
        }
        match step {
            Purpose::Take(_) if self.wanted.is_some() => self.taken(now, slot, sent),
            Purpose::Read(_) => self.searched_one(now, slot),
            // If it was taken and is not wanted any more, it is given back next.
            Purpose::Take(_) | Purpose::GiveBack(_) | Purpose::Tell(_) => {}
        }
        if slot == 0 {
            self.judge(now, sent);
        }
    }

    fn taken(&mut self, now: Moment, slot: usize, sent: Moment) {
        let duration = self.settings.duration;
        let until = sent.after(duration / 5 * 4);
        self.held = Some(Held { slot, renew_at: sent.after(duration / 3), until });
        if now < until {
            self.lost = None;
        }
        self.search = Search::default();
        self.pace.done();
    }

    fn missing(&mut self, now: Moment, sent: Moment, step: &Purpose) {
        let slot = step.slot();
        self.answered(false);
        self.views.get_mut(slot).into_iter().for_each(View::is_missing);
        if self.held.is_some_and(|held| held.slot == slot) {
            self.lose(now, format!("the Lease `{}` was deleted", self.slot_name(slot)));
        }
        match step {
            Purpose::Read(_) => self.searched_one(now, slot),
            Purpose::Take(_) => self.search_anew(now),
            Purpose::GiveBack(_) | Purpose::Tell(_) => {}
        }
        if slot == 0 {
            self.judge(now, sent);
        }
    }

    /// Somebody else has changed the object: look at it again.
    fn conflicted(&mut self, now: Moment, step: &Purpose) {
        self.answered(false);
        self.views.get_mut(step.slot()).into_iter().for_each(View::forget);
        self.not_before = now.after(self.pace.conflicted());
        if self.held.is_none() {
            self.search_anew(now);
        }
    }

    /// There is no usable answer.
    fn failed(&mut self, now: Moment, step: &Purpose, error: &ApiError) {
        self.views.iter_mut().for_each(View::interrupted);
        if matches!(error, ApiError::Unavailable(..)) {
            // What was sent may have been done.
            self.views.get_mut(step.slot()).into_iter().for_each(View::forget);
        }
        let duration = self.settings.duration;
        let most = if self.held.is_some() { duration / 10 } else { duration.saturating_mul(2) };
        self.not_before = now.after(self.pace.failed(most, error.retry_after()));
        self.search_anew(now);
        let earlier = self.failing.take();
        self.failing = Some(Failing {
            // A server that asks for a pause is reachable.
            since: match error {
                ApiError::Throttled(..) => None,
                _ => earlier.and_then(|failing| failing.since).or(Some(now)),
            },
            reason: error.reason().clone(),
            of_write: !matches!(step, Purpose::Read(_)),
        });
    }

    /// The server has answered. If writing fails, that it can be read does not help.
    fn answered(&mut self, has_written: bool) {
        if has_written || self.failing.as_ref().is_none_or(|failing| !failing.of_write) {
            self.failing = None;
            self.pace.answered();
        }
    }

    fn lose(&mut self, now: Moment, why: String) {
        self.held = None;
        self.lost = Some(Reason::new(why));
        self.search_anew(now);
    }

    /// Goes on with the search after one Lease was read.
    fn searched_one(&mut self, now: Moment, slot: usize) {
        let is_searching = self.wanted.is_some() && self.held.is_none() && self.halted.is_none();
        if !is_searching || self.search.chosen.is_some() || slot != self.searched() {
            return;
        }
        let (name, duration) = (self.slot_name(slot), self.settings.duration);
        let standing = |view: &View| view.standing(now, &self.settings.holder, duration);
        let standing = self.views.get(slot).and_then(standing);
        let search = &mut self.search;
        if search.read == 0 {
            (search.holders, search.free_at) = (Vec::new(), None);
        }
        match standing {
            Some(Standing::Own) => search.chosen = Some(slot),
            Some(Standing::Free) if self.has_searched => search.chosen = Some(slot),
            Some(Standing::Free) => search.free = search.free.or(Some(slot)),
            Some(Standing::Busy(pod, until)) => {
                search.holders.push(format!("pod {pod} holds `{name}`"));
                search.free_at = search.free_at.into_iter().chain([until]).min();
            }
            None => {}
        }
        search.read += 1;
        if search.read < self.views.len() || search.chosen.is_some() {
            return;
        }
        self.has_searched = true;
        search.chosen = search.free.take();
        if search.chosen.is_none() {
            // Nothing has to be written now, so an earlier failure to write does not matter.
            let next = now.after(self.pace.looked(duration));
            search.at = search.free_at.map_or(next, |free_at| free_at.min(next));
            search.read = 0;
            self.answered(true);
        }
    }

    /// Whether the wanted digest failed on another replica, by the first Lease, which was read or written by
    /// a request that was sent then. While the slot is held for a digest, nothing revokes that.
    fn judge(&mut self, now: Moment, sent: Moment) {
        let Some(wanted) = self.wanted else { return };
        let Wanted { digest, since, intent } = wanted;
        if intent == Intent::Keep || (self.held.is_some() && self.is_usable(wanted)) {
            return;
        }
        let first = self.views.first().and_then(|view| view.lease.as_ref());
        let halts = first.map(Lease::halts).unwrap_or_default();
        let halt = halts.into_iter().find(|halt| halt.digest == digest);
        let mut halt = halt.filter(|halt| !self.notices.contains(&Notice::Clear(halt.clone())));
        if let Some((_, known)) = self.doubted.as_mut().filter(|(it, _)| *it == digest) {
            *known = halt.take().or(known.take());
        }
        match halt {
            Some(halt) => {
                let wait = self.pace.looked(self.settings.duration.saturating_mul(4));
                self.halted = Some((halt.reason(), now.after(wait)));
                // It is given back next.
                self.held = None;
                self.search = Search::default();
            }
            None if self.halted.take().is_some() => self.search_anew(now),
            None if self.held.is_some() && sent >= since => self.checked = Some(digest),
            None => {}
        }
    }
}
