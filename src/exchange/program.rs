//! Runs a program with a time limit and bounded output, and cleans up after it.
//!
//! The program gets its own process group. A pidfd reports its exit while it is still a zombie, so
//! its pid cannot have been reused when podnudge kills the rest of the group; then podnudge reaps
//! it. A process that has left the group keeps running: a program only does that on purpose.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use crate::process::exit_watch::ExitWatch;
use crate::process::signal::{self, GroupSignal};
use crate::reason::Reason;
use crate::shown;

/// The most bytes of output that are kept: the end, where programs report errors.
const MAX_OUTPUT: usize = 4 * 1024;
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the rest of the output after the program has ended.
const OUTPUT_WAIT: Duration = Duration::from_millis(200);

/// The pids of running programs, which `Running` reaps itself.
static RUNNING: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Reaps orphans that programs have left behind. They become children of pid 1, which podnudge is
/// in a container with its own process namespace; elsewhere this does nothing. Must be called on
/// the thread that runs the programs.
pub fn reap_orphans() {
    if !rustix::process::getpid().is_init() {
        return;
    }
    let only_look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) =
        waitid(Id::All, only_look)
    {
        // `Running` reaps its own program; the orphans behind it in the queue come later.
        if running().contains(&pid.as_raw()) || waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
            return;
        }
    }
}

fn running() -> MutexGuard<'static, Vec<i32>> {
    // The list is consistent even after a panic that held the lock.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        return Err(Reason::new("there is no program to run"));
    };
    let name = program.as_ref().to_string_lossy().into_owned();
    let failed = |error: io::Error| cannot_start(&name, &error);
    let (reader, writer) = io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_passed(name, passed)))
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer)
        .process_group(0);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let child = command.spawn().map_err(failed)?;
    // The command holds the write end of the pipe, which must close for the output to end.
    drop(command);
    let mut running = Running::new(child).map_err(failed)?;
    let mut output = Output::new(OwnedFd::from(reader)).map_err(failed)?;

    let is_in_time = timeout(limit, output.read_until(running.wait_for_exit())).await.is_ok();
    if !is_in_time {
        running.signal(GroupSignal::Term);
        if timeout(GRACE, output.read_until(running.wait_for_exit())).await.is_err() {
            running.signal(GroupSignal::Kill);
            output.read_until(running.wait_for_exit()).await;
        }
    }
    let status = running.reap().map_err(failed)?;
    // A process outside the group may hold the pipe open forever.
    drop(timeout(OUTPUT_WAIT, output.read_all()).await);
    let how = if is_in_time {
        describe(status)
    } else {
        format!("did not end within {}", humantime::format_duration(limit))
    };
    let is_exit = is_in_time && status.code().is_some();
    let is_success = is_in_time && status.success();
    Ok(Ended { is_success, is_exit, how, output: shown::lines(&output.kept) })
}

/// Whether a program gets this environment variable of podnudge: others may be secrets of its container.
fn is_passed(name: &OsStr, passed: &[glob::Pattern]) -> bool {
    let Some(name) = name.to_str() else { return false };
    matches!(name, "PATH" | "HOME" | "LANG" | "TZ" | "TMPDIR")
        || name.starts_with("LC_")
        || passed.iter().any(|pattern| pattern.matches(name))
}

/// A program that was started. If it is dropped before it is reaped, it is killed with its group.
struct Running {
    child: Option<Child>,
    pid: Pid,
    exit: ExitWatch,
}

impl Running {
    fn new(mut child: Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("it has no pid"))?;
        let exit =
            pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from).and_then(ExitWatch::new);
        match exit {
            Ok(exit) => {
                running().push(pid.as_raw_nonzero().get());
                Ok(Self { child: Some(child), pid, exit })
            }
            Err(error) => {
                drop(child.kill());
                drop(child.wait());
                Err(error)
            }
        }
    }

    /// Waits until it has ended. Does not reap it.
    async fn wait_for_exit(&self) {
        self.exit.wait().await;
    }

    fn signal(&self, what: GroupSignal) {
        signal::send_to_own_group(self.pid, what);
    }

    /// Kills the rest of its group, and reaps it.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(GroupSignal::Kill);
        match self.child.take() {
            Some(mut child) => {
                let status = child.wait();
                let pid = self.pid.as_raw_nonzero().get();
                running().retain(|running| *running != pid);
                reap_orphans();
                status
            }
            None => Err(io::Error::other("it was reaped already")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.is_some() {
            drop(self.reap());
        }
    }
}

/// The output of a program: all is read, so that the program never blocks, and the end is kept.
struct Output {
    pipe: Option<Receiver>,
    kept: Vec<u8>,
}

impl Output {
    fn new(reader: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(reader.as_fd(), true)?;
        Ok(Self { pipe: Some(Receiver::from_owned_fd(reader)?), kept: Vec::new() })
    }

    /// Reads output until `done` completes.
    async fn read_until(&mut self, done: impl Future<Output = ()>) {
        let mut done = std::pin::pin!(done);
        let mut reading = std::pin::pin!(self.read_all());
        let mut is_read = false;
        std::future::poll_fn(|context| {
            if !is_read && reading.as_mut().poll(context).is_ready() {
                is_read = true;
            }
            done.as_mut().poll(context)
        })
        .await;
    }

    async fn read_all(&mut self) {
        let mut piece = [0; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut piece).await {
                Ok(length @ 1..) => self.keep(piece.get(..length).unwrap_or_default()),
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
        let surplus = self.kept.len().saturating_sub(MAX_OUTPUT);
        self.kept.drain(..surplus);
    }
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
