//! What is known of the Lease of one slot, and since when. Pure.
//!
//! The same object is seen by two ways: in the answers to requests and by the watch. Each of them can be late, and then it
//! tells a version that is lower than one that was seen a moment ago.

use std::sync::Arc;
use std::time::Duration;

use super::crowd::ROOM;
use super::halt::pod_of;
use super::lease::{Lease, NOBODY};
use crate::clock::Moment;
use crate::shown;

/// The longest that a slot stays taken without being renewed.
pub const LONGEST_LEASE: Duration = Duration::from_hours(1);
/// How late a state can be. After that, a lower version is news: a cluster may have been restored from a backup.
const LATE: Duration = Duration::from_secs(2);

/// What is known of one Lease.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) name: String,
    /// As it was seen last, or one that is still to be created. `None` if it must be read before it can be
    /// written.
    pub(super) lease: Option<Arc<Lease>>,
    /// The version that was seen last, and when it was seen first, without an outage in between.
    seen: Option<(String, Moment)>,
    /// When it was seen last, by an answer or an event.
    seen_last: Moment,
    missing_since: Option<Moment>,
    /// For how long its last holder may have it: longer than the own setting while a new one is rolled out.
    last_duration: Option<Duration>,
    /// Until when the Lease may be in this podnudge's name.
    own_until: Option<Moment>,
    /// Until when the Lease may be in this podnudge's name by a request that has no answer yet.
    asked_until: Option<Moment>,
}

/// Whether a slot can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no such Lease: found out then.
    Missing(Moment),
    /// The slot is held in this podnudge's name.
    Own,
    /// Nobody holds it, or whoever does has not renewed it in time: since then.
    Free(Moment),
    /// Another holder has the slot, and if it does not renew it, until then.
    Busy(String, Moment),
}

