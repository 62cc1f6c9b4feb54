//! Checks YAML by its events, without a tree. Pure.
//!
//! The parser holds a list or a map in brackets as a whole, at up to 200 bytes for each character:
//! `alone.rs` limits that.

use saphyr_parser::{Event, Parser};

use super::json::parse_json;
use super::refusal::Refusal;

/// The deepest nesting.
const MAX_DEPTH: usize = 256;

/// JSON is YAML, and is read as such: much of it is one long line.
pub(super) fn parse(text: &str) -> Result<(), Refusal> {
    if parse_json(text).is_ok() {
        return Ok(());
    }
    let mut parser = Parser::new_from_str(text);
    let mut depth = 0_usize;
    loop {
        match parser.next() {
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
        if depth > MAX_DEPTH {
            return Err(Refusal::TooLarge(format!("more than {MAX_DEPTH} levels")));
        }
    }
}
