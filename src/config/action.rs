//! What is done to the application when its content has changed: `[rule.signal]`, `[rule.http]`,
//! `[rule.exec]`, `[rule.command]` and `[rule.restart]`, in the order of the file. Pure.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::define::Heading::Act;
use super::define::{Form, Type, option};
use super::program::Program;
use super::request::HttpAction;
use super::socket::SocketCommand;
use super::types::{DAY, HOUR, SECOND, ZERO, duration, number, signal, truth};

/// One thing that is done to the application.
#[derive(Debug, Clone)]
pub enum Action {
    /// A signal to the target.
    Signal(SignalAction),
    /// An HTTP request.
    Http(Box<HttpAction>),
    /// A program in podnudge's own file system.
    Exec(Program),
    /// A command on a socket.
    Command(SocketCommand),
    /// The target is ended; whoever has started it starts it anew.
    Restart,
}

settings! {
    /// A signal to the target.
    #[derive(Copy, PartialEq, Eq)]
    pub struct SignalAction = "[rule.signal]"; {
        /// Send this signal, by name or number, such as `HUP` or `USR1`.
        name: Signal = required("name = \"HUP\"", signal_name()), option("signal", "NAME", Act).common();
        /// Send the signal even if the target does not handle it, which ends most programs.
        allow_unhandled: bool = default("false", truth()), option("allow-unhandled", "", Act);
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

/// How many there may be in how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// So many.
    pub most: u32,
    /// In so much time.
    pub within: Duration,
}

words! {
    /// What is done about content that did not take.
    pub enum Step {
        /// The actions are repeated, as `[rule.retry]` says.
        Retry = "retry",
        /// The target is restarted.
        Restart = "restart",
    }
}

const fn signal_name() -> Type<Signal> {
    let show = |signal: &Signal| signal.as_str().trim_start_matches("SIG").to_owned();
    Type { form: Form::Word("a signal"), parse: signal, show }
}

impl Action {
    /// The word for it.
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

    /// Whether it is done to a process.
    #[must_use]
    pub fn needs_process(&self) -> bool {
        matches!(self, Self::Signal(_) | Self::Restart)
    }
}

impl Restart {
    /// How often that may be.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget { most: self.most, within: self.within }
    }
}
