//! The protocol by which replicas share slots: each slot is a Lease, and to hold it is the right to act. Pure:
//! the loop sends the requests and returns the answers (`run/api/slots.rs`).
//!
//! What is never broken:
//!
//! - A slot is held from an answer that says so until four fifths of its duration after that request was
//!   *sent*, by the own monotonic clock. It is renewed at a third. So its holder stops before another replica
//!   can take it.
//! - Another replica takes it if it has seen the same version for the whole duration, by its own monotonic
//!   clock. The times in a Lease are for people: no clocks are compared. After an outage of the API server, in which
//!   the holder could not renew it either, that time begins anew; an answer, of whatever kind, is no outage.
//! - A write that changes the holder goes through only if the object is unchanged since it was seen
//!   (`resourceVersion`), but for those that have lined up (`lease_request.rs`).
//! - A Lease that does not exist is created as one that nobody holds and that is not free (`lease::NOBODY`): whoever
//!   held it when it was deleted has the time to find that out.
//! - A digest that failed is written to the first Lease (`slots/halt.rs`) before the slot is given back, and read
//!   after a slot was taken to act, and again after it has expired; a slot that is only kept does not depend on it.
//!
//! What makes it cheap:
//!
//! - A replica that waits watches the one Lease that its name hashes to, its *home* (`watching.rs`). It asks for another
//!   one ever more rarely (`place.rs`).
//! - Some of those that wait at a Lease are in its *line*: an annotation of the Lease for each. The holder passes the slot
//!   on to the first in the request by which it would give it back. The one that is passed a slot holds it from when its
//!   own request to line up was sent, because the token of that request shows that it is later.
//! - So a rollout needs four requests: to watch, to line up, to read what failed, and to pass the slot on. That stays so
//!   if the server is slow: whoever lines up writes over nothing, and while some are in the line, no slot waits for the
//!   next one.
//!
//! At most one request is under way beside the watch.
//!
//! It is a machine like the core: the commands of the core come in ([`Slots::claim`], [`Slots::release`],
//! [`Slots::halt`], [`Slots::try_halted`], [`Slots::clear_halt`]), requests go out ([`Slots::next_request`],
//! [`Slots::watched`]), answers come back ([`Slots::handle`], [`Slots::watch_seen`]), and what is known then is
//! [`Slots::state`]. `crates/core/tests/slots.rs` plays it against lost, late, refused and wrongly answered requests.

mod answers;
mod contact;
mod crowd;
mod halt;
mod halting;
mod in_flight;
mod lease;
mod lease_request;
mod line;
mod notice;
mod observed;
mod offering;
mod place;
mod requests;
mod standing;
mod view;
mod waiter;
mod watching;
mod window;

use std::time::Duration;

use crate::clock::{Moment, Now};
use crate::command::Intent;
use crate::reason::Reason;
use crate::snapshot::Digest;
use contact::Contact;
pub use halt::Halt;
use halting::Halting;
use in_flight::InFlight;
pub use lease::Lease;
pub use lease_request::{LeaseRequest, Pass};
use notice::Notice;
use offering::Offering;
use place::Place;
pub use view::LONGEST_LEASE;
use view::View;
pub use waiter::Waiter;
use watching::Watching;

/// The replicas that start together do not look for their Leases together.
const PREPARATION: Duration = Duration::from_secs(3);

/// What one rule's slots are.
#[derive(Debug, Clone)]
pub struct SlotsSettings {
    /// The name of the Leases, without the number of the slot.
    pub name: String,
    /// How many there are.
    pub count: u32,
    /// How long a slot stays taken without being renewed.
    pub duration: Duration,
    /// How long it stays taken while an action may have interrupted the application: at least `duration`.
    pub cover: Duration,
    /// Who holds it: unique among all rules of all pods, and the same after a restart.
    pub holder: String,
    /// For the waits: it differs between replicas.
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
    /// Why the slot is not held any more, although it is still wanted.
    lost: Option<Reason>,
    place: Place,
    watching: Watching,
    offering: Offering,
    halting: Halting,
    contact: Contact,
    in_flight: Option<InFlight>,
    /// When to look whether the Lease exists, before there is a use for it.
    prepare_at: Option<Moment>,
}

/// What the rule has asked for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    digest: Digest,
    intent: Intent,
    since: Moment,
}

/// A slot that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    slot: usize,
    /// What was asked for before says nothing of the failures of whoever had it before.
    got: Moment,
    renew_at: Moment,
    /// From then on, another replica may take it soon.
    until: Moment,
}

