//! What a rule has to know of the other rules.
//!
//! Rules that may act on the same process (by the targets' names in their policies and, once both were found, by the
//! names of the processes) act one after the other. The gate of one is closed while the other publishes, acts or
//! verifies, and for content that only changed, while the other's published content is unproven. If the process ends,
//! only the rule whose content reached it last is at fault (`Core::verified`); the other one verifies the next process. Ends that no rollout waits for (`application/crashes.rs`) count for each.

use super::intake::OtherChecks;
use crate::reason::Reason;

/// The state of other rules that affects this one.
#[derive(Debug, Clone, Default)]
pub(super) struct Neighbours {
    /// Set while another rule acts on, or verifies, a target that may be the same; or while podnudge is to end
    /// for another rule.
    pub(super) busy: Option<Reason>,
    /// Set while any other rule is in the middle of an action: podnudge does not end then.
    pub(super) acts: Option<Reason>,
    /// Set while another rule's published content for a target that may be the same is unproven. If
    /// a process read that and other new content and ended, the cause would be ambiguous.
    pub(super) unproven: Option<Reason>,
    /// Whether another rule has delivered newer content to a target that may be the same.
    pub(super) newer: bool,
    /// The checks of all other rules.
    pub(super) checks: OtherChecks,
}
