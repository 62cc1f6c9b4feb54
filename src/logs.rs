//! The log: lines on standard error, for people or as JSON.

use tracing_subscriber::fmt;

use crate::config::{Agent, LogFormat, LogLevel};

/// Starts the log. Colours only where somebody reads it on a terminal.
pub fn start(agent: &Agent, terminal: bool) {
    let level = match agent.log_level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
    };
    let lines = fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    match agent.log {
        LogFormat::Text => lines.with_ansi(terminal).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
