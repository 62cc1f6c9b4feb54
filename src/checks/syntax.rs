//! `syntax = "json"`, `"yaml"` and `"toml"`: checks that a key can be parsed. Pure. Messages
//! contain the position of an error, and never the text there.

use serde::de::IgnoredAny;

use crate::reason::Reason;
use crate::volume::snapshot::Key;

/// Line and column, both starting at 1.
type Place = (usize, usize);

/// # Errors
/// If the content is not JSON.
pub(super) fn json(key: &Key, content: &[u8]) -> Result<(), Reason> {
    parse_text("JSON", parse_json, key, content)
}

/// # Errors
/// If the content is not YAML.
pub(super) fn yaml(key: &Key, content: &[u8]) -> Result<(), Reason> {
    parse_text("YAML", parse_yaml, key, content)
}

/// # Errors
/// If the content is not TOML.
pub(super) fn toml(key: &Key, content: &[u8]) -> Result<(), Reason> {
    parse_text("TOML", parse_toml, key, content)
}

fn parse_text(
    syntax: &str,
    parse: fn(&str) -> Result<(), Place>,
    key: &Key,
    content: &[u8],
) -> Result<(), Reason> {
    let refused = |what: &str, (line, column): Place| {
        Reason::new(format!("`{key}` is not {what}: see line {line}, column {column}"))
    };
    let text = std::str::from_utf8(content)
        .map_err(|error| refused("UTF-8 text", place(content, error.valid_up_to())))?;
    parse(text).map_err(|place| refused(syntax, place))
}

fn parse_json(text: &str) -> Result<(), Place> {
    let parsed = serde_json::from_str::<IgnoredAny>(text);
    parsed.map(drop).map_err(|error| (error.line(), error.column()))
}

fn parse_toml(text: &str) -> Result<(), Place> {
    toml::from_str::<IgnoredAny>(text)
        .map(drop)
        .map_err(|error| place(text.as_bytes(), error.span().map_or(0, |span| span.start)))
}

fn parse_yaml(text: &str) -> Result<(), Place> {
    let mut parser = saphyr_parser::Parser::new_from_str(text);
    parser.try_for_each(|event| event.map(drop)).map_err(|error| {
        let marker = error.marker();
        (marker.line(), marker.col() + 1)
    })
}

/// The position of a byte; the column counts characters.
fn place(content: &[u8], offset: usize) -> Place {
    let before = content.get(..offset).unwrap_or(content);
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    (lines.count(), String::from_utf8_lossy(last).chars().count() + 1)
}
