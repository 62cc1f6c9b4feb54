//! The actions that make the application use new content: `[rule.signal]`, `[rule.http]`, `[rule.exec]`,
//! `[rule.command]` and `[rule.restart]`, in the order of the file. Pure.

use nix::sys::signal::Signal;

use super::prelude::*;
use super::program::Program;
use super::request::HttpAction;
use super::socket::SocketCommand;

/// The keys of the actions.
pub(super) const ACTIONS: [&str; 5] = ["signal", "http", "exec", "command", "restart"];

/// An action of a rule.
#[derive(Debug, Clone)]
pub enum Action {
    /// A signal to the target.
    Signal(SignalAction),
    /// An HTTP request.
    Http(Box<HttpAction>),
    /// A program in podnudge's container.
    Exec(Program),
    /// A command on a socket.
    Command(SocketCommand),
    /// A restart: podnudge ends the target, and the kubelet or its supervisor starts it again.
    Restart,
}

settings! {
    /// A signal to the target.
    #[derive(Copy, PartialEq, Eq)]
    pub struct SignalAction = "[rule.signal]"; {
        /// Send this signal, by name or number, such as `HUP` or `USR1`.
        name: Signal = required("name = \"HUP\"", signal_name()).option("signal", "NAME", Actions).common();
        /// Send the signal even if the target does not handle it, which ends most programs.
        allow_unhandled: bool = default("false", boolean()).option("allow-unhandled", "", Actions);
    }
}

settings! {
    /// A restart of the target: podnudge ends it, and the kubelet or its supervisor starts it again.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Restart = "[rule.restart]"; {
        /// How long the target may take to end before it is killed.
        grace: Duration = default("30s", duration(ZERO, HOUR));
        /// The restart budget: how many restarts are allowed within `within`.
        most: u32 = default("5", number(1, 1000));
        /// The time for which the restart budget counts.
        within: Duration = default("1h", duration(SECOND, DAY.saturating_mul(7)));
    }
}

words! {
    /// What to do if the application does not run the new content.
    pub enum Step {
        /// Repeat the actions, as `[rule.retry]` says.
        Retry = "retry",
        /// Restart the target.
        Restart = "restart",
    }
}

pub(super) const fn signal_name() -> Type<Signal> {
    let print = |signal: &Signal| signal.as_str().trim_start_matches("SIG").to_owned();
    Type { form: Form::TextOrNumber("a signal"), parse: parsers::signal, print }
}

impl Action {
    /// The name in logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Signal(_) => "signal",
            Self::Http(_) => "http",
            Self::Exec(_) => "exec",
            Self::Command(_) => "command",
            Self::Restart => "restart",
        }
    }

    /// Whether it needs a target process.
    #[must_use]
    pub fn needs_process(&self) -> bool {
        matches!(self, Self::Signal(_) | Self::Restart)
    }
}
