//! The signals that podnudge itself takes: TERM and INT to end, HUP to trigger, USR1 to show.
//!
//! Handlers are installed for each, so that podnudge takes them as PID 1, too, where the kernel
//! drops what is not handled.

use std::future::poll_fn;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::task::{Context, Poll};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::pipe;
use tokio::net::UnixStream;

/// What a signal asks of podnudge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsSignal {
    /// TERM or INT: end.
    Stop,
    /// HUP: act now.
    Trigger,
    /// USR1: show the status in the log.
    DumpStatus,
}

/// Installed handlers, and where they write to: one byte a signal.
#[derive(Debug)]
pub struct OsSignals(Vec<(OsSignal, UnixStream)>);

impl OsSignals {
    /// Installs the handlers. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If there are no descriptors left, or a handler cannot be installed.
    pub fn register() -> io::Result<Self> {
        let kinds = [
            (OsSignal::Stop, [SIGTERM, SIGINT].as_slice()),
            (OsSignal::Trigger, &[SIGHUP]),
            (OsSignal::DumpStatus, &[SIGUSR1]),
        ];
        let mut streams = Vec::new();
        for (kind, numbers) in kinds {
            let (read, write) = StdUnixStream::pair()?;
            for number in numbers {
                pipe::register(*number, write.try_clone()?)?;
            }
            read.set_nonblocking(true)?;
            streams.push((kind, UnixStream::from_std(read)?));
        }
        Ok(Self(streams))
    }

    /// Waits for the next signal. Nothing is lost if this is dropped before it is ready.
    pub async fn next(&mut self) -> OsSignal {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<OsSignal> {
        for (kind, stream) in &self.0 {
            // Readiness may be left over from a byte that was taken: then ask again.
            while stream.poll_read_ready(context).is_ready() {
                match stream.try_read(&mut [0]) {
                    Ok(1..) => return Poll::Ready(*kind),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The write end lives as long as the process.
                    Ok(0) | Err(_) => break,
                }
            }
        }
        Poll::Pending
    }
}
