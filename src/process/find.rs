//! Finding the processes that a rule is about.
//!
//! Reads `/proc`, as much of it as the target needs; changes nothing.

use super::Identity;
use super::context::Context;
use super::proc::{self, Detail};
use super::select::{self, Process, Refusal};
use super::since::may_have_read_since;
use crate::clock::Moment;
use crate::config::{Rule, TargetBy};
use crate::core::event::Targets;

/// A process that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Which one it is.
    pub identity: Identity,
    /// For people: `41 (nginx)`, control characters escaped.
    pub name: String,
    /// How the kernel calls it.
    pub comm: String,
    /// Whether none of the others that were chosen is above it in the process tree.
    pub is_root: bool,
}

impl Chosen {
    fn new(process: &Process, is_root: bool) -> Self {
        let (name, comm) = (process.for_people(), process.comm.clone());
        Self { identity: process.identity, name, comm, is_root }
    }
}

/// The processes that the rule is about, among all: the root of the matching tree, or all matches.
///
/// # Errors
/// If there is none, or none that may be chosen, with the reason.
pub(crate) fn find(context: &Context, rule: &Rule) -> Result<Vec<Chosen>, Refusal> {
    let found = look(context, rule);
    if found.is_err() {
        context.kept.keep(rule, None);
    }
    found
}

/// The process that the last look found, without a look at others, if it is unchanged. Whoever acts
/// on it looks at all afterwards: until then it is not known any more.
pub(crate) fn recall(context: &Context, rule: &Rule) -> Option<Chosen> {
    let process = context.kept.take_unchanged(rule)?;
    let is_named = match &rule.settings.target.by {
        TargetBy::Pidfile(path) => proc::pidfile(path).ok()? == process.identity.pid,
        _ => true,
    };
    is_named.then(|| Chosen::new(&process, true))
}

fn look(context: &Context, rule: &Rule) -> Result<Vec<Chosen>, Refusal> {
    let (own, target, volumes) = (&context.own, &rule.settings.target, rule.read_by_application());
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
    context.kept.keep(rule, Some(&chosen));
    let roots = select::roots(&chosen, &seen);
    Ok(chosen.iter().map(|process| Chosen::new(process, roots.contains(process))).collect())
}

/// Those of which none of the others is an ancestor: they must survive a reload. Those below them may
/// be replaced by it, as workers are.
pub(crate) fn roots<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> Vec<Identity> {
    let roots = targets.into_iter().filter(|target| target.is_root);
    roots.map(|target| target.identity).collect()
}

/// Whether there are any, and all of them have read nothing of their configuration before a moment.
pub(crate) fn all_read_after(targets: &[Chosen], moment: Moment) -> bool {
    // The start is known already, and most are older.
    let reads_after = |target: &Chosen| {
        target.identity.started() > moment && may_have_read_since(target.identity) > moment
    };
    !targets.is_empty() && targets.iter().all(reads_after)
}

/// For people: `41 (nginx), 52 (nginx)`.
pub(crate) fn names<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> String {
    let names: Vec<&str> = targets.into_iter().map(|target| target.name.as_str()).collect();
    names.join(", ")
}

/// For the core, which compares the targets of its rules.
pub(crate) fn targets<'a>(chosen: impl IntoIterator<Item = &'a Chosen> + Clone) -> Targets {
    let text = names(chosen.clone());
    Targets { names: chosen.into_iter().map(|target| target.comm.clone()).collect(), text }
}
