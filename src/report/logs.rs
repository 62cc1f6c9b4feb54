//! The log: lines on standard error, as text or as JSON. A reader that does not read does not delay
//! podnudge.

use std::panic::PanicHookInfo;
use std::sync::atomic::Ordering;

use tracing::{dispatcher, error};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::fields::IS_JSON;
use crate::system::exit::sentence;
use crate::system::stderr::Lines;
use podnudge_config::{Agent, LogFormat, LogLevel};
use podnudge_core::shown::Colours;

/// Starts the log.
pub fn start(agent: &Agent, colours: Colours) {
    start_as(agent.log, agent.log_level, colours);
}

/// Starts the log in this format.
pub fn start_as(format: LogFormat, level: LogLevel, colours: Colours) {
    let level = match level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
    };
    // Libraries log nothing that an operator acts on.
    let ours = Targets::new().with_target("podnudge", level);
    let lines = fmt::layer().with_writer(|| Lines).with_target(false);
    let log = tracing_subscriber::registry().with(ours);
    match format {
        LogFormat::Text => log.with(lines.with_ansi(colours == Colours::On)).init(),
        LogFormat::Json => {
            IS_JSON.store(true, Ordering::Relaxed);
            log.with(lines.json().flatten_event(true)).init();
        }
    }
}

/// Logs a bug in podnudge. Returns the text to print instead if the log was not started.
#[must_use]
pub fn bug(panic: &PanicHookInfo<'_>) -> Option<String> {
    let message = panic.payload_as_str().unwrap_or("without a message");
    let message = format!("this is a bug in podnudge: {message}");
    let place = panic.location().map(ToString::to_string);
    let hint = "report it, with the preceding log lines";
    if dispatcher::has_been_set() {
        error!(event = "bug", place, hint, "{message}");
        return None;
    }
    let place = place.map(|place| format!(", at {place}")).unwrap_or_default();
    Some(sentence(&(message + &place), Some(hint)))
}
