//! What other reloaders are started with: `podnudge compat`, and the translation of the rest. Pure.

use std::ffi::OsString;
use std::time::Duration;

use super::{Command, Stop, Stream, usage};
use crate::compat::{self, Run};
use crate::config::Sources;
use crate::exit::Exit;

/// How long an init container waits for the file that it is to write from.
const WAIT: Duration = Duration::from_mins(1);

/// The command for the options of a program whose options podnudge takes. `None` for all others.
pub(super) fn command(arguments: &[OsString]) -> Option<Result<Command, Stop>> {
    let configured = |text| Sources { text: Some(text), ..Sources::default() };
    let printed = |text| Err(Stop { text, stream: Stream::Stdout, exit: Exit::Ok });
    Some(match compat::run(arguments)? {
        Ok(Run::Always(text)) => Ok(Command::Run(configured(text))),
        Ok(Run::Once(text)) => Ok(Command::Once(configured(text), WAIT)),
        Ok(Run::Nothing) => printed(String::new()),
        Ok(Run::Print(text)) => printed(text),
        Err(reason) => Err(usage(&reason.message, reason.hint.as_deref())),
    })
}

/// The same error, or what to use in place of the options and variables of another reloader.
pub(super) fn translated(
    stop: Stop,
    arguments: &[OsString],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Stop {
    if stop.exit != Exit::Usage {
        return stop;
    }
    match compat::translated(arguments, environment) {
        Some(reason) => usage(&reason.message, reason.hint.as_deref()),
        None => stop,
    }
}
