//! What the core tells people: each fact becomes one log line.

/// Something that happened to a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {}
