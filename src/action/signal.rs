//! Sends a signal as an action: to all targets, or to none if one of them must not get it.
//!
//! Reads `/proc`; changes nothing except by the signal.

use crate::process::signal::{SendError, prepare};
use crate::process::{Context, TargetProcess};
use podnudge_config::{Rule, SignalAction};
use podnudge_core::command::Act;
use podnudge_core::event::{Absence, Acted};

/// Sends the signal to all targets, or to none if one of them must not get it. Returns those that
/// received it.
pub(super) fn send<'a>(
    context: &Context,
    rule: &Rule,
    act: &Act,
    action: SignalAction,
    targets: &'a [TargetProcess],
) -> Result<Vec<&'a TargetProcess>, Acted> {
    let known = |target: &TargetProcess| context.ends.reason(&target.comm, action.name);
    if let Some(reason) = targets.iter().find_map(known).filter(|_| !action.allow_unhandled) {
        return Err(Acted::Refused(reason));
    }
    let mut ready = Vec::new();
    let mut ended = None;
    for target in targets {
        let prepared = prepare(target, action).and_then(|signal| {
            // With a single target, the sending itself checks the permission.
            if targets.len() > 1 {
                signal.check_permission()?;
            }
            Ok(signal)
        });
        match prepared {
            Ok(signal) => ready.push((target, signal)),
            // Of several targets, one may have ended on its own.
            Err(error @ SendError::Gone(_)) => ended = Some(error),
            Err(error) => return Err(not_sent(&error)),
        }
    }
    let mut sent = Vec::new();
    for (target, signal) in ready {
        match signal.send() {
            Ok(()) => {
                context.ends.sent(rule, (target.identity, &target.comm), action.name, act);
                sent.push(target);
            }
            Err(error @ SendError::Gone(_)) => ended = Some(error),
            // Some targets have received the signal: only another attempt can reach all of them.
            Err(error) if !sent.is_empty() => return Err(Acted::Failed(error.reason())),
            Err(error) => return Err(not_sent(&error)),
        }
    }
    // The target may have been woken on this CPU: let it run first.
    std::thread::yield_now();
    match ended {
        Some(error) if sent.is_empty() => Err(not_sent(&error)),
        _ => Ok(sent),
    }
}

/// The result if no signal was sent.
pub(super) fn not_sent(error: &SendError) -> Acted {
    match error {
        SendError::Gone(reason) | SendError::Starting(reason) => {
            Acted::Absent(Absence::unread(reason.clone()))
        }
        SendError::Refused(reason) => Acted::Refused(reason.clone()),
        SendError::Failed(reason) => Acted::Failed(reason.clone()),
    }
}
