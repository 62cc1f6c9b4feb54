//! Restarts the whole pod in place as an action, or replaces it: podnudge ends, and the kubelet restarts all
//! containers; or `run/` has the pod evicted. Here is only found out whether that is needed, and what became of it.
//!
//! Reads `/proc`; changes nothing.

use std::sync::Arc;

use crate::process::{self, Context, Refusal, TargetProcess, all_read_config_after, find, names};
use crate::verify::Baseline;
use crate::verify::proofs::StateBefore;
use podnudge_config::Rule;
use podnudge_core::command::{Act, Extent};
use podnudge_core::event::{Absence, Acted};
use podnudge_core::reason::Reason;

/// The answer to an action of a rule that restarts or evicts the pod. For an eviction, [`Acted::Ready`] says that it
/// is needed.
///
/// # Errors
/// If the target that the rule names cannot be found.
pub(super) fn act(context: &Context, rule: &Rule, act: &Act) -> Result<(Acted, Baseline), Refusal> {
    let seen = seen(context, rule)?;
    let before = Some(Arc::new(StateBefore::for_new_process(rule, act.digest)));
    if let Some(targets) = &seen
        && act.fresh_after.is_some_and(|moment| all_read_config_after(targets, moment))
    {
        let baseline = Baseline { before, ..Baseline::of(targets) };
        return Ok((Acted::Fresh(process::targets(targets)), baseline));
    }
    let acted = match (act.extent, &seen) {
        (Extent::Prepare, _) => Acted::Ready,
        (Extent::Send, _) if rule.settings.evicts() => Acted::Ready,
        (Extent::Send, _) => Acted::EndsPod,
        (Extent::LookForFresh, _) => {
            let reason = "the target did not start after the content was in place";
            Acted::Absent(Absence::unread(Reason::new(reason)))
        }
        (Extent::LookForRestart, Some(targets)) => Acted::NotRestarted(names(targets)),
        (Extent::LookForRestart, None) => Acted::Unseen,
    };
    Ok((acted, Baseline { before, ..Baseline::default() }))
}

/// The target, if podnudge sees it: it has to where the rule names it, and may where the pod shares its process
/// namespace.
fn seen(context: &Context, rule: &Rule) -> Result<Option<Vec<TargetProcess>>, Refusal> {
    if rule.names_process() {
        return find(context, rule).map(Some);
    }
    Ok(context.sees_other_containers().then(|| find(context, rule)).and_then(Result::ok))
}
