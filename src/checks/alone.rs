//! Parses a text in a process of its own, podnudge started again: what the parser takes is limited by the
//! kernel, and given back when the process ends. Contents that podnudge's own process parses one after the
//! other would leave their free memory there.
//!
//! Starts that process and gives it the text.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::{ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::refusal::{Parse, Place, Refusal};
use super::{toml, yaml};
use crate::exchange::children;
use crate::exit::Exit;
use crate::reason::Reason;

/// The first argument of that process. The second is the syntax, the third the length of the text.
pub const ALONE: &str = "parse";

/// The longest text that podnudge parses itself, in bytes. A parser takes at most 200 bytes for each.
const MAX_OWN: usize = 16 * 1024;
/// The limits of the process: with the text and its page tables, less than 13 MiB.
const MAX_BYTES: u64 = 11 * 1024 * 1024;
const MAX_SECONDS: u64 = 5;
/// The longest answer.
const MAX_ANSWER: u64 = 256;

/// The parsers that need much memory for some texts, by the name of their syntax.
const PARSERS: [(&str, Parse); 2] = [("YAML", yaml::parse), ("TOML", toml::parse)];

/// Parses a text, a short one at once.
pub(super) fn parse(syntax: &str, parse: Parse, text: &str) -> Result<(), Refusal> {
    let is_listed = PARSERS.iter().any(|(name, _)| *name == syntax);
    if text.len() <= MAX_OWN || !is_listed {
        return parse(text);
    }
    let failed = |error: io::Error| {
        Refusal::Failed(Reason::new(format!("cannot start podnudge's own parser: {error}")))
    };
    let mut command = children::command(ALONE);
    command.arg(syntax).arg(text.len().to_string());
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
        Some(code) if code == Exit::Data as i32 => {
            Err(place(&answer).map_or(Refusal::TooLarge(answer), Refusal::Syntax))
        }
        Some(code) if code != Exit::Io as i32 => {
            Err(Refusal::Failed(Reason::new(format!("podnudge's own parser ended with {code}"))))
        }
        // A signal: out of memory or of time.
        _ => Err(exhausted()),
    }
}

fn exhausted() -> Refusal {
    let most = MAX_BYTES / 1024 / 1024;
    Refusal::TooLarge(format!(
        "lists or maps in brackets, texts or keys, for which a parser needs more than {most} MiB of memory or {MAX_SECONDS} s"
    ))
}

fn place(answer: &str) -> Option<Place> {
    let (line, column) = answer.split_once(' ')?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// The main function of that process: reads a text from standard input, and answers with the place of an
/// error, or with what is too large.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || arguments.next().and_then(|argument| argument.into_string().ok());
    let (syntax, length) = (next(), next().and_then(|length| length.parse().ok()));
    let parser = PARSERS.iter().find(|(name, _)| Some(*name) == syntax.as_deref());
    let (Some((_, parse)), Some(length)) = (parser, length) else { return Exit::Usage.into() };
    for (resource, most) in [(Resource::Data, MAX_BYTES), (Resource::Cpu, MAX_SECONDS)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        if setrlimit(resource, limit).is_err() {
            return Exit::Io.into();
        }
    }
    let mut text = String::with_capacity(length);
    if io::stdin().read_to_string(&mut text).is_err() {
        return Exit::Io.into();
    }
    let answer = match parse(&text) {
        Ok(()) => return Exit::Ok.into(),
        Err(Refusal::Syntax((line, column))) => format!("{line} {column}"),
        Err(Refusal::TooLarge(what)) => what,
        Err(Refusal::Failed(_)) => return Exit::Io.into(),
    };
    match io::stdout().write_all(answer.as_bytes()) {
        Ok(()) => Exit::Data.into(),
        Err(_) => Exit::Io.into(),
    }
}
