//! Why a check of the syntax refuses a text.

use crate::reason::Reason;

/// Line and column, both starting at 1.
pub(super) type Place = (usize, usize);

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Syntax(Place),
    /// It takes more memory than podnudge gives to a check.
    TooLarge(String),
    /// It cannot be checked now.
    Failed(Reason),
}
