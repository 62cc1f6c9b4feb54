//! Ends processes so that they are started again: by a request to their `podnudge supervise`, or by SIGTERM,
//! and by SIGKILL after a grace period.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::timeout;

use super::below_supervise::Supervised;
use super::find::names;
use super::signal::{Ready, SendError, prepare};
use podnudge_core::reason::Reason;

/// How long the kernel may take to end a process after SIGKILL.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// Makes all processes end, and sends SIGKILL to those that still run after `grace`. Returns the reason if
/// one of them may still run.
///
/// # Errors
/// If no process was signalled.
pub(crate) async fn terminate(
    targets: &[Supervised],
    grace: Duration,
) -> Result<Option<Reason>, SendError> {
    let mut prepared = Vec::new();
    let mut signals = Vec::new();
    for target in targets {
        let (process, signal) = target.signalled();
        let ready = prepare(process, signal)?;
        ready.check_permission()?;
        signals.push(ready);
        prepared.push(prepare(&target.process, signal)?);
    }
    // After the first signal the restart has begun, whatever happens next.
    let (mut is_sent, mut last_error) = (false, None);
    for ready in &signals {
        match ready.send() {
            Ok(()) => is_sent = true,
            Err(SendError::Gone(_)) => {}
            Err(error) if !is_sent => return Err(error),
            Err(error) => last_error = Some(error.reason()),
        }
    }
    // All processes share one grace period. Whether they ended shows at the SIGKILL.
    drop(timeout(grace, all_ended(&prepared)).await);
    let killed: Vec<Ready<'_>> =
        prepared.into_iter().map(|ready| ready.with_signal(Signal::SIGKILL)).collect();
    for ready in &killed {
        match ready.send() {
            Ok(()) | Err(SendError::Gone(_)) => {}
            Err(error) => last_error = Some(error.reason()),
        }
    }
    let ended = timeout(AFTER_KILL, all_ended(&killed)).await;
    Ok(ended.err().map(|_| {
        last_error.unwrap_or_else(|| {
            let names = names(targets.iter().map(|target| &target.process));
            let reason = Reason::new(format!("process {names} did not end after SIGKILL"));
            reason.hint("it hangs in the kernel, perhaps in a file system call")
        })
    }))
}

async fn all_ended(all: &[Ready<'_>]) {
    for ready in all {
        ready.wait_for_exit().await;
    }
}
