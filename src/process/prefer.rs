//! Prefers one of several unrelated processes that match a rule's target setting, such as those of two containers that
//! mount the volume.
//!
//! Reads `/proc`; changes nothing.

use nix::sys::signal::Signal;

use super::context::Context;
use super::select::{Process, ProcessTable, in_tree, list};
use super::wrapper::{Taker, find_taker};
use podnudge_config::{Preset, Rule, TargetBy};
use podnudge_core::shown;

/// The one of these roots to choose, and why; `None` if nothing tells.
pub(super) fn preferred<'a>(
    context: &Context,
    rule: &Rule,
    signal: Option<Signal>,
    roots: &[&'a Process],
    table: &ProcessTable,
) -> Option<(&'a Process, String)> {
    let only = |is_one: &dyn Fn(&Process) -> bool| {
        let mut those = roots.iter().copied().filter(|root| is_one(root));
        those.next().filter(|_| those.next().is_none())
    };
    // Whoever names a program, arguments or a file means each process that has them.
    let by_mount = || {
        if !matches!(rule.settings.target.by, TargetBy::Mount) {
            return None;
        }
        let is_known = |process: &Process| match rule.preset {
            Some(preset) => preset.is_for(&process.comm),
            None => Preset::of_program(&process.comm).is_some(),
        };
        let known = only(&|root| in_tree(root, table).any(&is_known));
        let takes = |root: &Process, signal| {
            matches!(find_taker(context, rule, root, signal), Ok(Taker::Root | Taker::Below(..)))
        };
        known.map(|root| (root, "a preset is for its program".to_owned())).or_else(|| {
            let signal = signal?;
            let root = only(&|root| takes(root, signal))?;
            Some((root, format!("it alone handles {signal}")))
        })
    };
    let by_container = || {
        let container = context.last_targets.container_acted_on(rule)?;
        let root = only(&|root| root.container == container)?;
        Some((root, "it is in the container of the last action's target".to_owned()))
    };
    let (chosen, because) = by_mount().or_else(by_container)?;
    let others: Vec<&Process> =
        roots.iter().copied().filter(|root| root.identity != chosen.identity).collect();
    Some((chosen, format!("{because}, and not {}", shown::text(&list(&others)))))
}
