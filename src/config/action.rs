//! What is done to the application when its content has changed: `[rule.signal]`, `[rule.http]`,
//! `[rule.exec]`, `[rule.command]` and `[rule.restart]`, in the order of the file. Pure.

use std::path::Path;
use std::time::Duration;

use super::program::{Program, program};
use super::socket::{SocketCommand, socket_command};
use super::table::Table;
use super::types::{choice, duration, signal};
use super::validate::{DAY, HOUR, MINUTE, MS, SECOND, value_or};
use super::{HttpAction, request};
use crate::reason::Reason;

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

/// A signal to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalAction {
    /// The signal.
    pub signal: nix::sys::signal::Signal,
    /// Send it even if the target does not handle it.
    pub allow_unhandled: bool,
}

/// How the target is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// How long it may take to end by itself, before it is killed.
    pub grace: Duration,
    /// How often that may be.
    pub budget: Budget,
}

/// How many there may be in how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// So many.
    pub most: u32,
    /// In so much time.
    pub within: Duration,
}

/// What is done about content that did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The actions are repeated, as `[rule.retry]` says.
    Retry,
    /// The target is restarted.
    Restart,
}

/// The words for the steps; `effective.rs` writes them.
pub(super) const STEPS: [(&str, Step); 2] = [("retry", Step::Retry), ("restart", Step::Restart)];

pub(super) const KINDS: [&str; 5] = ["signal", "http", "exec", "command", "restart"];

/// The actions of a rule, and what is done when they do not help.
#[derive(Debug, Clone)]
pub(super) struct Actions {
    pub(super) all: Vec<Action>,
    pub(super) restart: Restart,
    /// `None` if it is not said.
    pub(super) on_failure: Option<Vec<Step>>,
}

/// What a rule does; `None` only after a problem was reported.
pub(super) fn actions(rule: &mut Table<'_>, bundle: Option<&Path>) -> Option<Actions> {
    let report = rule.report;
    let steps = rule.list("on-failure", choice(&STEPS));
    let on_failure: Option<Vec<Step>> =
        steps.as_ref().map(|given| given.value.iter().map(|given| given.value).collect());
    let is_last_resort = on_failure.as_ref().is_some_and(|steps| steps.contains(&Step::Restart));
    if let (Some(given), Some([Step::Restart, Step::Retry, ..])) = (&steps, on_failure.as_deref()) {
        let reason = Reason::new("nothing is repeated after a restart");
        report.problem(&given.at, reason.hint("write `on-failure = [\"retry\", \"restart\"]`"));
    }
    let mut placed: Vec<_> =
        KINDS.iter().filter_map(|kind| Some((rule.place_of(kind)?.clone(), *kind))).collect();
    placed.sort();
    // As the last resort it is no action of its own.
    placed.retain(|(_, kind)| !(is_last_resort && *kind == "restart"));
    if placed.is_empty() {
        let reason = Reason::new("the rule has no action");
        let hint = "add `[rule.signal]` with `name = \"HUP\"`, or `[rule.http]` with `url = \"…\"`";
        let only = if is_last_resort { "a restart is only the last resort here; " } else { "" };
        report.problem(&rule.at, reason.hint(format!("{only}{hint}")));
    }
    let restart_table = rule.table("restart", "[rule.restart]", None);
    let restart = restart(restart_table.unwrap_or_else(|| Table::root(Vec::new(), report)));
    let actions: Vec<Option<Action>> =
        placed.iter().map(|(_, kind)| action(rule, kind, bundle)).collect();
    for kind in KINDS {
        rule.forget(kind);
    }
    if placed.is_empty() {
        return None;
    }
    Some(Actions { all: actions.into_iter().collect::<Option<_>>()?, restart, on_failure })
}

fn action(rule: &mut Table<'_>, kind: &str, bundle: Option<&Path>) -> Option<Action> {
    match kind {
        "signal" => signal_action(rule.table("signal", "[rule.signal]", None)?).map(Action::Signal),
        "http" => {
            let http = request::action(rule.table("http", "[rule.http]", None)?, bundle);
            http.map(|http| Action::Http(Box::new(http)))
        }
        "exec" => exec(rule.table("exec", "[rule.exec]", None)?).map(Action::Exec),
        "command" => command(rule.table("command", "[rule.command]", None)?).map(Action::Command),
        _ => Some(Action::Restart),
    }
}

fn exec(mut table: Table<'_>) -> Option<Program> {
    let timeout = value_or(table.parsed("timeout", duration(10 * MS, 10 * MINUTE)), 30 * SECOND);
    if table.place_of("argv").is_none() {
        let reason = Reason::new("`[rule.exec]` needs `argv`");
        let hint = "the program and its arguments: `argv = [\"/app/reload\", \"--all\"]`";
        table.report.problem(&table.at, reason.hint(hint));
        table.forget("argv");
        table.finish();
        return None;
    }
    let arguments = program(&mut table, "argv");
    table.finish();
    Some(Program { arguments: arguments?, timeout })
}

fn command(mut table: Table<'_>) -> Option<SocketCommand> {
    let timeout = value_or(table.parsed("timeout", duration(10 * MS, 10 * MINUTE)), 10 * SECOND);
    let command = socket_command(&mut table, timeout);
    table.finish();
    command
}

fn restart(mut table: Table<'_>) -> Restart {
    let grace = value_or(table.parsed("grace", duration(Duration::ZERO, HOUR)), 30 * SECOND);
    let most = table.number("most", 1, 1000).unwrap_or(5);
    let within = value_or(table.parsed("within", duration(SECOND, 7 * DAY)), HOUR);
    table.finish();
    Restart { grace, budget: Budget { most, within } }
}

fn signal_action(mut table: Table<'_>) -> Option<SignalAction> {
    let given = if table.place_of("name").is_some() {
        // A number is as good as a name here, with or without quotes.
        table.scalar("name")
    } else {
        table.required("name", "name = \"HUP\"", |text| Ok(text.to_owned()))
    };
    let allow_unhandled = table.truth("allow-unhandled");
    let report = table.report;
    table.finish();
    let given = given?;
    match signal(&given.value) {
        Ok(signal) => Some(SignalAction { signal, allow_unhandled }),
        Err(reason) => {
            report.problem(&given.at, reason);
            None
        }
    }
}