impl View {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            lease: None,
            seen: None,
            seen_last: Moment::default(),
            missing_since: None,
            last_duration: None,
            own_until: None,
            asked_until: None,
        }
    }

    /// Takes what the watch tells, or the answer to a request that was sent at `asked`. `own` is how long the Lease may
    /// stay in this podnudge's name. Returns whether that is news.
    pub(super) fn see(
        &mut self,
        now: Moment,
        lease: &Arc<Lease>,
        asked: Option<Moment>,
        own: (&str, Duration),
    ) -> bool {
        // An answer may take longer than `LATE`.
        let was_seen_since = asked.is_some_and(|asked| self.was_seen_after(asked));
        let is_late = was_seen_since || now.since(self.seen_last) < LATE;
        // Also where it is to be read again: what the watch tells late says nothing of its present state.
        let known = self.lease.as_ref().map(|known| known.version());
        let known = known.or(self.seen.as_ref().map(|(version, _)| version.as_str()));
        if is_late && known.is_some_and(|known| is_older(lease.version(), known)) {
            return false;
        }
        self.learn(now, lease, own);
        true
    }

    fn learn(&mut self, now: Moment, lease: &Arc<Lease>, (holder, own): (&str, Duration)) {
        if self.seen.as_ref().is_none_or(|(version, _)| version != lease.version()) {
            self.seen = Some((lease.version().to_owned(), now));
        }
        // What was asked for of another version is not carried out any more.
        let is_changed = self.lease.as_ref().is_none_or(|known| known.version() != lease.version());
        self.asked_until.take_if(|_| is_changed);
        (self.seen_last, self.missing_since) = (now, None);
        self.last_duration = lease.duration();
        self.own_until = (lease.holder() == Some(holder)).then(|| now.after(own));
        self.lease = Some(Arc::clone(lease));
    }

    /// There is no such object.
    pub(super) fn found_missing(&mut self, now: Moment) {
        self.lease = Some(Arc::new(Lease::new(&self.name)));
        self.seen_last = now;
        self.missing_since.get_or_insert(now);
        self.seen = None;
        self.own_until = None;
    }

    /// For how long nobody may take it if it was missing.
    pub(super) fn time_of_nobody(&self, default: Duration) -> Duration {
        self.last_duration.unwrap_or_default().min(LONGEST_LEASE).max(default)
    }

    /// From when on a watch that told nothing is suspicious: whoever holds the slot renews it thrice in this time.
    pub(super) fn silent_at(&self, time: Duration) -> Moment {
        self.seen_last.after(time)
    }

    /// Has the Lease read again before it is written.
    pub(super) fn forget(&mut self) {
        self.lease = None;
    }

    /// The server has not answered: the holder could not renew the slot either. So its time begins anew.
    pub(super) fn interrupted(&mut self) {
        self.seen = None;
    }

    /// A request that takes it is sent: from now on it may be in this podnudge's name.
    pub(super) fn asked_to_take(&mut self, until: Moment) {
        self.asked_until = Some(until);
    }

    /// Takes the end of a request to hold the slot. If the answer does not say what came of it, it may have been carried out.
    pub(super) fn take_answered(&mut self, may_be_done: bool) {
        let asked = self.asked_until.take().filter(|_| may_be_done);
        self.own_until = self.own_until.max(asked);
    }

    pub(super) fn is_own(&self, now: Moment) -> bool {
        self.own_until.max(self.asked_until).is_some_and(|until| now < until)
    }

    /// Whether it was seen within this time.
    pub(super) fn is_fresh(&self, now: Moment, time: Duration) -> bool {
        self.lease.is_some() && now.since(self.seen_last) <= time
    }

    /// Whether it was seen after this.
    pub(super) fn was_seen_after(&self, moment: Moment) -> bool {
        self.seen_last > moment
    }

    /// Whether this replica waits in its line.
    pub(super) fn is_in_line(&self, holder: &str) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.waiting().any(|next| next.holder == holder))
    }

    /// Whether this replica is the first in its line.
    pub(super) fn is_first(&self, holder: &str) -> bool {
        let first = self.lease.as_ref().and_then(|lease| lease.waiting().next());
        first.is_some_and(|next| next.holder == holder)
    }

    /// Whether nobody waits in its line.
    pub(super) fn has_no_next(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.waiting().next().is_none())
    }

    /// Whether another one may line up.
    pub(super) fn has_room(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.waiting().count() < ROOM)
    }

    /// Whether it can be taken, if it was seen.
    pub(super) fn standing(
        &self,
        now: Moment,
        holder: &str,
        default: Duration,
    ) -> Option<Standing> {
        let lease = self.lease.as_ref()?;
        if lease.version().is_empty() {
            return Some(Standing::Missing(self.missing_since.unwrap_or(now)));
        }
        let (_, since) = self.seen.as_ref()?;
        let Some(other) = lease.holder() else { return Some(Standing::Free(*since)) };
        if other == holder {
            return Some(Standing::Own);
        }
        // What other clients have written without a duration gets the own one. Whoever may write the Lease could
        // block the slot for years by a longer one than podnudge sets.
        let time = lease.duration().filter(|time| !time.is_zero()).unwrap_or(default);
        let until = since.after(time.min(LONGEST_LEASE));
        let busy = || Standing::Busy(self.describe(other), until);
        Some(if now < until { busy() } else { Standing::Free(until) })
    }

    /// Who has it, for people.
    fn describe(&self, holder: &str) -> String {
        let name = &self.name;
        if holder == NOBODY {
            return format!("the Lease `{name}` was missing");
        }
        format!("pod {} holds `{name}`", pod(holder))
    }
}

/// Whether a version is lower than another one: those of Kubernetes are numbers. Nothing that must not go wrong depends
/// on that.
fn is_older(version: &str, than: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(version, than)| version < than)
}

/// The pod of a holder, which any client may have written.
pub(super) fn pod(holder: &str) -> String {
    const LONGEST: usize = 100;
    shown::text(pod_of(holder)).chars().take(LONGEST).collect()
}
