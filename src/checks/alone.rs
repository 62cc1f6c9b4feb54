//! Parses a text in a process of its own, podnudge started again: what the parser takes is limited by the
//! kernel, and given back when the process ends. Contents that podnudge's own process parses one after the
//! other would leave their free memory there.
//!
//! Starts that process, gives it the text, and kills it if it does not answer in time. Only what the text
//! itself causes refuses it: an answer, or the end of the process by a limit that is as high as it should
//! be. Any other end says nothing about the text.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitCode, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use signal_hook::consts::{SIGABRT, SIGXCPU};

use super::answer::{Answer, MAX_ANSWER};
use super::refusal::{Parse, Refusal};
use super::{toml, yaml};
use crate::exchange::children;
use crate::system::exit::Exit;
use podnudge_core::reason::Reason;

/// The first argument of that process. The second is the syntax, the third the length of the text.
pub const ALONE: &str = "parse";

/// The longest text that podnudge parses itself, in bytes. A parser takes at most 200 bytes for each.
const MAX_OWN: usize = 16 * 1024;
/// The limits of the process: with the text and its page tables, less than 13 MiB.
const MAX_BYTES: u64 = 11 * 1024 * 1024;
const MAX_SECONDS: u64 = 5;
/// The soft and the hard limits. The soft limit on time ends the process by SIGXCPU; the hard one would end
/// it by SIGKILL, which others send, too.
const LIMITS: [(Resource, u64, u64); 2] =
    [(Resource::Data, MAX_BYTES, MAX_BYTES), (Resource::Cpu, MAX_SECONDS, MAX_SECONDS + 1)];
/// With a lower limit on addresses, memory may run out before [`MAX_BYTES`] are in use.
const MIN_ADDRESSES: u64 = 128 * 1024 * 1024;
/// How long podnudge waits for the answer, in seconds: other checks wait behind this one.
const MAX_WAIT: i64 = 10;

/// The parsers that need much memory for some texts, by the name of their syntax.
const PARSERS: [(&str, Parse); 2] = [("YAML", yaml::parse), ("TOML", toml::parse)];

/// Parses a text, a short one at once.
pub(super) fn parse(syntax: &str, parse: Parse, text: &str) -> Result<(), Refusal> {
    let is_listed = PARSERS.iter().any(|(name, _)| *name == syntax);
    if text.len() <= MAX_OWN || !is_listed {
        return parse(text);
    }
    let failed = |error: io::Error| {
        Refusal::Failed(Reason::new(format!("cannot start podnudge's own parser: {error}")))
    };
    let mut command = children::command(ALONE);
    command.arg(syntax).arg(text.len().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = children::spawn(&mut command).map_err(failed)?;
    let answer = ask(&mut child, text);
    // It makes no progress, or it is ending: then its status is certain, because the kernel closes its
    // output later. If it cannot be ended, other rules must not wait for that.
    drop(child.kill());
    let status = children::reap(&mut child).map_err(failed)?;
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => no_answer(&format!("has not answered within {MAX_WAIT} s")),
        _ => failed(error),
    })?;
    match Answer::from_text(&answer) {
        Some(answer) => answer.result(),
        None => Err(match status {
            Some(status) if is_exhausted(status) => exhausted(),
            Some(status) => no_answer(&format!("has ended without an answer ({status})")),
            None => no_answer("gives no answer and does not end"),
        }),
    }
}

