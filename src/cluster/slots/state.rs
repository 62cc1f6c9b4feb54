//! Whether the rule may act, and why not. Pure.

use super::{Failing, Slots};
use crate::clock::Moment;
use crate::core::event::SlotState;
use crate::reason::Reason;

impl Slots {
    /// Whether the rule may act.
    #[must_use]
    pub fn state(&self, now: Moment) -> SlotState {
        let Some((digest, _)) = self.wanted else { return SlotState::Free };
        if let Some((reason, _)) = &self.halted {
            return SlotState::Halted(digest, reason.clone());
        }
        if let Some(held) = self.held.filter(|_| self.checked == Some(digest)) {
            let slot = self.slot_name(held.slot);
            let lost = self.not_renewed(&slot);
            let state = SlotState::Held { slot, until: held.until };
            return if state.is_held(now) { state } else { SlotState::Lost(lost) };
        }
        if let Some(reason) = &self.lost {
            return SlotState::Lost(reason.clone());
        }
        match &self.failing {
            Some(failing) if self.unreachable_at().is_some_and(|at| now >= at) => {
                SlotState::Unreachable(failing.reason.clone())
            }
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
