//! A program that runs below its supervisor, as podnudge sees it.
//!
//! Starts the supervisor and reaps it. If it is ended without a report, kills what it has left.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use tokio::net::UnixStream;

use super::children;
use super::report::{MAX_REPORT, Report, Request};
use podnudge_supervise::signal::continue_own_child;

/// How long the event loop waits for the report of a supervisor when nobody waits for its program any more.
/// Then podnudge kills it, waits as long again for its end, and ends what is left.
const ABANDON: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// How long a process waits that cannot end what is left: one that only uses this library.
const ABANDON_TO_OTHERS: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A supervisor that was started. If it is dropped before its end, its program is killed.
pub(super) struct Supervised {
    child: Option<Child>,
    pid: Pid,
    /// A socket whose other end is the supervisor's alone, which writes its report there and nothing else: it can be
    /// read as soon as there is a report, or the supervisor has ended. That needs no pidfd, which some
    /// seccomp profiles refuse.
    connection: UnixStream,
}

impl Supervised {
    /// Starts a supervisor.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let (connection, its_end) = std::os::unix::net::UnixStream::pair()?;
        connection.set_nonblocking(true)?;
        let connection = UnixStream::from_std(connection)?;
        let mut child = children::spawn(command.stdin(OwnedFd::from(its_end)))?;
        // The command holds the other end, too.
        command.stdin(std::process::Stdio::null());
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            drop(connection);
            drop(children::reap_at_once(&mut child));
            return Err(io::Error::other("it has no pid"));
        };
        Ok(Self { child: Some(child), pid, connection })
    }

    /// Waits until its program has ended, and all that this has started with it.
    pub(super) async fn wait_for_end(&self) {
        // On an error there is nothing left to wait for.
        drop(self.connection.readable().await);
    }

    /// Waits as [`Self::wait_for_end`] does, but blocks, at most this long.
    fn block_until_end(&self, limit: Timespec) {
        let connection = PollFd::from_borrowed_fd(self.connection.as_fd(), PollFlags::IN);
        _ = poll(&mut [connection], Some(&limit));
    }

    /// Sends a request. Its program may have stopped the supervisor, so that is continued.
    pub(super) fn request(&mut self, request: Request) {
        _ = rustix::io::write(self.connection.as_fd(), &[request.to_byte()]);
        continue_own_child(self.pid);
    }

    /// Reaps the supervisor, which is killed if it has not ended, and says what became of the program.
    pub(super) fn end(mut self) -> io::Result<Report> {
        self.reap()
    }

    fn reap(&mut self) -> io::Result<Report> {
        let Some(mut child) = self.child.take() else { return Ok(Report::Missing) };
        drop(child.kill());
        children::reap_at_once(&mut child)?;
        let mut text = [0; MAX_REPORT];
        let length = rustix::io::read(self.connection.as_fd(), &mut text).unwrap_or_default();
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
            self.block_until_end(if children::adopts() { ABANDON } else { ABANDON_TO_OTHERS });
            drop(self.reap());
        }
    }
}
