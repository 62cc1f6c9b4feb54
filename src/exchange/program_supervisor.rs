//! The supervisor of a program: a process of podnudge's own, between podnudge and the program.
//!
//! It is the subreaper of all that the program starts, so that nothing detaches from it. It kills all of
//! that when the program has ended, when podnudge says so, and when podnudge itself is gone. Its standard
//! input is a socket for requests and for its report, standard output and error are the program's.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
use signal_hook::consts::SIGCHLD;

use super::report::{Report, Request};
use crate::process::signal::{GroupSignal, send_to_own_group};
use crate::system::lockdown::{self, OomScore};
use podnudge_supervise::descendants;

/// The first argument of podnudge's own process that supervises. The program and its arguments follow.
pub const ALONE: &str = "run-program";

/// How long it tries to end what its program has left: at most 10 ms for each pass. Then podnudge tries.
const PASSES: u32 = 100;
/// How many processes it reaps before it looks at requests again.
const MOST_REAPED: u32 = 1000;

/// The main function of that process. Call it before anything else.
#[must_use]
pub fn alone() -> ExitCode {
    lockdown::close_inherited();
    let oom = OomScore::open();
    lockdown::begin();
    let report = match Supervisor::start(oom) {
        Ok(supervisor) => supervisor.run(),
        Err(error) => Report::NotStarted(error),
    };
    // Without podnudge, there is nobody to tell.
    _ = rustix::io::write(io::stdin().as_fd(), report.to_text().as_bytes());
    ExitCode::SUCCESS
}

/// The program, while it runs.
struct Supervisor {
    program: Pid,
    status: Option<ExitStatus>,
    /// Can be read after each SIGCHLD.
    deaths: UnixStream,
}

impl Supervisor {
    fn start(mut oom: Option<OomScore>) -> io::Result<Self> {
        // A session of its own: no process elsewhere can be in a process group of the program's.
        _ = rustix::process::setsid();
        _ = prctl::set_child_subreaper(true);
        // Continues it when podnudge ends, if its program has stopped it.
        _ = prctl::set_pdeathsig(Signal::SIGCONT);
        lockdown::limit_resources();
        lockdown::handle_all_signals();
        let (deaths, writer) = UnixStream::pair()?;
        deaths.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, writer)?;

        let mut arguments = std::env::args_os().skip(2);
        let program = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        oom.iter_mut().for_each(OomScore::raise);
        let child = command.spawn();
        oom.iter_mut().for_each(OomScore::restore);
        let program = i32::try_from(child?.id()).ok().and_then(Pid::from_raw);
        let program = program.ok_or_else(|| io::Error::other("it has no pid"))?;
        Ok(Self { program, status: None, deaths })
    }

    fn run(mut self) -> Report {
        while !self.is_over() {}
        self.end_all();
        self.status.map_or(Report::Missing, Report::Ended)
    }

    /// Waits for one event. Returns whether the program has ended, or has to.
    fn is_over(&mut self) -> bool {
        let stdin = io::stdin();
        let mut fds = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.deaths.as_fd(), PollFlags::IN),
        ];
        // Interrupted by a signal, it reports no event, and the caller calls again.
        _ = poll(&mut fds, None);
        let [requests, deaths] = fds.map(|fd| !fd.revents().is_empty());
        (deaths && self.has_ended()) || (requests && self.has_to_end())
    }

    /// Whether the program has ended. Reaps what else has ended.
    fn has_ended(&mut self) -> bool {
        while matches!(self.deaths.read(&mut [0; 64]), Ok(64)) {}
        // As long as it is not reaped, nothing else can have the number of its process group.
        let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = rustix::process::waitid(WaitId::Pid(self.program), only_look);
        if matches!(ended, Ok(Some(_))) {
            return true;
        }
        self.reap_dead();
        self.status.is_some()
    }

    /// Handles a request. Returns whether it is to kill.
    fn has_to_end(&self) -> bool {
        let mut byte = [0];
        let length = rustix::io::read(io::stdin().as_fd(), &mut byte).unwrap_or_default();
        match Request::from_byte(byte.get(..length).and_then(<[u8]>::first)) {
            Request::Terminate => {
                send_to_own_group(self.program, GroupSignal::Term);
                false
            }
            Request::Kill => true,
        }
    }

    /// Kills and reaps all that the program has started, and itself.
    fn end_all(&mut self) {
        if self.status.is_none() {
            // All at once: none of the group can fork meanwhile.
            send_to_own_group(self.program, GroupSignal::Kill);
        }
        descendants::end_and_reap(PASSES, &mut || self.reap_dead());
    }

    /// Reaps those that have ended. Returns whether there is no other child, and so no descendant.
    fn reap_dead(&mut self) -> bool {
        // A program could start others faster than they are reaped.
        for _ in 0..MOST_REAPED {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => {
                    self.status = Some(ExitStatus::from_raw(status.as_raw()));
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
        false
    }
}
