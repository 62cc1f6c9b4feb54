//! Starts the supervised command as its container would: with the arguments, environment, descriptors,
//! signal mask and dispositions that the supervisor was started with.
//!
//! Starts one process; may change the foreground process group of the terminal.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::signal::continue_own_child;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The command, as it is started each time.
pub(super) struct Command {
    arguments: Vec<CString>,
    environment: fn() -> std::env::VarsOs,
    mask: SigSet,
    /// Whether the supervisor was in the foreground of a terminal.
    has_terminal: bool,
}

/// Why no command runs.
#[derive(Debug)]
pub struct NotStarted {
    /// What the exit code says.
    pub cause: Cause,
    /// What standard error says.
    pub reason: Reason,
}

/// The kind of a failure to start the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The command line is wrong.
    Usage,
    /// Signals cannot be read.
    Unavailable,
    /// The program cannot be executed.
    NotExecutable,
    /// There is no such program, or what it needs first is missing.
    NotFound,
}

impl Command {
    /// The command with this signal mask. The environment is read at each start, and not kept.
    ///
    /// # Errors
    /// If an argument contains a NUL, which the kernel itself never passes.
    pub(super) fn new(
        arguments: Vec<OsString>,
        environment: fn() -> std::env::VarsOs,
        mask: SigSet,
    ) -> Result<Self, Reason> {
        let text = |argument: OsString| CString::new(argument.into_vec());
        let arguments = arguments.into_iter().map(text).collect::<Result<_, _>>();
        let arguments = arguments.map_err(|_| Reason::new("an argument contains a NUL"))?;
        let has_terminal = tcgetpgrp(io::stdin().as_fd()).is_ok_and(|group| group == getpgrp());
        Ok(Self { arguments, environment, mask, has_terminal })
    }

    /// The name of its program, for messages.
    pub(super) fn name(&self) -> String {
        let name = self.arguments.first().map(|name| name.to_string_lossy().into_owned());
        shown::text(&name.unwrap_or_default())
    }

    /// Starts it, in a process group of its own: what it sends to its group must not reach the supervisor,
    /// which would pass it on to the command again.
    pub(super) fn start(&self) -> Result<Pid, NotStarted> {
        let pid = self.spawn().map_err(|error| self.not_started(error))?;
        let no_pid = || self.not_started(Errno::ESRCH);
        let pid = Pid::from_raw(pid.as_raw()).ok_or_else(no_pid)?;
        // Allowed also from the background, because the supervisor blocks TTOU (tcsetpgrp(3)).
        if self.has_terminal && tcsetpgrp(io::stdin().as_fd(), pid).is_ok() {
            // It may have stopped already, because it used the terminal from the background.
            continue_own_child(pid);
        }
        Ok(pid)
    }

    fn spawn(&self) -> Result<nix::unistd::Pid, Errno> {
        let Some(program) = self.arguments.first() else { return Err(Errno::ENOENT) };
        let variable = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            CString::new(name.into_vec()).ok()
        };
        let environment: Vec<CString> = (self.environment)().filter_map(variable).collect();
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
                | PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
        )?;
        attributes.set_sigmask(&self.mask)?;
        // The standard library ignores PIPE in this process from its start on.
        attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        attributes.set_pgroup(nix::unistd::Pid::from_raw(0))?;
        let no_change = PosixSpawnFileActions::init()?;
        posix_spawnp(program, &no_change, &attributes, &self.arguments, &environment)
    }

    fn not_started(&self, error: Errno) -> NotStarted {
        let name = self.name();
        let reason = Reason::new(format!("cannot start `{name}`: {}", error.desc()));
        // The kernel says the same of a script whose interpreter is missing.
        let is_there = name.contains('/') && Path::new(&name).exists();
        let (hint, cause) = match error {
            Errno::ENOENT if is_there => {
                let hint = "it is there, but not the interpreter that its first line names, or its dynamic loader";
                (hint, Cause::NotFound)
            }
            Errno::ENOENT if name.contains('/') => {
                ("name a program of the container's image", Cause::NotFound)
            }
            Errno::ENOENT => {
                ("name a program in a directory of PATH, or its whole path", Cause::NotFound)
            }
            Errno::EACCES => {
                let hint = "it must be a file that the user of the container may execute, on a volume that is not mounted `noexec`";
                (hint, Cause::NotExecutable)
            }
            Errno::ENOEXEC => {
                let hint = "a script begins with a line such as `#!/bin/sh`; a program must be for this processor";
                (hint, Cause::NotExecutable)
            }
            _ => return NotStarted { cause: Cause::NotExecutable, reason },
        };
        NotStarted { cause, reason: reason.hint(hint) }
    }
}
