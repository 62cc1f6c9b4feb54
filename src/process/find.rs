//! Finding the processes that a rule is about.
//!
//! Reads `/proc`, as much of it as the target needs; changes nothing.

use super::Identity;
use super::context::Context;
use super::proc::{self, Detail};
use super::select::{self, Process, Refusal};
use crate::clock::Moment;
use crate::config::{Rule, TargetBy};

/// A process that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Which one it is.
    pub identity: Identity,
    /// For people: `41 (nginx)`, control characters escaped.
    pub name: String,
    /// Whether none of the others that were chosen is above it in the process tree.
    pub is_root: bool,
}

/// The processes that the rule is about: the root of the matching tree, or all matches.
///
/// # Errors
/// If there is none, or none that may be chosen, with the reason.
pub(crate) fn find(context: &Context, rule: &Rule) -> Result<Vec<Chosen>, Refusal> {
    let (own, target, volumes) = (&context.own, &rule.target, rule.read_by_application());
    let wanted = match &target.by {
        TargetBy::Pidfile(path) => Some(proc::pidfile(path)?),
        _ => None,
    };
    let mut seen = proc::read(own, target, volumes, wanted, Detail::Likely)?;
    if select::select(target, wanted, &seen).is_err() {
        // What is wrong is told with all that is there.
        seen = proc::read(own, target, volumes, wanted, Detail::All)?;
    }
    let chosen = select::select(target, wanted, &seen)?;
    let roots = select::roots(&chosen, &seen);
    let describe = |process: &&Process| Chosen {
        identity: process.identity,
        name: process.for_people(),
        is_root: roots.contains(process),
    };
    Ok(chosen.iter().map(describe).collect())
}

/// Those of which none of the others is an ancestor: they must survive a reload. Those below them may
/// be replaced by it, as workers are.
pub(crate) fn roots<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> Vec<Identity> {
    let roots = targets.into_iter().filter(|target| target.is_root);
    roots.map(|target| target.identity).collect()
}

/// Whether there are any, and all of them started after a moment.
pub(crate) fn all_started_after(targets: &[Chosen], moment: Moment) -> bool {
    !targets.is_empty() && targets.iter().all(|target| target.identity.started() > moment)
}

/// For people: `41 (nginx), 52 (nginx)`.
pub(crate) fn names<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> String {
    let names: Vec<&str> = targets.into_iter().map(|target| target.name.as_str()).collect();
    names.join(", ")
}