impl Slots {
    /// Nothing is claimed. The first request, soon, finds out whether there is a Lease.
    #[must_use]
    pub fn new(settings: SlotsSettings, now: Moment) -> Self {
        let view = |n| View::new(format!("{}-{n}", settings.name));
        let views: Vec<View> = (0..settings.count.max(1)).map(view).collect();
        let mut place = Place::new(&settings.holder, settings.seed, views.len());
        let prepare_at = Some(now.after(place.wait_below(PREPARATION)));
        Self {
            views,
            wanted: None,
            held: None,
            lost: None,
            place,
            watching: Watching::new(settings.seed),
            offering: Offering::default(),
            halting: Halting::default(),
            contact: Contact::new(settings.seed),
            in_flight: None,
            prepare_at,
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
            self.halting.forget_doubt();
        }
        self.offering.end();
        let was_idle = self.wanted.replace(wanted).is_none();
        if self.halting.end_halt() || was_idle {
            self.wait_anew(now.mono);
            self.contact.done();
        }
        // Any slot can be kept.
        let is_new = was_idle || intent == Intent::Act;
        if is_new {
            self.halting.forget_check();
        }
        is_new
    }

    /// Gives the slot back, or stops waiting for one.
    pub fn release(&mut self) {
        self.offering.end();
        if self.held.is_some() && self.place.has_waited() && self.views.len() > 1 {
            self.offering.begin(self.place.crowded());
        }
        (self.wanted, self.held, self.lost) = (None, None, None);
        self.halting.forget_claim();
        self.contact.done();
    }

    /// Tells the other replicas that this digest failed here.
    pub fn halt(&mut self, now: Now, digest: Digest, reason: &Reason) {
        let halt = Halt::new(digest, &self.settings.holder, now.wall, reason);
        if self.is_wanted(digest) {
            self.halting.doubt(digest, Some(halt.clone()));
        }
        self.halting.notify(Notice::Halt(halt));
    }

    /// Gets a slot for this digest although it failed on another replica. For the others that stays.
    pub fn try_halted(&mut self, now: Now, digest: Digest) {
        if !self.is_wanted(digest) {
            return;
        }
        self.halting.doubt(digest, None);
        if self.halting.end_halt() {
            self.wait_anew(now.mono);
        }
    }

    /// Lets all replicas use the digest of [`Slots::halt`] or [`Slots::try_halted`]: it works here after all.
    pub fn clear_halt(&mut self, digest: Digest) {
        self.halting.clear(digest);
    }

    /// The digests of [`Slots::halt`] that the other replicas can read since the last call.
    pub fn take_written(&mut self) -> Vec<Digest> {
        self.halting.take_written()
    }

    /// Whether something is still to be written for the other replicas, and the server may carry it out.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        self.halting.is_telling() && !self.contact.is_cut_off()
    }

    /// How long a request may take: short enough to renew a slot twice before it is lost.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        let (least, most) = (Duration::from_millis(500), Duration::from_secs(10));
        (self.settings.duration / 5).clamp(least, most)
    }

    fn wait_anew(&mut self, now: Moment) {
        self.prepare_at = None;
        // Whoever has the slot meanwhile may fail.
        self.halting.forget_check();
        self.place.begin(now, self.watching.slot());
    }

    fn is_wanted(&self, digest: Digest) -> bool {
        self.wanted.is_some_and(|wanted| wanted.digest == digest)
    }

    /// Whether it waits for a slot.
    fn is_waiting(&self) -> bool {
        self.wanted.is_some() && self.held.is_none() && !self.halting.is_halted()
    }

    /// Whether this replica need not wait in that line any more.
    fn leaves_line(&self, slot: usize) -> bool {
        !self.is_waiting() || slot != self.place.home()
    }

    /// Whether a slot that is held may be used for what is wanted: the digests that failed are no reason against it.
    fn is_usable(&self, wanted: Wanted) -> bool {
        wanted.intent == Intent::Keep || self.halting.is_checked(wanted.digest)
    }

    fn slot_name(&self, slot: usize) -> String {
        self.views.get(slot).map(|view| view.name.clone()).unwrap_or_default()
    }

    /// Holds this slot, by a request that was sent then, and that keeps it taken for so long at least. It was got at `got`.
    fn hold(&mut self, now: Moment, slot: usize, (sent, time): (Moment, Duration), got: Moment) {
        if self.held.is_some_and(|before| now >= before.until) {
            // Since then it was not the right to act, and other replicas may have failed meanwhile.
            self.halting.forget_check();
        }
        let until = sent.after(time / 5 * 4);
        self.held = Some(Held { slot, got, renew_at: sent.after(time / 3), until });
        if now < until {
            self.lost = None;
        }
        self.place.got_slot();
        self.contact.done();
    }

    fn lose(&mut self, now: Moment, why: String) {
        self.held = None;
        self.lost = Some(Reason::new(why));
        self.wait_anew(now);
    }

    /// How long a slot is looked after that may be in the own name: longer than others respect it.
    fn own_time(&self) -> Duration {
        self.settings.cover.saturating_mul(2).saturating_add(self.time_limit())
    }

    fn unreachable_at(&self) -> Option<Moment> {
        self.contact.unreachable_at(self.settings.duration)
    }
}
