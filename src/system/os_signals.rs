//! The signals that podnudge itself handles: TERM and INT stop it, HUP triggers, USR1 logs the
//! status.
//!
//! All of them have handlers, because for PID 1 the kernel drops signals without one.

use std::future::poll_fn;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::task::{Context, Poll};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::pipe;
use tokio::net::UnixStream;

/// A signal that podnudge has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsSignal {
    /// TERM or INT: stop.
    Stop,
    /// HUP: trigger an action of all rules.
    Trigger,
    /// USR1: log the status.
    DumpStatus,
}

/// The sockets to which the installed handlers write one byte per signal.
#[derive(Debug)]
pub struct OsSignals(Vec<(OsSignal, UnixStream)>);

impl OsSignals {
    /// Installs the handlers. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If no descriptors are left, or a handler cannot be installed.
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

    /// Waits for the next signal. Cancel safe.
    pub async fn next(&mut self) -> OsSignal {
        poll_fn(|context| self.poll(context, |_| true)).await
    }

    /// Waits for a signal to stop. The others stay for [`Self::next`]. Cancel safe.
    pub async fn stopped(&mut self) {
        poll_fn(|context| self.poll(context, |kind| kind == OsSignal::Stop).map(drop)).await;
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        is_wanted: fn(OsSignal) -> bool,
    ) -> Poll<OsSignal> {
        for (kind, stream) in self.0.iter().filter(|(kind, _)| is_wanted(*kind)) {
            // The readiness may be of a byte that was read already: then poll again.
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
