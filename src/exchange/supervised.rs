//! A program that runs below its supervisor, as podnudge sees it.
//!
//! Starts the supervisor and reaps it. If it is ended without a report, kills what it has left.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use rustix::event::Timespec;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::children;
use super::report::{MAX_REPORT, Report, Request};
use crate::process::exit_watch::ExitWatch;
use crate::process::signal;

/// How long the event loop waits for the end of a supervisor when nobody waits for its program any more.
/// Then podnudge kills it, and ends what is left.
const ABANDON: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The same in a process that cannot end what is left: one that only uses this library.
const ABANDON_TO_OTHERS: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A supervisor that was started. If it is dropped before its end, its program is killed.
pub(super) struct Supervised {
    child: Option<Child>,
    pid: Pid,
    exit: ExitWatch,
    connection: UnixStream,
}

impl Supervised {
    /// Starts a supervisor.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let (connection, its_end) = UnixStream::pair()?;
        connection.set_nonblocking(true)?;
        let mut child = children::spawn(command.stdin(OwnedFd::from(its_end)))?;
        // The command holds the other end, too.
        command.stdin(std::process::Stdio::null());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let watch = |pid| pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
        let watched = pid.ok_or_else(|| io::Error::other("it has no pid"));
        match watched.and_then(|pid| Ok((pid, ExitWatch::new(watch(pid)?)?))) {
            Ok((pid, exit)) => Ok(Self { child: Some(child), pid, exit, connection }),
            Err(error) => {
                drop(connection);
                drop(children::reap(&mut child));
                Err(error)
            }
        }
    }

    /// Waits until it has ended, and its program and all that this has started with it.
    pub(super) async fn wait_for_exit(&self) {
        self.exit.wait().await;
    }

    /// Sends a request. Its program may have stopped the supervisor, so that is continued.
    pub(super) fn request(&mut self, request: Request) {
        drop(self.connection.write_all(&[request.to_byte()]));
        signal::continue_own_child(self.pid);
    }

    /// Reaps the supervisor, which is killed if it has not ended, and says what became of the program.
    pub(super) fn end(mut self) -> io::Result<Report> {
        self.reap()
    }

    fn reap(&mut self) -> io::Result<Report> {
        let Some(mut child) = self.child.take() else { return Ok(Report::Missing) };
        drop(child.kill());
        children::reap(&mut child)?;
        let mut text = [0; MAX_REPORT];
        let length = self.connection.read(&mut text).unwrap_or_default();
        let report = Report::from_text(text.get(..length).unwrap_or_default());
        match report {
            Report::Missing => children::end_orphans(),
            Report::Ended(_) | Report::NotStarted(_) => children::reap_orphans(),
        }
        Ok(report)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.request(Request::Kill);
            self.exit.block(if children::adopts() { ABANDON } else { ABANDON_TO_OTHERS });
            drop(self.reap());
        }
    }
}
