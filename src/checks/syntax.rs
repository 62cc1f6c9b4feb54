//! `syntax = "json"`, `"yaml"` and `"toml"`: checks that a key can be parsed. Pure. Messages
//! contain the position of an error, and never the text there.

use std::cell::Cell;

use saphyr_parser::Event;
use serde::de::IgnoredAny;

use super::toml as events_of_toml;
use crate::reason::Reason;
use crate::volume::snapshot::Key;

/// The most characters of a YAML list or map in brackets, unless it is JSON: its parser holds all of
/// one, up to 200 bytes for each character.
const MAX_YAML_FLOW: usize = 40 * 1024;
/// The deepest nesting of YAML.
const MAX_YAML_DEPTH: usize = 256;

/// Line and column, both starting at 1.
type Place = (usize, usize);

/// Why a text is refused.
enum Refusal {
    Syntax(Place),
    /// It takes more memory than podnudge gives to a check.
    TooLarge(String),
}

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
    parse: fn(&str) -> Result<(), Refusal>,
    key: &Key,
    content: &[u8],
) -> Result<(), Reason> {
    let refused = |what: &str, (line, column): Place| {
        Reason::new(format!("`{key}` is not {what}: see line {line}, column {column}"))
    };
    let text = std::str::from_utf8(content)
        .map_err(|error| refused("UTF-8 text", place(content, error.valid_up_to())))?;
    parse(text).map_err(|refusal| match refusal {
        Refusal::Syntax(place) => refused(syntax, place),
        Refusal::TooLarge(what) => Reason::new(format!("`{key}` has {what}"))
            .hint("podnudge checks no more than that: check it by a program (`exec`)"),
    })
}

fn parse_json(text: &str) -> Result<(), Refusal> {
    let parsed = serde_json::from_str::<IgnoredAny>(text);
    parsed.map(drop).map_err(|error| Refusal::Syntax((error.line(), error.column())))
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

/// JSON is YAML, and is read as such: much of it is one long line.
fn parse_yaml(text: &str) -> Result<(), Refusal> {
    if parse_json(text).is_ok() {
        return Ok(());
    }
    let (taken, most) = (Cell::new(0), Cell::new(0));
    let within = |_: &char| {
        taken.set(taken.get() + 1);
        taken.get() <= most.get()
    };
    let mut parser = saphyr_parser::Parser::new_from_iter(text.chars().take_while(within));
    let mut depth = 0_usize;
    loop {
        most.set(taken.get() + MAX_YAML_FLOW);
        let event = parser.next();
        if taken.get() > most.get() {
            let most = MAX_YAML_FLOW / 1024;
            return Err(Refusal::TooLarge(format!(
                "a list or map in brackets of more than {most} KiB that is not JSON"
            )));
        }
        match event {
            None => return Ok(()),
            Some(Ok((Event::SequenceStart(..) | Event::MappingStart(..), _))) => depth += 1,
            Some(Ok((Event::SequenceEnd | Event::MappingEnd, _))) => {
                depth = depth.saturating_sub(1);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                let marker = error.marker();
                return Err(Refusal::Syntax((marker.line(), marker.col() + 1)));
            }
        }
        if depth > MAX_YAML_DEPTH {
            return Err(Refusal::TooLarge(format!("more than {MAX_YAML_DEPTH} levels")));
        }
    }
}

/// The position of a byte; the column counts characters.
fn place(content: &[u8], offset: usize) -> Place {
    let before = content.get(..offset).unwrap_or(content);
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    (lines.count(), String::from_utf8_lossy(last).chars().count() + 1)
}
