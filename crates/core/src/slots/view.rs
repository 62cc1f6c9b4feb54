//! What is known of the Lease of one slot, and since when. Pure.

use std::time::Duration;

use super::halt::pod_of;
use super::lease::Lease;
use crate::clock::Moment;
use crate::shown;

/// The longest that a slot stays taken without being renewed.
pub const LONGEST_LEASE: Duration = Duration::from_hours(1);

/// What is known of one Lease.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) name: String,
    /// As it was read last, or one that is still to be created. `None` if it must be read before it can be
    /// written.
    pub(super) lease: Option<Lease>,
    /// The version that was seen last, and when it was seen first, without a failed request in between.
    seen: Option<(String, Moment)>,
    /// Until when the Lease may be in this podnudge's name.
    own_until: Option<Moment>,
}

/// Whether a slot can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is held in this podnudge's name.
    Own,
    /// Nobody holds it, or whoever does has not renewed it in time.
    Free,
    /// This pod holds it, and if it does not renew it, until then.
    Busy(String, Moment),
}

impl View {
    pub(super) fn new(name: String) -> Self {
        Self { name, lease: None, seen: None, own_until: None }
    }

    /// It was read, or written with this result, at `now`. `own` is how long it may stay in this
    /// podnudge's name.
    pub(super) fn learn(&mut self, now: Moment, lease: Lease, holder: &str, own: Duration) {
        if self.seen.as_ref().is_none_or(|(version, _)| version != lease.version()) {
            self.seen = Some((lease.version().to_owned(), now));
        }
        self.own_until = (lease.holder() == Some(holder)).then(|| now.after(own));
        self.lease = Some(lease);
    }

    /// There is no such object.
    pub(super) fn is_missing(&mut self) {
        self.lease = Some(Lease::new(&self.name));
        self.seen = None;
        self.own_until = None;
    }

    /// It must be read again before it is written.
    pub(super) fn forget(&mut self) {
        self.lease = None;
    }

    /// A request has failed: if the server was not reachable, the holder could not renew the slot either. So
    /// its time begins anew.
    pub(super) fn interrupted(&mut self) {
        self.seen = None;
    }

    /// A request that takes it is sent: from now on it may be in this podnudge's name.
    pub(super) fn may_be_own(&mut self, until: Moment) {
        self.own_until = Some(until);
    }

    pub(super) fn is_own(&self, now: Moment) -> bool {
        self.own_until.is_some_and(|until| now < until)
    }

    /// Whether it can be taken, if it was read.
    pub(super) fn standing(
        &self,
        now: Moment,
        holder: &str,
        default: Duration,
    ) -> Option<Standing> {
        let lease = self.lease.as_ref()?;
        let Some(other) = lease.holder() else { return Some(Standing::Free) };
        if other == holder {
            return Some(Standing::Own);
        }
        // What other clients have written without a duration gets the own one. Whoever may write the Lease could
        // block the slot for years by a longer one than podnudge sets.
        let time = lease.duration().filter(|time| !time.is_zero()).unwrap_or(default);
        let time = time.min(LONGEST_LEASE);
        let (_, since) = self.seen.as_ref()?;
        let until = since.after(time);
        Some(if now < until { Standing::Busy(pod(other), until) } else { Standing::Free })
    }
}

/// The pod of a holder, which any client may have written.
pub(super) fn pod(holder: &str) -> String {
    const LONGEST: usize = 100;
    shown::text(pod_of(holder)).chars().take(LONGEST).collect()
}
