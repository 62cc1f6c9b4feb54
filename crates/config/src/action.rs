//! The actions that make the application use new content: `[rule.signal]`, `[rule.http]`, `[rule.exec]`,
//! `[rule.command]`, `[rule.restart]`, `[rule.restart-pod]` and `[rule.evict]`, in the order of the file. Pure.

use nix::sys::signal::Signal;

use super::prelude::*;
use super::program::Program;
use super::request::HttpAction;
use super::socket::SocketCommand;

/// The keys of the actions.
pub(super) const ACTIONS: [&str; 7] =
    ["signal", "http", "exec", "command", "restart", "restart-pod", "evict"];

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
    /// A restart of all containers of the pod: podnudge ends, and the kubelet does it.
    RestartPod(RestartPod),
    /// The eviction of podnudge's own pod, which its controller replaces.
    Evict(Evict),
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

settings! {
    /// A restart of the whole pod in place: podnudge ends with an exit code for which the kubelet restarts all containers.
    #[derive(Copy, PartialEq, Eq)]
    pub struct RestartPod = "[rule.restart-pod]"; {
        /// The exit code, for which podnudge's container has a rule with `action: RestartAllContainers` in its `restartPolicyRules`. From 79 to 124, because podnudge, shells and container runtimes end with others.
        exit_code: u32 = default("88", number(79, 124));
        /// The restart budget: how many restarts are allowed within `within`.
        most: u32 = default("5", number(1, 1000));
        /// The time for which the restart budget counts.
        within: Duration = default("1h", duration(SECOND, DAY.saturating_mul(7)));
    }
}

settings! {
    /// The eviction of podnudge's own pod by the Kubernetes API, which honours PodDisruptionBudgets. The controller of the pod replaces it.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Evict = "[rule.evict]"; {
        /// How long the pod may take to end after it was evicted, before podnudge tries again: longer than its `terminationGracePeriodSeconds`.
        wait: Duration = default("5m", duration(SECOND, DAY));
    }
}

impl Restart {
    /// With the budget for restarts of the pod, if that is restarted.
    pub(super) fn within(self, pod: Option<RestartPod>) -> Self {
        pod.map_or(self, |RestartPod { most, within, .. }| Self { most, within, ..self })
    }
}

impl RestartPod {
    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        u8::try_from(self.exit_code).unwrap_or(u8::MAX)
    }
}

words! {
    /// What to do if the application does not run the new content.
    pub enum OnFailure {
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
            Self::RestartPod(_) => "restart-pod",
            Self::Evict(_) => "evict",
        }
    }

    /// The exit code with which podnudge ends to restart the pod, if that is the action.
    #[must_use]
    pub fn pod_exit_code(&self) -> Option<u8> {
        match self {
            Self::RestartPod(pod) => Some(pod.code()),
            _ => None,
        }
    }

    /// Whether it restarts the application.
    #[must_use]
    pub fn restarts(&self) -> bool {
        matches!(self, Self::Restart | Self::RestartPod(_))
    }

    /// Whether it needs a target process.
    #[must_use]
    pub fn needs_process(&self) -> bool {
        matches!(self, Self::Signal(_) | Self::Restart)
    }
}
