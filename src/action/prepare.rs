//! Prepares an action without sending anything: whether its signals may be sent. The pod is taken out of
//! its Services only for an action that can take place.
//!
//! Reads `/proc`; changes nothing.

use super::restart::replaced;
use super::signal::not_sent;
use crate::process::signal::prepare as prepare_signal;
use crate::process::{Supervised, TargetProcess};
use podnudge_config::{Action, Rule};
use podnudge_core::command::Act;
use podnudge_core::event::Acted;

/// Checks that the signals of the action may be sent to these targets.
///
/// # Errors
/// With what the action would answer, if one of them must not or cannot be sent.
pub(super) fn prepare(rule: &Rule, act: &Act, targets: &[TargetProcess]) -> Result<(), Acted> {
    let restarts = act.restart || rule.restarts_target();
    let replaced = if restarts { replaced(targets) } else { Vec::new() };
    let ended = replaced.iter().map(Supervised::signalled);
    let signals = rule.actions.iter().filter(|_| !act.restart).filter_map(|action| match action {
        Action::Signal(signal) => Some(*signal),
        _ => None,
    });
    let sent = signals.flat_map(|signal| targets.iter().map(move |target| (target, signal)));
    for (target, signal) in sent.chain(ended) {
        prepare_signal(target, signal)
            .and_then(|ready| ready.check_permission())
            .map_err(|error| not_sent(&error))?;
    }
    Ok(())
}
