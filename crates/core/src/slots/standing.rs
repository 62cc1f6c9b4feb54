//! Whether the rule may act, and why not. Pure.

use super::{Failing, Slots};
use crate::clock::Moment;
use crate::event::SlotState;
use crate::reason::Reason;

impl Slots {
    /// Whether the rule may act.
    #[must_use]
    pub fn state(&self, now: Moment) -> SlotState {
        let Some(wanted) = self.wanted else { return SlotState::Free };
        if let Some((reason, _)) = &self.halted {
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
        if let Some(failing) = self.failing.as_ref().filter(|_| is_unreachable) {
            return SlotState::Unreachable(failing.reason.clone());
        }
        if let Some(slot) = held.as_ref().and_then(SlotState::slot) {
            return SlotState::Lost(self.not_renewed(slot));
        }
        if let Some(reason) = &self.lost {
            return SlotState::Lost(reason.clone());
        }
        match &self.failing {
            Some(failing) => SlotState::Waiting(failing.reason.clone()),
            // It is being asked for the first time: that takes a moment.
            None if self.search.holders.is_empty() => SlotState::Free,
            None => {
                let holders = self.search.holders.join(", ");
                SlotState::Waiting(Reason::new(format!("waits for a slot: {holders}")))
            }
        }
    }

    fn not_renewed(&self, slot: &str) -> Reason {
        let message = format!("the slot `{slot}` could not be renewed in time");
        match &self.failing {
            Some(Failing { reason: Reason { message: why, hint }, .. }) => {
                Reason { message: format!("{message}: {why}"), hint: hint.clone() }
            }
            None => Reason::new(message),
        }
    }
}
