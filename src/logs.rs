//! The log: lines on standard error, for people or as JSON.

use std::panic::PanicHookInfo;

use tracing::{dispatcher, error};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Agent, LogFormat, LogLevel};
use crate::exit::sentence;

/// Starts the log. Colours only where somebody reads it on a terminal.
pub fn start(agent: &Agent, terminal: bool) {
    let level = match agent.log_level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
    };
    // The libraries have nothing to say that an operator acts on.
    let ours = Targets::new().with_target("podnudge", level);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let log = tracing_subscriber::registry().with(ours);
    match agent.log {
        LogFormat::Text => log.with(lines.with_ansi(terminal)).init(),
        LogFormat::Json => log.with(lines.json().flatten_event(true)).init(),
    }
}

/// Logs that podnudge has a bug. Where no log was started, gives what is to be printed instead.
#[must_use]
pub fn bug(panic: &PanicHookInfo<'_>) -> Option<String> {
    let message = panic.payload_as_str().unwrap_or("it does not say which");
    let message = format!("this is a bug in podnudge: {message}");
    let place = panic.location().map(ToString::to_string);
    let hint = "report it, with the lines of the log before it";
    if dispatcher::has_been_set() {
        error!(event = "bug", place, hint, "{message}");
        return None;
    }
    let place = place.map(|place| format!(", at {place}")).unwrap_or_default();
    Some(sentence(&(message + &place), Some(hint)))
}
