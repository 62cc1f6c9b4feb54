//! What podnudge and the supervisor of a program say to each other. Pure.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// The longest report.
pub(super) const MAX_REPORT: usize = 64;

/// A request to the supervisor. The end of the connection is a request to kill, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// Send SIGTERM to the program's process group.
    Terminate,
    /// Kill the program and all that it has started.
    Kill,
}

impl Request {
    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::Terminate => b't',
            Self::Kill => b'k',
        }
    }

    pub(super) fn from_byte(byte: Option<&u8>) -> Self {
        if byte == Some(&b't') { Self::Terminate } else { Self::Kill }
    }
}

/// What the supervisor says of its program in the end.
#[derive(Debug)]
pub(super) enum Report {
    /// The program has ended with this status.
    Ended(ExitStatus),
    /// The program could not be started.
    NotStarted(io::Error),
    /// Nothing: something has ended the supervisor.
    Missing,
}

impl Report {
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Ended(status) => format!("ended {}", status.into_raw()),
            Self::NotStarted(error) => format!("failed {}", error.raw_os_error().unwrap_or(0)),
            Self::Missing => String::new(),
        }
    }

    pub(super) fn from_text(text: &[u8]) -> Self {
        let parse = || {
            let (what, number) = std::str::from_utf8(text).ok()?.split_once(' ')?;
            let number = number.parse().ok()?;
            match what {
                "ended" => Some(Self::Ended(ExitStatus::from_raw(number))),
                "failed" => Some(Self::NotStarted(io::Error::from_raw_os_error(number))),
                _ => None,
            }
        };
        parse().unwrap_or(Self::Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for raw in [0, 0x300, 9, 0x8b, 40] {
            let text = Report::Ended(ExitStatus::from_raw(raw)).to_text();
            assert!(text.len() <= MAX_REPORT);
            let read = Report::from_text(text.as_bytes());
            assert!(matches!(read, Report::Ended(status) if status.into_raw() == raw), "{text}");
        }
        let text = Report::NotStarted(io::Error::from_raw_os_error(2)).to_text();
        let read = Report::from_text(text.as_bytes());
        assert!(matches!(read, Report::NotStarted(e) if e.kind() == io::ErrorKind::NotFound));
        assert!(matches!(Report::from_text(b""), Report::Missing));
        assert!(matches!(Report::from_text(b"ended x"), Report::Missing));
    }
}
