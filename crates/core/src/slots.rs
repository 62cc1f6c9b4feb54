//! The protocol by which replicas share slots: each slot is a Lease, and to hold it is the right to act. Pure:
//! the loop sends the requests and returns the answers (`run/api/slots.rs`).
//!
//! - A slot is held from an answer that says so until four fifths of its duration after that request was
//!   *sent*, by the own monotonic clock. It is renewed at a third. So its holder stops before another replica
//!   can take it.
//! - Another replica takes it if it has seen the same version for the whole duration, by its own monotonic
//!   clock and without a failed request in between. The times in a Lease are for people: no clocks are
//!   compared.
//! - A write goes through only if the object is unchanged since it was read (`resourceVersion`). After a
//!   request without an answer, the Lease is read before anything else is done with it.
//! - A digest that failed is written to the first Lease (`halts.rs`) before the slot is given back, and read
//!   after a slot was taken to act; a slot that is only kept does not depend on it.
//!
//! At most one request is under way.
//!
//! It is a machine like the core: the commands of the core come in ([`Slots::claim`], [`Slots::release`],
//! [`Slots::halt`], [`Slots::try_halted`], [`Slots::clear_halt`]), requests go out ([`Slots::next_request`]), answers
//! come back ([`Slots::handle`]), and what is known then is [`Slots::state`]. `tests/slots.rs` plays it against lost,
//! late, refused and wrongly answered requests.

mod answers;
mod halt;
mod in_flight;
mod lease;
mod notice;
mod requests;
mod standing;
mod view;

use std::time::Duration;

use crate::clock::{Moment, Now};
use crate::command::Intent;
use crate::pace::Pace;
use crate::reason::Reason;
use crate::snapshot::Digest;
pub use halt::Halt;
use in_flight::InFlight;
pub use lease::{Lease, LeaseRequest};
use notice::Notice;
pub use view::LONGEST_LEASE;
use view::View;

/// How many digests may wait to be written: as many as are remembered.
const MOST_NOTICES: usize = 8;

/// What one rule's slots are.
#[derive(Debug, Clone)]
pub struct SlotsSettings {
    /// The name of the Leases, without the number of the slot.
    pub name: String,
    /// How many there are.
    pub count: u32,
    /// How long a slot stays taken without being renewed.
    pub duration: Duration,
    /// Who holds it: unique among all rules of all pods, and the same after a restart.
    pub holder: String,
    /// For the waits, and for the slot that is tried first: it differs between replicas.
    pub seed: u64,
}

/// One rule's part in the protocol.
#[derive(Debug)]
pub struct Slots {
    settings: SlotsSettings,
    views: Vec<View>,
    /// What the rule has asked for.
    wanted: Option<Wanted>,
    held: Option<Held>,
    /// The digest that was not among those that failed when the slot was held already.
    checked: Option<Digest>,
    /// The digest to use although it failed, here or on another replica, and what was said of it then.
    doubted: Option<(Digest, Option<Halt>)>,
    /// Why the wanted digest must not be used, and when to look again.
    halted: Option<(Reason, Moment)>,
    /// Why the slot is not held any more, although it is still wanted.
    lost: Option<Reason>,
    /// What is still to be written, the oldest first.
    notices: Vec<Notice>,
    /// The digests of [`Slots::halt`] that the first Lease names, since the last [`Slots::take_written`].
    written: Vec<Digest>,
    /// When to write it again: the server has answered, and not kept it.
    tell_at: Option<Moment>,
    search: Search,
    in_flight: Option<InFlight>,
    /// No request before this.
    not_before: Moment,
    failing: Option<Failing>,
    pace: Pace,
    /// Whether a search has read all Leases once.
    has_searched: bool,
}

/// What the rule has asked for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    digest: Digest,
    intent: Intent,
    since: Moment,
}

/// How the last request failed.
#[derive(Debug, Clone)]
struct Failing {
    /// Since when the server is not reachable, or refuses.
    since: Option<Moment>,
    reason: Reason,
    of_write: bool,
}

/// A slot that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    slot: usize,
    renew_at: Moment,
    /// From then on, another replica may take it soon.
    until: Moment,
}

/// A search for a slot.
#[derive(Debug, Clone, Default)]
struct Search {
    /// When to read the next Lease.
    at: Moment,
    /// How many were read.
    read: usize,
    /// A free slot that was seen in the first search, which reads all: an earlier podnudge of this pod may
    /// have left one of them.
    free: Option<usize>,
    /// The slot to take.
    chosen: Option<usize>,
    /// Who holds the slots.
    holders: Vec<String>,
    /// When the first of them is free, if it is not renewed.
    free_at: Option<Moment>,
}

