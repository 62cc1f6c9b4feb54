//! Checks JSON. Pure.

use serde::de::IgnoredAny;

use super::refusal::Refusal;

pub(super) fn parse_json(text: &str) -> Result<(), Refusal> {
    let parsed = serde_json::from_str::<IgnoredAny>(text);
    parsed.map(drop).map_err(|error| Refusal::Syntax((error.line(), error.column())))
}
