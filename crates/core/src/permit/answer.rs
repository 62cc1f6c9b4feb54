//! What the permit answers.

use crate::clock::Moment;
use crate::reason::Reason;

/// Whether a rule may act, as far as the other replicas are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// The rule may act.
    Go,
    /// The rule may not act before its next turn by the clock.
    Turn { at: Moment, why: Reason },
    /// The rule has to wait for a slot, for this reason if it is known.
    Wait(Option<&'a Reason>),
    /// The rule must not use the content, which failed on another replica.
    Halted(&'a Reason),
}

impl Answer<'_> {
    /// Whether the rule has no slot, or must not use the one that it has for this content.
    pub(crate) fn withholds_slot(&self) -> bool {
        matches!(self, Self::Wait(_) | Self::Halted(_))
    }
}
