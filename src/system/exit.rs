//! The exit codes, which follow `sysexits.h`, and the format of error messages. Pure; `main.rs`
//! prints and exits.

use std::error::Error;
use std::process::ExitCode;

/// An exit code for scripts and for the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: success, or stopped by a signal.
    Ok = 0,
    /// 1: `podnudge status`: a rule is not in sync; `podnudge doctor`: something is wrong.
    NotInSync = 1,
    /// 64 (`EX_USAGE`): the command line is wrong.
    Usage = 64,
    /// 65 (`EX_DATAERR`): `podnudge once`: the content was rejected.
    Data = 65,
    /// 66 (`EX_NOINPUT`): the configuration file is missing or cannot be read.
    NoInput = 66,
    /// 69 (`EX_UNAVAILABLE`): something that podnudge needs is not available, such as the
    /// configured port, or for `podnudge status` the agent.
    Unavailable = 69,
    /// 70 (`EX_SOFTWARE`): a bug in podnudge.
    Bug = 70,
    /// 74 (`EX_IOERR`): output could not be written.
    Io = 74,
    /// 78 (`EX_CONFIG`): the configuration is wrong.
    Config = 78,
    /// 126, as of shells and env(1): `podnudge supervise`: the program cannot be executed.
    NotExecutable = 126,
    /// 127, as of shells and env(1): `podnudge supervise`: there is no such program.
    NotFound = 127,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Formats an error and its sources as one sentence.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Formats an error for standard error, with its hint on a line of its own.
#[must_use]
pub fn sentence(message: &str, hint: Option<&str>) -> String {
    let hint = hint.map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    format!("podnudge: {message}{hint}\n")
}
