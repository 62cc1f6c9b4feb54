//! Standard error, without waiting for its reader: lines for which it has no room are dropped and
//! counted. If nobody reads the pipe, podnudge still reloads, answers and ends.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What fits if a pipe has any room (`PIPE_BUF`, pipe(7)).
const ATOMIC: usize = 4096;

static STATE: Mutex<State> = Mutex::new(State { dropped: 0, is_cut: false });

struct State {
    /// The number of lines that were dropped.
    dropped: u64,
    /// Whether the last line lacks its end.
    is_cut: bool,
}

/// Writes lines, as long as there is room.
#[derive(Debug, Clone, Copy)]
pub struct Lines;

/// How many lines were dropped so far.
#[must_use]
pub fn dropped() -> u64 {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).dropped
}

/// Writes a text if there is room within a second.
pub fn print(text: &str) {
    if has_room(Duration::from_secs(1)) {
        // Without standard error there is nobody to tell.
        _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_cut {
            state.is_cut = write(b"\n").is_err();
        }
        if state.is_cut || write(line).inspect_err(|cut| state.is_cut = *cut).is_err() {
            state.dropped = state.dropped.saturating_add(1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line. If there is no room for all of it, returns whether a part of it was written.
fn write(line: &[u8]) -> Result<(), bool> {
    for (number, part) in line.chunks(ATOMIC).enumerate() {
        if !has_room(Duration::ZERO) || io::stderr().write_all(part).is_err() {
            return Err(number > 0);
        }
    }
    Ok(())
}

/// Whether a part of a line can be written without a wait. Files and terminals always have room.
fn has_room(within: Duration) -> bool {
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let within = Timespec::try_from(within).unwrap_or_default();
    loop {
        match poll(&mut polled, Some(&within)) {
            Err(Errno::INTR) => {}
            Err(_) => return true,
            Ok(ready) => return ready > 0,
        }
    }
}
