//! `syntax = "json"`, `"yaml"` and `"toml"`: checks that a key can be parsed. Messages
//! contain the position of an error, and never the text there.

use super::json::parse_json;
use super::refusal::{Place, Refusal};
use super::toml as events_of_toml;
use super::yaml as events_of_yaml;
use crate::core::event::Checked;
use crate::reason::Reason;
use crate::volume::snapshot::Key;

/// # Errors
/// If the content is not JSON.
pub(super) fn json(key: &Key, content: &[u8]) -> Result<(), Checked> {
    parse_text("JSON", parse_json, key, content)
}

/// # Errors
/// If the content is not YAML.
pub(super) fn yaml(key: &Key, content: &[u8]) -> Result<(), Checked> {
    parse_text("YAML", events_of_yaml::parse, key, content)
}

/// # Errors
/// If the content is not TOML.
pub(super) fn toml(key: &Key, content: &[u8]) -> Result<(), Checked> {
    parse_text("TOML", parse_toml, key, content)
}

fn parse_text(
    syntax: &str,
    parse: fn(&str) -> Result<(), Refusal>,
    key: &Key,
    content: &[u8],
) -> Result<(), Checked> {
    let refused = |what: &str, (line, column): Place| {
        let message = format!("`{key}` is not {what}: see line {line}, column {column}");
        Checked::Rejected(Reason::new(message))
    };
    let text = std::str::from_utf8(content)
        .map_err(|error| refused("UTF-8 text", place(content, error.valid_up_to())))?;
    parse(text).map_err(|refusal| match refusal {
        Refusal::Syntax(place) => refused(syntax, place),
        Refusal::TooLarge(what) => {
            let hint = "podnudge checks no more than that: check it by a program (`exec`)";
            Checked::Rejected(Reason::new(format!("`{key}` has {what}")).hint(hint))
        }
        Refusal::Failed(reason) => Checked::Failed(reason),
    })
}

fn parse_toml(text: &str) -> Result<(), Refusal> {
    events_of_toml::parse(text).map_err(|refusal| match refusal {
        events_of_toml::Refusal::Syntax(at) => Refusal::Syntax(place(text.as_bytes(), at)),
        events_of_toml::Refusal::TooLarge => Refusal::TooLarge(format!(
            "more than {} keys, or one value of more than {} parts",
            events_of_toml::MAX_KEYS,
            events_of_toml::MAX_TOKENS
        )),
    })
}

/// The position of a byte; the column counts characters.
fn place(content: &[u8], offset: usize) -> Place {
    let before = content.get(..offset).unwrap_or(content);
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    (lines.count(), String::from_utf8_lossy(last).chars().count() + 1)
}
