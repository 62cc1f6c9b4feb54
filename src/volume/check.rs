//! The checks that look at contents: they stay in here, and what is told of them is names, places
//! and sizes.
//!
//! Reads the rule's volumes once more, and makes sure that it is what was asked about.

use std::path::Path;

use serde::de::IgnoredAny;

use super::filter;
use super::read::{self, Contents, ReadError};
use super::snapshot::{self, Digest, Key};
use crate::config::{Check, Condition, KeyFilter, Syntax};
use crate::core::event::{Checked, Reason};

/// How many keys a refusal names at most.
const KEYS_NAMED: usize = 5;

/// Whether the content of these volumes, if it is still the one with this digest, meets the
/// checks. The first that it does not meet decides.
#[must_use]
pub fn check<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    asked: Digest,
    checks: &[Check],
) -> Checked {
    let mut contents = Vec::new();
    let mut digests = Vec::new();
    for path in volumes {
        match read::contents(path, keys) {
            Ok(Some((snapshot, content))) => {
                digests.push(snapshot.digest());
                contents.push(content);
            }
            Ok(None) | Err(ReadError::Moving { .. }) => return Checked::Moved,
            Err(error @ ReadError::TooMuch { .. }) => return Checked::Refused(error.reason()),
            Err(error) => return Checked::Failed(error.reason()),
        }
    }
    if snapshot::digest(digests) != asked {
        return Checked::Moved;
    }
    match checks.iter().try_for_each(|check| meets(check, &contents)) {
        Ok(()) => Checked::Passed,
        Err(reason) => Checked::Refused(reason),
    }
}

/// The refusal, if the contents do not meet a check.
fn meets(check: &Check, volumes: &[Contents]) -> Result<(), Reason> {
    let concerned = || {
        volumes.iter().flatten().filter(|(key, _)| {
            check.keys.is_empty() || check.keys.iter().any(|glob| filter::matches(glob, &key.0))
        })
    };
    match &check.condition {
        Condition::NotEmpty => {
            let empty = concerned().filter(|(_, content)| content.trim_ascii().is_empty());
            refuse_named(empty.map(|(key, _)| key.to_string()), "is empty", "are empty")
        }
        Condition::RequiredKeys(required) => {
            let is_there = |name: &&String| {
                !volumes.iter().any(|keys| keys.contains_key(&Key(name.as_bytes().to_vec())))
            };
            let missing = required.iter().filter(is_there).cloned();
            refuse_named(missing, "is missing", "are missing")
        }
        Condition::MaxBytes(most) => {
            let bytes: u64 = concerned().map(|(_, content)| content.len() as u64).sum();
            if bytes <= *most {
                return Ok(());
            }
            Err(Reason::new(format!("the keys hold {bytes} bytes, more than the {most} allowed")))
        }
        Condition::Syntax(syntax) => {
            concerned().try_for_each(|(key, content)| parse(*syntax, key, content))
        }
        // It is asked when the others are met.
        Condition::Exec(_) => Ok(()),
    }
}

fn refuse_named(
    keys: impl Iterator<Item = String>,
    one: &str,
    several: &str,
) -> Result<(), Reason> {
    let keys: Vec<String> = keys.map(|key| format!("`{}`", key.escape_debug())).collect();
    let named = keys.iter().take(KEYS_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match keys.len() {
        0 => Ok(()),
        1 => Err(Reason::new(format!("{named} {one}"))),
        many if many > KEYS_NAMED => {
            Err(Reason::new(format!("{named} and {} more {several}", many - KEYS_NAMED)))
        }
        _ => Err(Reason::new(format!("{named} {several}"))),
    }
}

/// Parses a key. What is told is where it fails, and never what stands there.
fn parse(syntax: Syntax, key: &Key, content: &[u8]) -> Result<(), Reason> {
    let name = match syntax {
        Syntax::Json => "JSON",
        Syntax::Yaml => "YAML",
        Syntax::Toml => "TOML",
    };
    let refused = |line: usize, column: usize| {
        Reason::new(format!("`{key}` is not {name}: see line {line}, column {column}"))
    };
    let text = std::str::from_utf8(content).map_err(|error| {
        let (line, column) = place(content, error.valid_up_to());
        Reason::new(format!("`{key}` is not UTF-8 text: see line {line}, column {column}"))
    })?;
    match syntax {
        Syntax::Json => serde_json::from_str::<IgnoredAny>(text)
            .map(drop)
            .map_err(|error| refused(error.line(), error.column())),
        Syntax::Toml => toml::from_str::<IgnoredAny>(text).map(drop).map_err(|error| {
            let (line, column) = place(content, error.span().map_or(0, |span| span.start));
            refused(line, column)
        }),
        Syntax::Yaml => {
            let mut parser = saphyr_parser::Parser::new_from_str(text);
            parser.try_for_each(|event| event.map(drop)).map_err(|error| {
                let marker = error.marker();
                refused(marker.line(), marker.col() + 1)
            })
        }
    }
}

/// Line and column of a byte, both counted from one, the column in characters.
fn place(content: &[u8], offset: usize) -> (usize, usize) {
    let before = content.get(..offset).unwrap_or(content);
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    (lines.count(), String::from_utf8_lossy(last).chars().count() + 1)
}
