//! A replica's part in sharing the slots: the real protocol, which sends to the model of the API server.

use super::random::Random;
use super::scenario::Slots as Scenario;
use super::server::{Call, LEASES, Server, Told};
use podnudge_core::clock::{Moment, Now};
use podnudge_core::command::Intent;
use podnudge_core::event::SlotState;
use podnudge_core::slots::{Slots, SlotsSettings};
use podnudge_core::snapshot::Digest;

/// The slots, as one replica knows them.
#[derive(Debug)]
pub(super) struct SharedSlots {
    replica: usize,
    slots: Slots,
    /// What the core knows.
    known: SlotState,
    /// The number of the watch, and of what.
    watch: (u32, Option<String>),
}

impl SharedSlots {
    pub(super) fn new(slots: Scenario, number: u32, random: &mut Random, now: Moment) -> Self {
        let Scenario { count, duration, cover } = slots;
        let holder = format!("web-{:016x}x_{number}_rule", random.bits());
        let name = LEASES.to_owned();
        let seed = random.bits();
        let settings = SlotsSettings { name, count, duration, cover, holder, seed };
        Self {
            replica: usize::try_from(number).unwrap_or(usize::MAX),
            slots: Slots::new(settings, now),
            known: SlotState::Free,
            watch: (0, None),
        }
    }

    pub(super) fn next(&self, now: Moment) -> Option<Moment> {
        self.slots.next_wakeup(now)
    }

    pub(super) fn claim(&mut self, now: Now, digest: Digest, intent: Intent) {
        if self.slots.claim(now, digest, intent) {
            self.known = SlotState::Free;
        }
    }

    pub(super) fn release(&mut self) {
        self.slots.release();
    }

    pub(super) fn told(&mut self, now: Now, told: &Told) {
        let (number, _) = self.watch;
        match told {
            Told::Answer(answer) => self.slots.handle(now, Result::clone(answer)),
            Told::Opened(of) if *of == number => self.slots.watch_opened(now.mono),
            Told::Seen(of, lease) if *of == number => self.slots.watch_seen(now.mono, Some(lease)),
            Told::Ended(of) if *of == number => {
                self.watch = (number + 1, None);
                self.slots.watch_ended(now.mono, &Ok(()));
            }
            Told::Opened(_) | Told::Seen(..) | Told::Ended(_) => {}
        }
    }

    /// The state, if it is another one than the last.
    pub(super) fn change(&mut self, now: Now) -> Option<SlotState> {
        let state = self.slots.state(now.mono);
        let is_new = self.known != state;
        self.known.clone_from(&state);
        is_new.then_some(state)
    }

    /// Sends what is due.
    pub(super) fn send(&mut self, now: Now, server: &mut Server) {
        self.watch(now, server);
        while let Some(request) = self.slots.next_request(now) {
            server.send(now.mono, self.replica, Call::Request(Box::new(request)));
        }
    }

    fn watch(&mut self, now: Now, server: &mut Server) {
        let (number, before) = &mut self.watch;
        let wanted = self.slots.watched(now.mono);
        if let Some((name, false)) = wanted
            && before.as_deref() == Some(name)
        {
            return;
        }
        if let Some(before) = before.take() {
            server.send(now.mono, self.replica, Call::EndWatch(before, *number));
            *number += 1;
        }
        if let Some((name, _)) = wanted {
            *before = Some(name.to_owned());
            server.send(now.mono, self.replica, Call::Watch(name.to_owned(), *number));
        }
    }
}
