//! Where a replica waits for a slot, and when it does something about it. Pure.
//!
//! It waits at one Lease, its home. Of those that wait there, some line up in it, or one takes the slot if nobody has
//! it: whoever has the shortest random wait (`window.rs`), and the others see it in time.
//!
//! Leases have different numbers of replicas that wait. So a replica that is in no line reads another Lease, chosen at
//! random, ever more rarely: it takes that slot if it is free, and moves there if there is room in the line, and none at the home.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::crowd::{self, Crowd};
use super::halt::pod_of;
use super::in_flight::Purpose;
use super::lease::Lease;
use super::line::Line;
use super::view::{Standing, View};
use super::waiter::Waiter;
use super::window::Window;
use crate::backoff::doubled;
use crate::clock::Moment;
use crate::jitter::ordinal_of;

/// The longest time until the first read at the home, where few wait.
const FIRST_READ: Duration = Duration::from_millis(500);
/// How long a replica waits before it reads another Lease. Each further wait is longer by the factor.
const READ_ELSEWHERE: Duration = Duration::from_secs(2);
const READ_FACTOR: (u32, u32) = (5, 2);
const LONGEST_READ: Duration = Duration::from_hours(1);
/// The waits before this replica lines up again after somebody has removed it from the line, doubled each time.
const REMOVED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// How long the watch may take to tell the state of its Lease.
const SILENCE: Duration = Duration::from_secs(1);

/// The Lease at which a replica waits for a slot, and what it does there.
#[derive(Debug)]
pub(super) struct Place {
    /// The slot that the name of this replica chooses.
    first: usize,
    count: usize,
    home: usize,
    /// Where it waited before it moved: others may still wait there.
    came_from: Option<usize>,
    window: Window,
    /// When this wait for a slot begins with a first read.
    begins: Moment,
    /// Whether the home was seen since.
    has_seen: bool,
    /// When to read the Lease of the home, unless the watch tells before what a write has missed.
    check_at: Option<Moment>,
    crowd: Crowd,
    /// The request to line up.
    line: Option<Line>,
    /// Whether the server keeps who waits.
    is_line_kept: bool,
    /// How often somebody has removed this replica from the line, in this wait.
    removals: u32,
    /// A slot elsewhere that was free.
    chosen: Option<usize>,
    /// Whether another replica had the slot.
    has_waited: bool,
    next_read: Option<NextRead>,
    read_wait: Duration,
}

/// Which Lease is read next, and when.
#[derive(Debug, Clone, Copy)]
struct NextRead {
    at: Moment,
    slot: usize,
}

/// What the place is told of the home.
pub(super) struct Home<'a> {
    /// Since when the watch tells what happens there, or begins to; `None` if it does not.
    pub(super) watched_since: Option<Moment>,
    /// From when on it has told nothing for too long.
    pub(super) silent_at: Moment,
    pub(super) view: &'a View,
    pub(super) standing: Option<Standing>,
    pub(super) holder: &'a str,
}

impl Place {
    pub(super) fn new(holder: &str, seed: u64, count: usize) -> Self {
        let hash = Sha256::digest(holder.as_bytes());
        let number =
            hash.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        let slots = u64::try_from(count.max(1)).unwrap_or(u64::MAX);
        // Those of a StatefulSet are spread evenly.
        let ordinal = ordinal_of(pod_of(holder)).map(u64::from);
        let first = usize::try_from(ordinal.unwrap_or(number) % slots).unwrap_or(0);
        Self {
            first,
            count: count.max(1),
            home: first,
            came_from: None,
            window: Window::new(seed ^ number),
            begins: Moment::default(),
            has_seen: false,
            check_at: None,
            crowd: Crowd::new(count),
            line: None,
            is_line_kept: true,
            removals: 0,
            chosen: None,
            has_waited: false,
            next_read: None,
            read_wait: READ_ELSEWHERE,
        }
    }

    /// A wait for a slot begins, whatever was refused before. Without a watch that tells already how it stands at
    /// `watched`, the first read comes after a random time: many replicas may want a slot at the same moment.
    pub(super) fn begin(&mut self, now: Moment, watched: Option<usize>) {
        (self.chosen, self.has_waited, self.removals, self.is_line_kept) = (None, false, 0, true);
        self.window.begin();
        // As long as it may be in a line somewhere, it waits there.
        if self.line.is_none() {
            self.move_to(self.first);
            self.came_from = None;
        }
        self.has_seen = watched == Some(self.home);
        let first = if self.has_seen {
            Duration::ZERO
        } else {
            self.window.below(crowd::first_reads(self.count).max(FIRST_READ))
        };
        self.begins = now.after(first);
        self.read_wait = READ_ELSEWHERE;
        self.next_read = self.read_elsewhere(now);
    }

    /// A slot was got.
    pub(super) fn got_slot(&mut self) {
        self.chosen = None;
    }

    /// When the first read is due.
    pub(super) fn begins(&self) -> Moment {
        self.begins
    }

    /// The slot at whose Lease it waits.
    pub(super) fn home(&self) -> usize {
        self.home
    }