impl Slots {
    /// Nothing is claimed, and no request is due.
    #[must_use]
    pub fn new(settings: SlotsSettings) -> Self {
        let view = |n| View::new(format!("{}-{n}", settings.name));
        Self {
            views: (0..settings.count.max(1)).map(view).collect(),
            wanted: None,
            held: None,
            checked: None,
            doubted: None,
            halted: None,
            lost: None,
            notices: Vec::new(),
            written: Vec::new(),
            tell_at: None,
            search: Search::default(),
            in_flight: None,
            not_before: Moment::default(),
            failing: None,
            has_searched: false,
            pace: Pace::new(settings.seed),
            settings,
        }
    }

    /// Gets and keeps a slot for this digest. Returns whether what was known is of another claim.
    pub fn claim(&mut self, now: Now, digest: Digest, intent: Intent) -> bool {
        let wanted = Wanted { digest, intent, since: now.mono };
        let before = self.wanted.filter(|before| before.digest == digest);
        if before.is_some_and(|before| before.intent == intent) {
            return false;
        }
        if before.is_none() {
            self.doubted = None;
        }
        let was_idle = self.wanted.replace(wanted).is_none();
        if self.halted.take().is_some() || was_idle {
            self.search_anew(now.mono);
            self.pace.done();
        }
        // Any slot can be kept.
        let is_new = was_idle || intent == Intent::Act;
        if is_new {
            self.checked = None;
        }
        is_new
    }

    /// Gives the slot back, or stops waiting for one.
    pub fn release(&mut self) {
        (self.wanted, self.doubted) = (None, None);
        (self.held, self.checked, self.halted, self.lost) = (None, None, None, None);
        self.search = Search::default();
        self.pace.done();
    }

    /// Tells the other replicas that this digest failed here.
    pub fn halt(&mut self, now: Now, digest: Digest, reason: &Reason) {
        let halt = Halt::new(digest, &self.settings.holder, now.wall, reason);
        if self.is_wanted(digest) {
            self.doubted = Some((digest, Some(halt.clone())));
        }
        self.notify(digest, Notice::Halt(halt));
    }

    /// Gets a slot for this digest although it failed on another replica. For the others that stays.
    pub fn try_halted(&mut self, now: Now, digest: Digest) {
        if !self.is_wanted(digest) {
            return;
        }
        self.doubted = Some((digest, None));
        if self.halted.take().is_some() {
            self.search_anew(now.mono);
        }
    }

    /// Lets all replicas use the digest of [`Slots::halt`] or [`Slots::try_halted`]: it works here after all.
    pub fn clear_halt(&mut self, digest: Digest) {
        if let Some((_, Some(halt))) = self.doubted.take_if(|(doubted, _)| *doubted == digest) {
            self.notify(digest, Notice::Clear(halt));
        }
    }

    /// The digests of [`Slots::halt`] that the other replicas can read since the last call.
    pub fn take_written(&mut self) -> Vec<Digest> {
        std::mem::take(&mut self.written)
    }

    /// Whether something is still to be written for the other replicas, and the server has carried out the last
    /// request.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        !self.notices.is_empty() && self.failing.is_none() && self.tell_at.is_none()
    }

    /// How long a request may take: short enough to renew a slot twice before it is lost.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        let (least, most) = (Duration::from_millis(500), Duration::from_secs(10));
        (self.settings.duration / 5).clamp(least, most)
    }

    /// The slot that the search reads next. Each replica begins with another one.
    fn searched(&self) -> usize {
        let first = usize::try_from(self.settings.seed % 1024).unwrap_or(0);
        (first + self.search.read) % self.views.len().max(1)
    }

    fn search_anew(&mut self, now: Moment) {
        self.search = Search { at: now, ..Search::default() };
    }

    fn notify(&mut self, digest: Digest, notice: Notice) {
        self.notices.retain(|other| other.digest() != digest);
        self.notices.push(notice);
        self.tell_at = None;
        self.notices.drain(..self.notices.len().saturating_sub(MOST_NOTICES));
    }

    fn is_wanted(&self, digest: Digest) -> bool {
        self.wanted.is_some_and(|wanted| wanted.digest == digest)
    }

    /// Whether a slot that is held may be used for what is wanted: the digests that failed are no reason against it.
    fn is_usable(&self, wanted: Wanted) -> bool {
        wanted.intent == Intent::Keep || self.checked == Some(wanted.digest)
    }

    fn slot_name(&self, slot: usize) -> String {
        self.views.get(slot).map(|view| view.name.clone()).unwrap_or_default()
    }

    /// How long a slot is looked after that may be in the own name: longer than others respect it.
    fn own_time(&self) -> Duration {
        self.settings.duration.saturating_mul(2).saturating_add(self.time_limit())
    }

    fn unreachable_at(&self) -> Option<Moment> {
        self.failing.as_ref()?.since.map(|since| since.after(self.settings.duration))
    }
}
