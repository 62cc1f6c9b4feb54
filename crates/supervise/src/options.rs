//! The command line of `podnudge supervise`. Pure.
//!
//! It is parsed here and not by clap, which alone would need most of the memory that the supervisor may
//! have. Clap prints the help (`src/cli/help.rs`).

#[cfg(test)]
#[path = "../../../tests/fuzz/supervise.rs"]
mod fuzz;

use std::ffi::{OsStr, OsString};
use std::str::FromStr as _;
use std::time::Duration;

use nix::sys::signal::Signal;

use podnudge_core::duration::bounded_duration;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The longest time that the command may have to end.
const MOST_GRACE: Duration = Duration::from_hours(1);
/// Less than `grace` of `[rule.restart]` and than `terminationGracePeriodSeconds`, which both are 30 s by
/// default: the supervisor ends the command before somebody else ends both.
const GRACE: Duration = Duration::from_secs(25);
const HINT: &str =
    "name it after `--`, as in `podnudge supervise --grace 10s -- nginx -g 'daemon off;'`";

/// What to start, and how to end it for a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// How long the command may take to end after `stop` before it is killed.
    pub(super) grace: Duration,
    /// The signal that ends the command for a restart.
    pub(super) stop: Signal,
    /// The program and its arguments.
    pub(super) command: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// Supervise a command.
    Supervise(Options),
    /// Print the help.
    Help,
}

/// Parses the arguments after `supervise`. The first one that is no option begins the command.
///
/// # Errors
/// If an option is unknown or wrong, or if there is no command.
pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, Reason> {
    let mut arguments = arguments.into_iter().peekable();
    let (mut grace, mut stop) = (GRACE, Signal::SIGTERM);
    while let Some(option) = arguments.next_if(|next| next.as_encoded_bytes().starts_with(b"-")) {
        let text = option.to_string_lossy().into_owned();
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_str(), None),
        };
        let mut value = || {
            let next = || arguments.next().map(|next| next.to_string_lossy().into_owned());
            inline.clone().or_else(next).ok_or_else(|| Reason::new(format!("{name} needs a value")))
        };
        let wrong =
            |reason: Reason| Reason { message: format!("{name}: {}", reason.message), ..reason };
        match name {
            "--" if inline.is_none() => break,
            "-h" | "--help" => return Ok(Asked::Help),
            "--grace" => {
                let parsed = bounded_duration(&value()?, Duration::ZERO, MOST_GRACE);
                grace = parsed.map_err(wrong)?;
            }
            "--stop-signal" => stop = signal(&value()?).map_err(wrong)?,
            _ => {
                let text = shown::text(&text);
                return Err(Reason::new(format!("unknown option `{text}`"))
                    .hint("the options are `--grace TIME` and `--stop-signal NAME`; those of the command follow after `--`"));
            }
        }
    }
    let command: Vec<OsString> = arguments.collect();
    let is_named = command.first().is_some_and(|program| program.as_os_str() != OsStr::new(""));
    if !is_named {
        return Err(Reason::new("there is no command to start").hint(HINT));
    }
    Ok(Asked::Supervise(Options { grace, stop, command }))
}

/// A signal that a process can handle, by its name.
fn signal(text: &str) -> Result<Signal, Reason> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = Signal::from_str(&format!("SIG{name}")).ok();
    let can_end = |signal: &Signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP);
    known.filter(can_end).ok_or_else(|| {
        Reason::new(format!(
            "`{}` is no signal on which a program can end itself",
            shown::text(text)
        ))
        .hint(
            "most programs end on `TERM`; nginx and php-fpm finish their requests first on `QUIT`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Asked, String> {
        parse(arguments.iter().map(OsString::from)).map_err(|reason| reason.message)
    }

    fn supervise(grace: u64, stop: Signal, command: &[&str]) -> Asked {
        let command = command.iter().map(OsString::from).collect();
        Asked::Supervise(Options { grace: Duration::from_secs(grace), stop, command })
    }

    #[test]
    fn options_end_where_the_command_begins() {
        use Signal::{SIGQUIT, SIGTERM};
        for (arguments, wanted) in [
            (&["--", "app", "--grace"][..], supervise(25, SIGTERM, &["app", "--grace"])),
            (&["app", "-h"], supervise(25, SIGTERM, &["app", "-h"])),
            (
                &["--grace", "3s", "--stop-signal=quit", "--", "-app", "--"],
                supervise(3, SIGQUIT, &["-app", "--"]),
            ),
            (&["--grace=0s", "--stop-signal", "SIGQUIT", "a"], supervise(0, SIGQUIT, &["a"])),
            (&["--help", "--", "app"], Asked::Help),
        ] {
            assert_eq!(parsed(arguments), Ok(wanted));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (arguments, wanted) in [
            (&[][..], "there is no command to start"),
            (&["--"], "there is no command to start"),
            (&[""], "there is no command to start"),
            (&["--grace"], "--grace needs a value"),
            (&["--grace", "5", "app"], "--grace: "),
            (&["--grace", "2h", "app"], "--grace: must be at most `1h`, not `2h`"),
            (&["--stop-signal=KILL", "app"], "--stop-signal: `KILL` is no signal"),
            (&["--stop-signal=40", "app"], "--stop-signal: `40` is no signal"),
            (&["-x\u{1b}", "app"], "unknown option `-x\\u{1b}`"),
        ] {
            let refused = parsed(arguments).expect_err("it is refused");
            assert!(refused.starts_with(wanted), "{arguments:?}: {refused}");
        }
    }
}