    /// A random time below this one.
    pub(super) fn wait_below(&mut self, time: Duration) -> Duration {
        self.window.below(time)
    }

    fn move_to(&mut self, slot: usize) {
        if self.home != slot {
            self.came_from = Some(self.home);
            (self.home, self.check_at) = (slot, None);
            self.crowd.forget_line();
        }
        self.window.draw();
    }
}

/// How the replica becomes the next at its home, and moves to a slot that it is offered.
impl Place {
    /// What to write to wait at the home, by a request that is sent now.
    pub(super) fn line_up(&mut self, now: Moment, holder: &str, home: Option<&Lease>) -> Waiter {
        let number = u32::try_from(self.window.bits() >> 32).unwrap_or_default();
        let token = home.map(|lease| lease.last_token(number)).unwrap_or_default();
        let next = Waiter { holder: holder.to_owned(), token, offered: None };
        self.line = Some(Line::new(now, self.home, next.clone()));
        next
    }

    /// Waits in this line by an old request: a slot that is passed on by that is renewed before it is held.
    pub(super) fn adopt(&mut self, slot: usize, entry: Waiter) {
        self.line = Some(Line::new(Moment::default(), slot, entry));
    }

    /// The slot in whose line this replica may be.
    pub(super) fn line(&self) -> Option<usize> {
        self.line.as_ref().map(Line::slot)
    }

    /// When the request was sent by which this replica is, or was, next, if the Lease says so.
    pub(super) fn lined_up_at(&self, slot: usize, lease: &Lease) -> Option<Moment> {
        self.line.as_ref()?.sent_at(slot, lease)
    }

    /// Moves to the slot that this replica is offered, if the Lease says so.
    pub(super) fn accept(&mut self, now: Moment, lease: &Lease) -> bool {
        let count = self.count;
        let Some(slot) = self.line.as_mut().and_then(|line| line.accept(now, lease, count)) else {
            return false;
        };
        self.move_to(slot);
        true
    }

    /// By when the slot that it is offered has been passed on.
    pub(super) fn arrives_by(&self) -> Option<Moment> {
        self.line.as_ref()?.arrives_by()
    }

    /// The slots at which others may wait, the most likely first.
    pub(super) fn crowded(&mut self) -> Vec<usize> {
        let (start, home) = (self.other(), self.home);
        let others = (0..self.count).map(|n| (start + n) % self.count);
        let came_from = self.came_from;
        let others = others.filter(|slot| *slot != home && Some(*slot) != came_from);
        came_from.into_iter().chain(others).collect()
    }

    /// Whether this replica had to wait.
    pub(super) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Records that this replica is not next any more.
    pub(super) fn left_line(&mut self) {
        self.line = None;
    }

    /// Whether the server keeps who waits, as far as is known.
    pub(super) fn is_line_kept(&self) -> bool {
        self.is_line_kept
    }

    /// Lines up no more: the server does not let this replica do that, or does not keep it.
    pub(super) fn stop_lining_up(&mut self) {
        (self.line, self.is_line_kept) = (None, false);
    }
}

/// What is seen.
impl Place {
    /// The Lease of the home was seen to have changed so.
    pub(super) fn saw(&mut self, now: Moment, before: Option<&Lease>, after: &Lease) {
        self.has_waited |= after.holder().is_some();
        self.check_at = None;
        let is_first = !std::mem::replace(&mut self.has_seen, true);
        let is_same_holder = before.is_some_and(|before| before.holder() == after.holder());
        let was_in =
            |line: &Line| before.is_some_and(|before| line.is_in(before)) && !line.is_in(after);
        if is_same_holder && self.line.as_ref().is_some_and(was_in) {
            self.removals = self.removals.saturating_add(1);
            self.crowd.forget_line();
        }
        if is_first && after.holder().is_none() {
            // The first read came after a random time already.
            self.window.skip();
        } else if before.is_some() && after.holder().is_none() && !is_same_holder {
            self.window.draw_among_few();
        } else if !is_same_holder {
            self.window.draw();
        }
        self.crowd.saw(now, after.waiting().count(), &mut self.window);
    }

    /// There is no Lease of the home.
    pub(super) fn found_missing(&mut self) {
        (self.has_seen, self.check_at) = (true, None);
    }

    /// A write shows that the Lease of the home has changed. The watch tells how, if it works.
    pub(super) fn home_changed(&mut self, now: Moment) {
        self.check_at = Some(now.after(SILENCE));
    }

    /// Another replica wrote at the same time.
    pub(super) fn collided(&mut self) {
        self.window.collided();
        self.chosen = None;
    }

    /// Another Lease than the home's was read: it may be free, or have room in its line.
    pub(super) fn seen_elsewhere(
        &mut self,
        slot: usize,
        standing: Option<&Standing>,
        has_room: bool,
        may_move: bool,
    ) {
        match standing {
            // One that is missing is created.
            Some(Standing::Free(_) | Standing::Missing(_)) => self.chosen = Some(slot),
            Some(Standing::Busy(..)) if has_room && may_move && self.may_move() => {
                self.move_to(slot);
            }
            _ => {}
        }
    }

