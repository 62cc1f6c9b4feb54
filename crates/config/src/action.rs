//! The actions that make the application use new content: `[rule.signal]`, `[rule.http]`, `[rule.exec]`,
//! `[rule.command]` and `[rule.restart]`, in the order of the file. Pure.

use nix::sys::signal::Signal;

use super::prelude::*;
use super::program::Program;
use super::request::HttpAction;
use super::socket::SocketCommand;
use podnudge_core::budget::RestartBudget;

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
    /// A restart of all containers of the pod: podnudge ends, and the kubelet does it.
    RestartPod(Restart),
    /// The eviction of podnudge's own pod, which its controller replaces.
    Evict(Restart),
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
    /// A restart of the target or of the pod.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Restart = "[rule.restart]"; validated {
        /// What to restart. `target`: podnudge ends it, and the kubelet or its supervisor starts it again. `pod`: all containers of the pod in place; podnudge ends with `exit-code`, for which the kubelet does that. `evict`: podnudge evicts its own pod by the Kubernetes API, which honours PodDisruptionBudgets, and the controller of the pod replaces it.
        what: RestartOf = default("target", choice());
        /// How long the target may take to end before it is killed; with `evict`, how long the pod may take to end before podnudge tries again: longer than its `terminationGracePeriodSeconds`.
        grace: Option<Duration> = optional("`30s`; `5m` with `evict`", duration(ZERO, DAY));
        /// The restart budget: how many restarts of the target or of the pod in place are allowed within `within`.
        most: Option<u32> = optional("`5`", number(1, 1000));
        /// The time for which the restart budget counts.
        within: Option<Duration> = optional("`1h`", duration(SECOND, DAY.saturating_mul(7)));
        /// With `pod`: the exit code, for which podnudge's container has a rule with `action: RestartAllContainers` in its `restartPolicyRules`. From 79 to 124, because podnudge, shells and container runtimes end with others.
        exit_code: Option<u32> = optional("`88`", number(79, 124));
    }
}

words! {
    /// What a restart is of.
    pub enum RestartOf {
        /// The target.
        Target = "target",
        /// All containers of the pod, in place.
        Pod = "pod",
        /// The pod: it is evicted, and its controller replaces it.
        Evict = "evict",
    }
}

impl Restart {
    /// How long the target may take to end before it is killed.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace.unwrap_or(SECOND.saturating_mul(30))
    }

    /// How long the pod may take to end after it was evicted.
    #[must_use]
    pub fn evict_wait(&self) -> Duration {
        self.grace.unwrap_or(MINUTE.saturating_mul(5))
    }

    /// The exit code with which podnudge ends, so that the pod is restarted.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(88)
    }

    /// How many restarts are allowed, and within which time.
    #[must_use]
    pub fn budget(&self) -> RestartBudget {
        RestartBudget { most: self.most.unwrap_or(5), within: self.within.unwrap_or(HOUR) }
    }

    fn validate(&mut self, place: &Place<'_>) {
        let ineffective: &[&'static str] = match self.what {
            RestartOf::Target => &["exit-code"],
            RestartOf::Pod => &["grace"],
            RestartOf::Evict => &["most", "within", "exit-code"],
        };
        for key in ineffective.iter().filter(|key| place.has(key)) {
            let of = (RestartOf::TYPE.print)(&self.what);
            let reason = Reason::new(format!("`{key}` has no effect if `what` is `{of}`"));
            place.warn(Spot::Key(key), reason.hint("leave it out"));
        }
        if self.what == RestartOf::Evict && self.grace.is_some_and(|grace| grace < SECOND) {
            let reason = Reason::new("`grace` of an eviction must be at least `1s`");
            let hint = "the pod needs its `terminationGracePeriodSeconds` to end";
            place.problem(Spot::Value("grace"), reason.hint(hint));
        }
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
    pub(super) fn of_restart(restart: Restart) -> Self {
        match restart.what {
            RestartOf::Target => Self::Restart,
            RestartOf::Pod => Self::RestartPod(restart),
            RestartOf::Evict => Self::Evict(restart),
        }
    }

    /// The action's key in the rule.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::RestartPod(_) | Self::Evict(_) => "restart",
            action => action.name(),
        }
    }

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
