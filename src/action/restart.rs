//! Restarts the target as an action: terminates it, and relies on its supervisor to start it again.
//!
//! Reads `/proc`; terminates processes.

use std::sync::Arc;

use super::signal::not_sent;
use crate::config::Rule;
use crate::core::command::Act;
use crate::core::event::Acted;
use crate::process::{self, Context, TargetProcess, roots, terminate};
use crate::verify::Baseline;
use crate::verify::proofs::StateBefore;

/// Terminates the targets; their supervisor starts them again.
pub(super) async fn restart(
    context: &Context,
    rule: &Rule,
    act: &Act,
    targets: &[TargetProcess],
) -> Result<(Acted, Baseline), Acted> {
    let replaced: Vec<&TargetProcess> = targets.iter().filter(|target| target.is_root).collect();
    context.restarts.record(&roots(replaced.iter().copied()));
    let ended = terminate(&replaced, rule.restart.grace).await;
    let still_runs = ended.map_err(|error| not_sent(&error))?;
    let baseline = Baseline {
        processes: Vec::new(),
        replaced: roots(replaced.iter().copied()),
        before: Some(Arc::new(StateBefore::for_new_process(rule, act.digest))),
        ..Baseline::default()
    };
    // The verification detects a process that still runs.
    let mut targets = process::targets(replaced.iter().copied());
    if let Some(reason) = still_runs {
        targets.text = format!("{}; {}", targets.text, reason.message);
    }
    Ok((Acted::Restarted(targets), baseline))
}