/// Gives the process its text, and returns what it answers until it ends.
fn ask(child: &mut Child, text: &str) -> io::Result<Vec<u8>> {
    let (mut input, output) = (child.stdin.take(), child.stdout.take());
    let mut output = output.ok_or(io::ErrorKind::BrokenPipe)?;
    if let Some(input) = &input {
        rustix::io::ioctl_fionbio(input, true)?;
    }
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let end = Timespec { tv_sec: MAX_WAIT, tv_nsec: 0 };
    let once = Itimerspec { it_interval: never, it_value: end };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;

    let (mut rest, mut answer) = (text.as_bytes(), Vec::new());
    while answer.len() <= MAX_ANSWER {
        let mut fds = vec![
            PollFd::from_borrowed_fd(timer.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN),
        ];
        fds.extend(input.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT)));
        // Interrupted by a signal, it reports no event.
        _ = poll(&mut fds, None);
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = || ready.next().unwrap_or(false);
        let (is_late, has_answer, takes_more) = (next(), next(), next());
        if is_late {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if takes_more && let Some(fd) = &mut input {
            match fd.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if is_temporary(&error) => {}
                // It reads no more: its answer or its end says why.
                Err(_) => rest = &[],
            }
            if rest.is_empty() {
                input = None;
            }
        }
        if has_answer {
            let mut part = [0; MAX_ANSWER];
            match output.read(&mut part) {
                Ok(0) => break,
                Ok(length) => answer.extend(part.iter().take(length)),
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(answer)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether the text has taken all that a check may take. An allocation that fails ends the process by
/// SIGABRT. It has the limits of this process where these are lower, and then they say nothing about the text.
fn is_exhausted(status: ExitStatus) -> bool {
    let has = |most: Option<u64>, least: u64| most.is_none_or(|most| most >= least);
    match status.signal() {
        Some(SIGXCPU) => has(getrlimit(Resource::Cpu).maximum, MAX_SECONDS + 1),
        Some(SIGABRT) => {
            has(getrlimit(Resource::Data).maximum, MAX_BYTES)
                && has(getrlimit(Resource::As).current, MIN_ADDRESSES)
        }
        _ => false,
    }
}

fn exhausted() -> Refusal {
    let most = MAX_BYTES / 1024 / 1024;
    Refusal::TooLarge(format!(
        "lists or maps in brackets, texts or keys, for which a parser needs more than {most} MiB of memory or {MAX_SECONDS} s"
    ))
}

fn no_answer(what: &str) -> Refusal {
    let hint = "podnudge's container needs more memory or CPU time, which `resources.limits` sets: the kernel \
                ends this process first if memory is short";
    Refusal::Failed(Reason::new(format!("podnudge's own parser {what}")).hint(hint))
}

/// The main function of that process: reads a text from standard input, and answers.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || arguments.next().and_then(|argument| argument.into_string().ok());
    let (syntax, length) = (next(), next().and_then(|length| length.parse().ok()));
    let parser = PARSERS.iter().find(|(name, _)| Some(*name) == syntax.as_deref());
    let (Some((_, parse)), Some(length)) = (parser, length) else { return Exit::Usage.into() };
    let answer = match limit().and_then(|()| text(length)) {
        Ok(text) => Answer::of(parse(&text)),
        Err(error) => Answer::NotRun(error.to_string()),
    };
    match io::stdout().write_all(answer.to_text().as_bytes()) {
        Ok(()) => Exit::Ok.into(),
        Err(_) => Exit::Io.into(),
    }
}

fn limit() -> io::Result<()> {
    for (resource, soft, hard) in LIMITS {
        setrlimit(resource, lowered(getrlimit(resource).maximum, soft, hard))?;
    }
    Ok(())
}

/// The limits to set: `soft` and `hard`, or the existing hard limit, which nobody may raise; the soft limit stays as
/// far below the hard one.
fn lowered(now: Option<u64>, soft: u64, hard: u64) -> Rlimit {
    let maximum = now.map_or(hard, |now| now.min(hard));
    // The kernel takes 0 s for 1 s.
    let current = maximum.saturating_sub(hard.saturating_sub(soft));
    Rlimit { current: Some(current), maximum: Some(maximum) }
}

fn text(length: usize) -> io::Result<String> {
    let mut text = String::with_capacity(length);
    io::stdin().read_to_string(&mut text)?;
    if text.len() == length { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_only_lowered_and_time_runs_out_by_the_soft_one_first() {
        for (now, soft, hard) in
            [(None, 5, 6), (Some(100), 5, 6), (Some(6), 5, 6), (Some(3), 2, 3), (Some(0), 0, 0)]
        {
            let limit = lowered(now, MAX_SECONDS, MAX_SECONDS + 1);
            assert_eq!((limit.current, limit.maximum), (Some(soft), Some(hard)), "{now:?}");
        }
        let limit = lowered(Some(1), MAX_BYTES, MAX_BYTES);
        assert_eq!((limit.current, limit.maximum), (Some(1), Some(1)));
    }

    #[test]
    fn only_the_ends_by_a_limit_say_something_about_the_text() {
        // Of a signal, and with a core dump.
        assert!(is_exhausted(ExitStatus::from_raw(SIGXCPU)));
        assert!(is_exhausted(ExitStatus::from_raw(SIGABRT | 0x80)));
        // SIGKILL, SIGSEGV, SIGTERM, and exit codes.
        for raw in [9, 11, 15, 0, Exit::Io as i32 * 256, Exit::Bug as i32 * 256] {
            assert!(!is_exhausted(ExitStatus::from_raw(raw)), "{raw}");
        }
    }
}
