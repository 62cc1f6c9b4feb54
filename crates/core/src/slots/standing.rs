//! Whether the rule may act, and why not. Pure.

use super::Slots;
use super::view::Standing;
use crate::clock::Moment;
use crate::event::SlotState;
use crate::reason::Reason;

impl Slots {
    /// Whether the rule may act.
    #[must_use]
    pub fn state(&self, now: Moment) -> SlotState {
        let Some(wanted) = self.wanted else { return SlotState::Free };
        if let Some((reason, _)) = self.halting.halted() {
            return SlotState::Halted(wanted.digest, reason.clone());
        }
        let held = self.held.filter(|_| self.is_usable(wanted)).map(|held| {
            let slot = self.slot_name(held.slot);
            SlotState::Held { slot, until: held.until }
        });
        if let Some(held) = held.as_ref().filter(|held| held.is_held(now)) {
            return held.clone();
        }
        // Also of a slot that was lost: who may take it is not known.
        let is_unreachable = self.unreachable_at().is_some_and(|at| now >= at);
        if let Some(reason) = self.contact.reason().filter(|_| is_unreachable) {
            return SlotState::Unreachable(reason.clone());
        }
        if let Some(slot) = held.as_ref().and_then(SlotState::slot) {
            return SlotState::Lost(self.not_renewed(slot));
        }
        if let Some(reason) = &self.lost {
            return SlotState::Lost(reason.clone());
        }
        if let Some(reason) = self.contact.reason() {
            return SlotState::Waiting(reason.clone());
        }
        let view = self.views.get(self.place.home());
        let standing =
            view.and_then(|view| view.standing(now, &self.settings.holder, self.settings.duration));
        match standing {
            Some(Standing::Busy(who, _)) => {
                SlotState::Waiting(Reason::new(format!("waits for a slot: {who}")))
            }
            // It is being asked for: that takes a moment.
            _ => SlotState::Free,
        }
    }

    fn not_renewed(&self, slot: &str) -> Reason {
        let message = format!("the slot `{slot}` could not be renewed in time");
        match self.contact.reason() {
            Some(Reason { message: why, hint }) => {
                Reason { message: format!("{message}: {why}"), hint: hint.clone() }
            }
            None => Reason::new(message),
        }
    }
}
