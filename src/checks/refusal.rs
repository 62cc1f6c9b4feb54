//! Why a check of the syntax refuses a text.

use podnudge_core::reason::Reason;

/// Line and column, both starting at 1.
pub(super) type Place = (usize, usize);

/// Parses a text.
pub(super) type Parse = fn(&str) -> Result<(), Refusal>;

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Syntax(Place),
    /// The text takes more memory than podnudge gives to a check.
    TooLarge(String),
    /// The text cannot be checked now.
    Failed(Reason),
}

/// The position of a byte; the column counts characters.
pub(super) fn place(content: &[u8], offset: usize) -> Place {
    let before = content.get(..offset).unwrap_or(content);
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    (lines.count(), String::from_utf8_lossy(last).chars().count() + 1)
}
