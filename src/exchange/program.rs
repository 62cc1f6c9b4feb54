//! Runs a program with a time limit and bounded output, and leaves no process behind: each program has a
//! supervisor (`program_supervisor.rs`), a process of podnudge's own.
//!
//! The supervisor is podnudge, started again (`children.rs`). A socket between the two carries requests and the report
//! (`report.rs`). That the socket can be read is also how podnudge learns of the end, without a pidfd
//! (`program_process.rs`). If the program kills its supervisor, podnudge, a subreaper, too, ends what is left, but never a
//! child that it has started itself. The event loop waits some 70 ms for that; the thread that reads volumes does the
//! rest.
//!
//! Starts that process.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::timeout;

use super::children;
use super::output::Output;
use super::program_process::Supervised;
use super::program_supervisor::ALONE;
use super::report::{Report, Request};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// The time between SIGKILL and the end of a supervisor that does not answer.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// How long to wait for the rest of the output after the program has ended.
const OUTPUT_WAIT: Duration = Duration::from_millis(200);

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Whether it ended with exit code 0.
    pub is_success: bool,
    /// Whether it ended with an exit code, and not by a signal or the time limit.
    pub is_exit: bool,
    /// `ended with 1`, `was ended by SIGSEGV`, `did not end within 10s`.
    pub how: String,
    /// The end of what it wrote to standard output and standard error, as text.
    pub output: String,
}

/// Whether a program exists and is executable: at its path, or without a slash, in a directory of `PATH`.
#[must_use]
pub fn exists(program: &str) -> bool {
    let is_executable = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    // What execvp(3) searches without `PATH`.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}

/// Runs a program to completion, or terminates it when `limit` has passed. `arguments` begins with
/// the program, which is searched in `PATH` if it has no slash.
///
/// # Errors
/// If it cannot be started.
pub async fn run<A: AsRef<OsStr>>(
    arguments: &[A],
    environment: &[(&str, &OsStr)],
    passed: &[glob::Pattern],
    folder: Option<&Path>,
    limit: Duration,
) -> Result<Ended, Reason> {
    let [program, arguments @ ..] = arguments else {
        return Err(Reason::new("the program is that of a preset, which was not chosen yet"));
    };
    let name = program.as_ref().to_string_lossy().into_owned();
    let failed = |error: io::Error| cannot_start(&name, &error);
    let (reader, writer) = io::pipe().map_err(failed)?;
    let mut command = children::command(ALONE);
    command
        .arg(program)
        .args(arguments)
        .envs(std::env::vars_os().filter(|(name, _)| is_passed(name, passed)))
        .envs(environment.iter().copied())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let mut supervised = Supervised::start(&mut command).map_err(failed)?;
    // The command holds the write end of the pipe, which must close for the output to end.
    drop(command);
    let mut output = Output::new(OwnedFd::from(reader)).map_err(failed)?;

    let is_in_time = timeout(limit, output.read_until(supervised.wait_for_end())).await.is_ok();
    if !is_in_time {
        supervised.request(Request::Terminate);
        if timeout(GRACE, output.read_until(supervised.wait_for_end())).await.is_err() {
            supervised.request(Request::Kill);
            drop(timeout(KILL_WAIT, output.read_until(supervised.wait_for_end())).await);
        }
    }
    let report = supervised.end().map_err(failed)?;
    // A process that could not be ended may hold the pipe open forever.
    drop(timeout(OUTPUT_WAIT, output.read_all()).await);
    let is_exit = matches!(&report, Report::Ended(status) if status.code().is_some()) && is_in_time;
    let is_success = matches!(&report, Report::Ended(status) if status.success()) && is_in_time;
    let how = match report {
        _ if !is_in_time => format!("did not end within {}", humantime::format_duration(limit)),
        Report::Ended(status) => describe(status),
        Report::NotStarted(error) => return Err(failed(error)),
        Report::Missing => "was ended, because something has ended its supervisor".to_owned(),
    };
    Ok(Ended { is_success, is_exit, how, output: output.text() })
}

/// Whether a program gets this environment variable of podnudge: others may be secrets of its container.
fn is_passed(name: &OsStr, passed: &[glob::Pattern]) -> bool {
    let Some(name) = name.to_str() else { return false };
    matches!(name, "PATH" | "HOME" | "LANG" | "TZ" | "TMPDIR")
        || name.starts_with("LC_")
        || passed.iter().any(|pattern| pattern.matches(name))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(number)) => match nix::sys::signal::Signal::try_from(number) {
            Ok(signal) => format!("was ended by {signal}"),
            Err(_) => format!("was ended by signal {number}"),
        },
        (None, None) => "ended".to_owned(),
    }
}

/// Describes a program that ended with exit code 0.
#[must_use]
pub fn success_message(arguments: &[String], ended: &Ended) -> String {
    let said = failure(arguments, &ended.how, &ended.output).message;
    said.replace('\n', " ")
}

/// Describes a program that failed: its configured arguments, how it ended, and its output.
#[must_use]
pub fn failure(arguments: &[String], how: &str, said: &str) -> Reason {
    let program = shown::program(arguments);
    let colon = if said.is_empty() { "" } else { ": " };
    Reason::new(format!("`{program}` {how}{colon}{said}"))
}

fn cannot_start(program: &str, error: &io::Error) -> Reason {
    let reason = Reason::new(format!("cannot run `{}`: {error}", shown::text(program)));
    match error.kind() {
        io::ErrorKind::NotFound => reason.hint(
            "podnudge's own image contains no other program; run podnudge in the application's image",
        ),
        io::ErrorKind::PermissionDenied => reason.hint("it must be executable for podnudge's uid"),
        _ => reason,
    }
}
