//! Restarts the target as an action: has it ended by its `podnudge supervise`, which starts it again; or
//! terminates it, and relies on the kubelet or another supervisor to start it again.
//!
//! Reads `/proc`; signals processes.

use std::sync::Arc;

use super::signal::not_sent;
use crate::process::{self, Context, Identity, Supervised, TargetProcess, roots, terminate};
use crate::verify::Baseline;
use crate::verify::proofs::StateBefore;
use podnudge_config::Rule;
use podnudge_core::command::Act;
use podnudge_core::event::{Acted, Targets};

/// Ends the root of each target's tree; its supervisor or the kubelet starts it again.
pub(super) async fn restart(
    context: &Context,
    rule: &Rule,
    act: &Act,
    targets: &[TargetProcess],
) -> Result<(Acted, Baseline), Acted> {
    let replaced = replaced(targets);
    let targets: Vec<&TargetProcess> = roots_of(targets).collect();
    let identities: Vec<Identity> = replaced.iter().map(|one| one.process.identity).collect();
    // A target below a wrapper ends with it.
    let ends = [roots(targets.iter().copied()), identities.clone()].concat();
    context.restarts.record(&ends);
    let ended = terminate(&replaced, rule.restart.grace()).await;
    let still_runs = ended.map_err(|error| {
        context.restarts.forget(&ends);
        not_sent(&error)
    })?;
    let baseline = Baseline {
        processes: Vec::new(),
        replaced: identities,
        replaced_at: act.at,
        before: Some(Arc::new(StateBefore::for_new_process(rule, act.digest))),
        ..Baseline::default()
    };
    // The verification detects a process that still runs.
    let text = Supervised::names(&replaced);
    let mut targets = Targets { text, ..process::targets(targets) };
    // The supervisor ends its command, which may be above the target.
    targets.names.extend(replaced.iter().map(|one| one.process.comm.clone()));
    if let Some(reason) = still_runs {
        targets.text = format!("{}; {}", targets.text, reason.message);
    }
    Ok((Acted::Restarted(targets), baseline))
}

/// The processes that a restart of these targets ends, and how.
pub(super) fn replaced(targets: &[TargetProcess]) -> Vec<Supervised> {
    Supervised::of_all(roots_of(targets).map(TargetProcess::root_of_tree))
}

fn roots_of(targets: &[TargetProcess]) -> impl Iterator<Item = &TargetProcess> {
    targets.iter().filter(|target| target.is_root)
}
