//! Reads the file where it is YAML, of which JSON is a part: the same tables, lists and values as in TOML. Pure.
//!
//! Values are those of YAML 1.2: `yes` and `off` are text. Aliases are refused, because they hide what is set.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::problem::Report;
use super::tree::{self, Entries, Node, Value};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The deepest nesting: the configuration needs six levels.
const MAX_DEPTH: usize = 32;

/// Whether a file is YAML or JSON: by the ending of its name; without one, as standard input, by its first line.
pub(super) fn is_yaml(file_name: &str, text: &str) -> bool {
    match Path::new(file_name).extension().and_then(OsStr::to_str) {
        Some(ending) => matches!(ending, "yaml" | "yml" | "json"),
        None => tree::other_format(text).is_some(),
    }
}

/// Parses the file; `None` after a problem was reported.
pub(super) fn read(text: &str, report: &Report<'_>) -> Option<Entries> {
    let bytes = text.char_indices().map(|(byte, _)| byte).collect();
    let mut reader = Reader { parser: Parser::new_from_str(text), bytes, report };
    match reader.document() {
        Ok(entries) => Some(entries),
        Err((byte, reason)) => {
            report.problem(&report.at(byte), reason);
            None
        }
    }
}

/// Why it cannot be read, and at which byte.
type Wrong = (usize, Reason);

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The byte at which each character begins.
    bytes: Vec<usize>,
    report: &'a Report<'a>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Entries, Wrong> {
        let mut root = BTreeMap::new();
        let mut is_there = false;
        while let Some((event, byte)) = self.next()? {
            match event {
                Event::DocumentStart(_) if is_there => {
                    return Err((byte, Reason::new("a second document").hint("keep one of them")));
                }
                Event::DocumentStart(_) => is_there = true,
                Event::MappingStart(..) => root = self.table(0)?,
                Event::Scalar(text, ScalarStyle::Plain, ..) if is_null(&text) => {}
                Event::Scalar(..) | Event::SequenceStart(..) | Event::Alias(_) => {
                    let reason = Reason::new("the file is not a table");
                    return Err((
                        byte,
                        reason.hint("begin with `rule:`, and a list of rules below it"),
                    ));
                }
                _ => {}
            }
        }
        Ok(root)
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, usize)>, Wrong> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok((event, Span { start, .. }))) => Ok(Some((event, self.byte(start.index())))),
            Some(Err(error)) => {
                let message = format!("not YAML: {}", shown::text(error.info()));
                let hint = "tables and lists are indented by blanks, and text with `: ` or ` #` is in quotes";
                Err((self.byte(error.marker().index()), Reason::new(message).hint(hint)))
            }
        }
    }

    fn byte(&self, character: usize) -> usize {
        self.bytes.get(character).or(self.bytes.last()).copied().unwrap_or_default()
    }

    /// The rest of a table.
    fn table(&mut self, depth: usize) -> Result<Entries, Wrong> {
        let mut entries = Entries::new();
        loop {
            let (key, byte) = match self.next()? {
                Some((Event::Scalar(key, ..), byte)) => (key.into_owned(), byte),
                Some((Event::MappingEnd, _)) | None => return Ok(entries),
                Some((_, byte)) => {
                    return Err((byte, Reason::new("a key must be text")));
                }
            };
            let Some((event, at)) = self.next()? else { return Ok(entries) };
            let node = self.node(event, at, depth)?;
            if entries.contains_key(&key) {
                let message = format!("duplicate key `{}`", shown::text(&key));
                return Err((byte, Reason::new(message).hint("keep one of them")));
            }
            entries.insert(key, (self.report.at(byte), node));
        }
    }

    fn node(&mut self, event: Event<'a>, byte: usize, depth: usize) -> Result<Node, Wrong> {
        if depth >= MAX_DEPTH {
            return Err((byte, Reason::new(format!("more than {MAX_DEPTH} levels"))));
        }
        let value = match event {
            Event::MappingStart(..) => Value::Table(self.table(depth + 1)?),
            Event::SequenceStart(..) => {
                let mut nodes = Vec::new();
                while let Some((event, byte)) = self.next()? {
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    nodes.push(self.node(event, byte, depth + 1)?);
                }
                Value::List(nodes)
            }
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            _ => {
                let reason = Reason::new("aliases are not supported");
                return Err((byte, reason.hint("write the value itself")));
            }
        };
        Ok(Node { at: self.report.at(byte), value })
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// What a word means that is a boolean in YAML 1.1, and text in YAML 1.2.
pub(super) fn boolean_of_1_1(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "on" => Some(true),
        "n" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A value without quotes.
fn plain(text: &str) -> Value {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // Permission bits such as 0644 are text, as in TOML.
    let is_octal = digits.len() > 1 && digits.starts_with('0');
    match text {
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_null(text) => Value::Other("nothing"),
        _ if !is_octal && text.parse::<i64>().is_ok() && !text.starts_with('+') => {
            Value::Number { text: text.to_owned(), decimal: text.to_owned() }
        }
        _ => Value::Text(text.to_owned()),
    }
}
