//! `syntax = "json"`, `"yaml"` and `"toml"`: checks that a key can be parsed. Messages
//! contain the position of an error, and never the text there.

use super::json::parse_json;
use super::refusal::{Parse, Place, Refusal, place};
use super::{alone, toml as of_toml, yaml as of_yaml};
use podnudge_core::event::Checked;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Key;

/// # Errors
/// If the content is not JSON.
pub(super) fn json(key: &Key, content: &[u8]) -> Result<(), Checked> {
    parse_text("JSON", parse_json, key, content)
}

/// # Errors
/// If the content is not YAML.
pub(super) fn yaml(key: &Key, content: &[u8]) -> Result<(), Checked> {
    parse_text("YAML", of_yaml::parse, key, content)
}

/// # Errors
/// If the content is not TOML.
pub(super) fn toml(key: &Key, content: &[u8]) -> Result<(), Checked> {
    parse_text("TOML", of_toml::parse, key, content)
}

fn parse_text(syntax: &str, parse: Parse, key: &Key, content: &[u8]) -> Result<(), Checked> {
    let refused = |what: &str, (line, column): Place| {
        let message = format!("`{key}` is not {what}: {}", position(what, content, line, column));
        Checked::Rejected(Reason::new(message))
    };
    let text = std::str::from_utf8(content)
        .map_err(|error| refused("UTF-8 text", place(content, error.valid_up_to())))?;
    alone::parse(syntax, parse, text).map_err(|refusal| match refusal {
        Refusal::Syntax(place) => refused(syntax, place),
        Refusal::TooLarge(what) => {
            let hint = "podnudge checks no more than that: check it by a program (`exec`)";
            Checked::Rejected(Reason::new(format!("`{key}` has {what}")).hint(hint))
        }
        Refusal::Failed(reason) => Checked::Failed(reason),
    })
}

/// Where an error is. The parser of JSON reports a text that ends too early at the empty line after it. Other parsers count
/// more line breaks than these.
fn position(what: &str, content: &[u8], line: usize, column: usize) -> String {
    let text = content.trim_ascii_end();
    let last = text.split(|byte| *byte == b'\n').count();
    match what {
        "JSON" if text.is_empty() => "it is empty".to_owned(),
        "JSON" if line > last => format!("it ends too early, in line {last}"),
        _ => format!("see line {line}, column {column}"),
    }
}
