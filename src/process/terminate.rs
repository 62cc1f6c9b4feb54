//! Ending processes so that whoever has started them starts them anew: they are asked to end, and
//! killed if they do not.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::timeout;

use super::find::{Chosen, names};
use super::signal::{Ready, SendError, prepare};
use crate::config::SignalAction;
use crate::reason::Reason;

/// How long the kernel may take to end a process that was killed.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// Ends processes: asks each to end, and after `grace` leaves them no choice. Gives why one of them
/// may still run, if that is so.
///
/// # Errors
/// If none was asked.
pub(crate) async fn terminate(
    targets: &[&Chosen],
    grace: Duration,
) -> Result<Option<Reason>, SendError> {
    let term = SignalAction { name: Signal::SIGTERM, allow_unhandled: true };
    let mut asked = Vec::new();
    for target in targets {
        let ready = prepare(target, term)?;
        ready.is_permitted()?;
        asked.push(ready);
    }
    // When one was asked, that counts, whatever comes of it.
    let (mut is_begun, mut trouble) = (false, None);
    for ready in &asked {
        match ready.send() {
            Ok(()) => is_begun = true,
            Err(SendError::Gone(_)) => {}
            Err(error) if !is_begun => return Err(error),
            Err(error) => trouble = Some(error.reason()),
        }
    }
    // The grace is for all of them together. Whether it was enough, the next signal tells.
    drop(timeout(grace, all_ended(&asked)).await);
    let killed: Vec<Ready<'_>> =
        asked.into_iter().map(|ready| ready.with(Signal::SIGKILL)).collect();
    for ready in &killed {
        match ready.send() {
            Ok(()) | Err(SendError::Gone(_)) => {}
            Err(error) => trouble = Some(error.reason()),
        }
    }
    let ended = timeout(AFTER_KILL, all_ended(&killed)).await;
    Ok(ended.err().map(|_| {
        trouble.unwrap_or_else(|| {
            let names = names(targets.iter().copied());
            let reason = Reason::new(format!("process {names} does not end"));
            reason.hint("it hangs in the kernel, perhaps on a file system")
        })
    }))
}

async fn all_ended(all: &[Ready<'_>]) {
    for ready in all {
        ready.ended().await;
    }
}
