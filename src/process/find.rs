//! Finds the target processes of a rule.
//!
//! Reads as much of `/proc` as the target setting needs; changes nothing.

use std::time::Duration;

use super::Identity;
use super::config_read::earliest_config_read;
use super::context::Context;
use super::proc::{self, Detail};
use super::select::{self, Process, Refusal};
use crate::clock::Moment;
use crate::config::{Rule, TargetBy};
use crate::core::event::Targets;
use crate::core::status::TargetStatus;

/// A target process of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetProcess {
    /// Its pid and start time.
    pub identity: Identity,
    /// For messages: `41 (nginx)`, control characters escaped.
    pub name: String,
    /// The name that the kernel reports.
    pub comm: String,
    /// Whether no other target process is its ancestor.
    pub is_root: bool,
}

impl TargetProcess {
    fn new(process: &Process, is_root: bool) -> Self {
        let (name, comm) = (process.display_name(), process.comm.clone());
        Self { identity: process.identity, name, comm, is_root }
    }
}

/// Searches all processes for the rule's target: the root of the matching tree, or all matches.
///
/// # Errors
/// If no process matches, or none that may be signalled, with the reason.
pub(crate) fn find(context: &Context, rule: &Rule) -> Result<Vec<TargetProcess>, Refusal> {
    match search(context, rule) {
        Ok(found) => {
            let named = found.iter().map(|target| (target.identity, target.comm.clone()));
            context.last_targets.store(rule, named);
            Ok(found)
        }
        Err(refusal) => {
            context.target_cache.store(rule, None);
            Err(context.last_targets.explain(rule, refusal))
        }
    }
}

/// The target processes that the last search found and that still run, for the status.
pub(crate) fn running_targets(context: &Context, rule: &Rule) -> Vec<TargetStatus> {
    if rule.names_process() { context.last_targets.running(rule) } else { Vec::new() }
}

/// The age of the oldest process that could be selected by another target setting.
pub(crate) fn age_of_oldest_candidate(context: &Context, rule: &Rule) -> Option<Duration> {
    let (own, target) = (&context.own, &rule.settings.target);
    let table = proc::read(own, target, rule.read_by_application(), None, Detail::All).ok()?;
    select::candidates(&table).into_iter().map(|process| proc::age(process.identity)).max()
}

/// The target that the last search found, if it is unchanged. This removes it from the cache, so
/// the caller must search all processes after the action.
pub(crate) fn find_cached(context: &Context, rule: &Rule) -> Option<TargetProcess> {
    let process = context.target_cache.take_unchanged(rule)?;
    let is_named = match &rule.settings.target.by {
        TargetBy::Pidfile(path) => proc::pidfile(path).ok()?.names(&process),
        _ => true,
    };
    is_named.then(|| TargetProcess::new(&process, true))
}

fn search(context: &Context, rule: &Rule) -> Result<Vec<TargetProcess>, Refusal> {
    let (own, target, volumes) = (&context.own, &rule.settings.target, rule.read_by_application());
    let wanted = match &target.by {
        TargetBy::Pidfile(path) => Some(proc::pidfile(path)?),
        _ => None,
    };
    let mut table = proc::read(own, target, volumes, wanted, Detail::Likely)?;
    if select::select(target, wanted, &table).is_err() {
        // The error message lists all processes.
        table = proc::read(own, target, volumes, wanted, Detail::All)?;
    }
    let chosen = select::select(target, wanted, &table)?;
    context.target_cache.store(rule, Some(&chosen));
    let roots = select::roots(&chosen, &table);
    Ok(chosen.iter().map(|process| TargetProcess::new(process, roots.contains(process))).collect())
}

/// The target processes without an ancestor among the others: they must survive a reload. It may
/// replace their descendants, such as workers.
pub(crate) fn roots<'a>(targets: impl IntoIterator<Item = &'a TargetProcess>) -> Vec<Identity> {
    let roots = targets.into_iter().filter(|target| target.is_root);
    roots.map(|target| target.identity).collect()
}

/// Whether there are target processes, and all of them read their configuration after `moment`.
pub(crate) fn all_read_config_after(targets: &[TargetProcess], moment: Moment) -> bool {
    // Compare the start times first: that is cheap, and mostly decides.
    let reads_after = |target: &TargetProcess| {
        target.identity.started() > moment && earliest_config_read(target.identity) > moment
    };
    !targets.is_empty() && targets.iter().all(reads_after)
}

/// For messages: `41 (nginx), 52 (nginx)`.
pub(crate) fn names<'a>(targets: impl IntoIterator<Item = &'a TargetProcess>) -> String {
    let names: Vec<&str> = targets.into_iter().map(|target| target.name.as_str()).collect();
    names.join(", ")
}

/// The target's names for the core, which compares the targets of its rules.
pub(crate) fn targets<'a>(chosen: impl IntoIterator<Item = &'a TargetProcess> + Clone) -> Targets {
    let text = names(chosen.clone());
    Targets { names: chosen.into_iter().map(|target| target.comm.clone()).collect(), text }
}

/// For messages: the target processes, and the setting that they match.
pub(crate) fn why(rule: &Rule, chosen: &[TargetProcess]) -> String {
    let how = match &rule.settings.target.by {
        TargetBy::Mount => "mounts the volume".to_owned(),
        TargetBy::Process(name) => format!("named `{name}`"),
        TargetBy::Exe(path) => format!("runs `{}`", path.display()),
        TargetBy::Cmdline(regex) => format!("its arguments match `{regex}`"),
        TargetBy::Pidfile(path) => format!("its pid is in `{}`", path.display()),
    };
    format!("{}: {how}", names(chosen))
}

/// For messages: the other processes that a target setting could select, if there are any.
pub(crate) fn others(context: &Context, rule: &Rule, chosen: &[TargetProcess]) -> Option<String> {
    let (own, target) = (&context.own, &rule.settings.target);
    let table = proc::read(own, target, rule.read_by_application(), None, Detail::All).ok()?;
    select::others(&table, &roots(chosen))
}