    /// Somebody has the slot.
    pub(super) fn slot_taken(&mut self, slot: usize) {
        self.chosen.take_if(|chosen| *chosen == slot);
    }

    /// Whether it may wait elsewhere: who is in a line, or about to be passed on a slot, stays.
    fn may_move(&self) -> bool {
        self.is_line_kept && self.line.is_none()
    }

    /// Plans the next read of a Lease. Without a watch, both the home and another Lease are read after `wait`.
    pub(super) fn seen(&mut self, now: Moment, slot: usize, is_watched: bool, wait: Duration) {
        self.check_at.take_if(|_| slot == self.home);
        self.next_read = if is_watched {
            let longer = self.read_wait * READ_FACTOR.0 / READ_FACTOR.1;
            self.read_wait = longer.min(LONGEST_READ);
            self.read_elsewhere(now)
        } else if slot == self.home && self.count > 1 {
            Some(NextRead { at: now, slot: self.other() })
        } else {
            Some(NextRead { at: now.after(wait), slot: self.home })
        };
    }

    /// The watch of the home has begun.
    pub(super) fn watch_opened(&mut self, now: Moment) {
        self.next_read = self.read_elsewhere(now);
    }

    /// The watch of the home has ended. The watches of all replicas may have: a busy server ends those that it cannot serve
    /// in time. Who is in the line may be passed the slot at any moment; for the others, the next watch may tell first how
    /// the home stands, if the server has ended this one in good order.
    pub(super) fn watch_ended(&mut self, now: Moment, in_order: bool) {
        let is_urgent = self.line.is_some();
        let least = if in_order && !is_urgent { SILENCE * 2 } else { Duration::ZERO };
        let wait = least + self.window.below(if is_urgent { SILENCE / 2 } else { SILENCE });
        self.next_read = Some(NextRead { at: now.after(wait), slot: self.home });
    }

    /// The server refuses a request about this slot: a Role may name fewer of them than there are.
    pub(super) fn slot_refused(&mut self, slot: usize) {
        self.slot_taken(slot);
        if slot == self.home && self.count > 1 && self.line.is_none() {
            let other = self.other();
            self.move_to(other);
        }
    }

    fn read_elsewhere(&mut self, now: Moment) -> Option<NextRead> {
        if self.count < 2 {
            return None;
        }
        let wait = self.read_wait / 2 + self.window.below(self.read_wait);
        Some(NextRead { at: now.after(wait), slot: self.other() })
    }

    /// Another slot than the home's.
    fn other(&mut self) -> usize {
        let others = u64::try_from(self.count - 1).unwrap_or(1).max(1);
        let step = usize::try_from(self.window.bits() % others).unwrap_or(0);
        (self.home + 1 + step) % self.count
    }
}

/// What to do next.
impl Place {
    /// The next step of a replica that waits, and when it is due.
    pub(super) fn next(&self, now: Moment, it: &Home<'_>) -> Option<(Moment, Purpose)> {
        let home = self.home;
        if let Some(slot) = self.chosen {
            return Some((now, Purpose::Take(slot)));
        }
        if let Some(at) = self.check_at {
            return Some((at, Purpose::Read(home)));
        }
        let is_in_line = it.view.is_in_line(it.holder);
        let wait = if it.view.is_first(it.holder) { Duration::ZERO } else { self.window.wait() };
        let after_wait = |since: Moment| since.max(self.begins).after(wait);
        let read = self.next_read.map(|read| (read.at, Purpose::Read(read.slot)));
        match it.standing.as_ref().filter(|_| self.has_seen) {
            // The watch tells its state first, if there is one.
            None => Some(match it.watched_since {
                Some(since) => (since.after(SILENCE), Purpose::Read(home)),
                None => (self.begins.max(now), Purpose::Read(home)),
            }),
            Some(Standing::Own) => Some((now, Purpose::Take(home))),
            Some(Standing::Missing(since)) => Some((after_wait(*since), Purpose::Make(home))),
            Some(Standing::Free(since)) => Some((after_wait(*since), Purpose::Take(home))),
            Some(Standing::Busy(_, until)) => {
                let is_watched = it.watched_since.is_some();
                let line_up_at = self.crowd.line_up_at(self.begins);
                let line_up_at = line_up_at.filter(|_| !is_in_line && it.view.has_room());
                let line_up_at = line_up_at.filter(|_| self.is_line_kept && is_watched);
                let pause = self.removals.checked_sub(1);
                let pause = pause.map(|times| doubled(REMOVED.0, times, REMOVED.1));
                let pause = pause.unwrap_or_default();
                let line = line_up_at.map(|at| (at.after(pause), Purpose::LineUp(home)));
                let expiry = Some((until.after(wait), Purpose::Take(home)));
                // It may have been passed on.
                let check =
                    (is_in_line && is_watched).then_some((it.silent_at, Purpose::Read(home)));
                [line, read, check, expiry].into_iter().flatten().min_by_key(|(at, _)| *at)
            }
        }
    }
}
