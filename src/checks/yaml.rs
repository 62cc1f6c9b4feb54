//! Checks YAML by its events, without a tree.
//!
//! The parser holds a list or a map in brackets as a whole, at up to 200 bytes for each character. Where
//! it has read much without an event, a process of its own starts anew, with a limit on its memory and
//! its time: a long text needs little, and brackets beyond the limit are refused.

use std::cell::Cell;
use std::io::{self, Read as _, Write as _};
use std::process::{ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use saphyr_parser::{Event, Input, Parser};

use super::json::parse_json;
use super::refusal::{Place, Refusal};
use crate::exchange::children;
use crate::exit::Exit;
use crate::reason::Reason;

/// The first argument of podnudge's own process that parses.
pub const ALONE: &str = "parse-yaml";

/// The most characters that are read here without an event: 8 MiB.
const MAX_AHEAD: usize = 40 * 1024;
/// The deepest nesting.
const MAX_DEPTH: usize = 256;
/// The limits of the process.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_SECONDS: u64 = 5;
/// Its answer about a text that is nested too deeply.
const DEEP: &str = "deep";
/// Its longest answer: a line and a column.
const MAX_ANSWER: u64 = 100;

/// JSON is YAML, and is read as such: much of it is one long line.
pub(super) fn parse(text: &str) -> Result<(), Refusal> {
    if parse_json(text).is_ok() {
        return Ok(());
    }
    let (taken, most, is_cut) = (Cell::new(0), Cell::new(0), Cell::new(false));
    let within = |_: &char| {
        taken.set(taken.get() + 1);
        // Once it is cut, the parser sees an end that is none, and its verdict says nothing.
        is_cut.set(is_cut.get() || taken.get() > most.get());
        !is_cut.get()
    };
    let parser = Parser::new_from_iter(text.chars().take_while(within));
    let parsed = read_events(parser, || most.set(taken.get() + MAX_AHEAD));
    if is_cut.get() { parse_alone(text) } else { parsed }
}

/// Reads all events. Calls `before` before each.
fn read_events(mut parser: Parser<'_, impl Input>, before: impl Fn()) -> Result<(), Refusal> {
    let mut depth = 0_usize;
    loop {
        before();
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
            return Err(deep());
        }
    }
}

fn deep() -> Refusal {
    Refusal::TooLarge(format!("more than {MAX_DEPTH} levels"))
}

/// Parses in a process of its own.
fn parse_alone(text: &str) -> Result<(), Refusal> {
    let failed = |error: io::Error| {
        Refusal::Failed(Reason::new(format!("cannot start podnudge's own parser: {error}")))
    };
    let mut command = children::command(ALONE);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = children::spawn(&mut command).map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // It reads everything before it answers, or it has ended.
        drop(input.write_all(text.as_bytes()));
    }
    let mut answer = String::new();
    if let Some(output) = child.stdout.take() {
        drop(output.take(MAX_ANSWER).read_to_string(&mut answer));
    }
    match children::reap(&mut child).map_err(failed)?.code() {
        Some(0) => Ok(()),
        Some(_) if answer == DEEP => Err(deep()),
        Some(code) if code == Exit::Io as i32 => Err(exhausted()),
        Some(code) => Err(place(&answer).map_or_else(
            || Refusal::Failed(Reason::new(format!("podnudge's own parser ended with {code}"))),
            Refusal::Syntax,
        )),
        // A signal: out of memory or of time.
        None => Err(exhausted()),
    }
}

fn exhausted() -> Refusal {
    let most = MAX_BYTES / 1024 / 1024;
    Refusal::TooLarge(format!(
        "lists or maps in brackets, or texts, for which a parser needs more than {most} MiB of memory or {MAX_SECONDS} s"
    ))
}

fn place(answer: &str) -> Option<Place> {
    let (line, column) = answer.trim().split_once(' ')?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// The main function of that process: reads a text from standard input, and answers with the place of an
/// error.
#[must_use]
pub fn alone() -> ExitCode {
    for (resource, most) in [(Resource::Data, MAX_BYTES), (Resource::Cpu, MAX_SECONDS)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        if setrlimit(resource, limit).is_err() {
            return Exit::Io.into();
        }
    }
    let mut text = String::new();
    if io::stdin().read_to_string(&mut text).is_err() {
        return Exit::Io.into();
    }
    let answer = match read_events(Parser::new_from_str(&text), || ()) {
        Ok(()) => return Exit::Ok.into(),
        Err(Refusal::Syntax((line, column))) => format!("{line} {column}"),
        Err(Refusal::TooLarge(_) | Refusal::Failed(_)) => DEEP.to_owned(),
    };
    match io::stdout().write_all(answer.as_bytes()) {
        Ok(()) => Exit::Data.into(),
        Err(_) => Exit::Io.into(),
    }
}
