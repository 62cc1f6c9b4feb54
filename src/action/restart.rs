//! Restarts the target as an action: terminates it, and relies on its supervisor to start it again.
//!
//! Reads `/proc`; terminates processes.

use std::sync::Arc;

use super::signal::not_sent;
use crate::config::Rule;
use crate::core::command::Act;
use crate::core::event::{Acted, Targets};
use crate::process::{self, Context, Identity, TargetProcess, names, roots, terminate};
use crate::verify::Baseline;
use crate::verify::proofs::StateBefore;

/// Terminates the root of each target's tree; its supervisor starts it again.
pub(super) async fn restart(
    context: &Context,
    rule: &Rule,
    act: &Act,
    targets: &[TargetProcess],
) -> Result<(Acted, Baseline), Acted> {
    let replaced = replaced(targets);
    let targets: Vec<&TargetProcess> = roots_of(targets).collect();
    let identities: Vec<Identity> = replaced.iter().map(|process| process.identity).collect();
    // A target below a wrapper ends with it.
    context.restarts.record(&[roots(targets.iter().copied()), identities.clone()].concat());
    let ended = terminate(&replaced, rule.restart.grace).await;
    let still_runs = ended.map_err(|error| not_sent(&error))?;
    let baseline = Baseline {
        processes: Vec::new(),
        replaced: identities,
        replaced_at: act.at,
        before: Some(Arc::new(StateBefore::for_new_process(rule, act.digest))),
        ..Baseline::default()
    };
    // The verification detects a process that still runs.
    let text = names(replaced.iter().copied());
    let mut targets = Targets { text, ..process::targets(targets) };
    if let Some(reason) = still_runs {
        targets.text = format!("{}; {}", targets.text, reason.message);
    }
    Ok((Acted::Restarted(targets), baseline))
}

/// The processes that a restart of these targets ends.
pub(super) fn replaced(targets: &[TargetProcess]) -> Vec<&TargetProcess> {
    roots_of(targets).map(TargetProcess::root_of_tree).collect()
}

fn roots_of(targets: &[TargetProcess]) -> impl Iterator<Item = &TargetProcess> {
    targets.iter().filter(|target| target.is_root)
}
