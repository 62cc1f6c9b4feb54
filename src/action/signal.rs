//! A signal as an action: to all targets, or to none where one of them must not get it.
//!
//! Reads `/proc`; changes nothing but by the signal.

use crate::config::SignalAction;
use crate::core::event::{Absence, Acted};
use crate::process::Chosen;
use crate::process::signal::{SendError, prepare};

/// Sends the signal to all targets, or to none where one of them must not get it. Gives those that
/// it reached.
pub(super) fn send(action: SignalAction, targets: &[Chosen]) -> Result<Vec<&Chosen>, Acted> {
    let mut ready = Vec::new();
    let mut ended = None;
    for target in targets {
        let prepared = prepare(target, action).and_then(|signal| {
            // Alone, the sending itself will tell.
            if targets.len() > 1 {
                signal.is_permitted()?;
            }
            Ok(signal)
        });
        match prepared {
            Ok(signal) => ready.push((target, signal)),
            // Of several, one may have ended by itself; the others are there.
            Err(error @ SendError::Gone(_)) => ended = Some(error),
            Err(error) => return Err(not_sent(&error)),
        }
    }
    let mut sent = Vec::new();
    for (target, signal) in ready {
        match signal.send() {
            Ok(()) => sent.push(target),
            Err(error @ SendError::Gone(_)) => ended = Some(error),
            // Some have it and some do not: only another attempt can make them equal.
            Err(error) if !sent.is_empty() => return Err(Acted::Failed(error.reason())),
            Err(error) => return Err(not_sent(&error)),
        }
    }
    // Whoever got it may have been woken on this processor: podnudge's own work can wait.
    std::thread::yield_now();
    match ended {
        Some(error) if sent.is_empty() => Err(not_sent(&error)),
        _ => Ok(sent),
    }
}

/// Nothing was sent at all.
pub(super) fn not_sent(error: &SendError) -> Acted {
    match error {
        SendError::Gone(reason) | SendError::Starting(reason) => {
            Acted::Absent(Absence::unread(reason.clone()))
        }
        SendError::Refused(reason) => Acted::Refused(reason.clone()),
        SendError::Failed(reason) => Acted::Failed(reason.clone()),
    }
}
