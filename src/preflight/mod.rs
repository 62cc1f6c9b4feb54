//! Performs `Preflight`: looks for what would prevent the actions of a rule, without acting.
//!
//! Reads `/proc` and the control group, looks for the programs and files of the rule, connects to its
//! addresses, and makes the requests of its proofs. Changes nothing.

mod addresses;
mod files;
mod limits;
mod target;
mod volumes;
mod work_dir;

use std::path::Path;

use crate::process::{Context, Identity, age, find, roots};
pub(crate) use files::missing_file_of_check;
use podnudge_config::Rule;
use podnudge_core::preflight::Problem;
pub(crate) use target::still_starting;

/// What the last preflight of a rule has found about its addresses. While nothing changes they are
/// left alone: each connection shows in the log of some applications.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// The addresses were not tried yet, or there was a problem.
    #[default]
    Unknown,
    /// The addresses answered while these target processes ran, and the rule had a preset or not.
    Fine(Vec<Identity>, bool),
}

/// Whether the application is expected to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not yet, as in an init container: its process and its addresses are not looked for.
    BeforeStart,
    /// The application runs, or is about to.
    Running,
}

/// The first problem with the programs that check the content of a rule: they are missing, or others may change what they
/// check.
pub(crate) fn of_programs(context: &Context, rule: &Rule, work_dir: &Path) -> Option<Problem> {
    let targets = || find(context, rule).unwrap_or_default();
    files::missing_program(rule).or_else(|| work_dir::shared(rule, &targets(), work_dir))
}

/// Finds the problems of a rule. Returns them, and what to pass to the next call.
pub(crate) async fn preflight(
    context: &Context,
    rule: &Rule,
    work_dir: &Path,
    last: Addresses,
    stage: Stage,
) -> (Vec<Problem>, Addresses) {
    let is_running = stage == Stage::Running;
    let found = (is_running && rule.names_process()).then(|| find(context, rule));
    let mut problems = target::problems(context, rule, found.as_ref());
    let targets = found.and_then(Result::ok).unwrap_or_default();
    problems.extend(files::missing_program(rule));
    problems.extend(files::missing_file(rule));
    problems.extend(files::missing_body(rule));
    problems.extend(missing_file_of_check(rule).filter(|_| rule.asks_for_check_of_preset()));
    problems.extend(volumes::subpath(rule, &targets));
    problems.extend(volumes::not_mounted(rule, &targets));
    problems.extend(volumes::publish_not_a_mount(context, rule, &targets));
    problems.extend(work_dir::shared(rule, &targets, work_dir));
    problems.extend(limits::memory(rule));
    problems.extend(limits::host_pid(context, rule));
    problems.retain(|problem| !rule.accepts(problem.kind.name()));
    if !is_running {
        return (problems, last);
    }
    let processes = roots(&targets);
    let is_unchanged = match &last {
        Addresses::Fine(before, had_preset) => {
            // A new process needs some time before it listens. A late preset has addresses of its own.
            let is_young = |process: &Identity| age(*process) < target::YOUNG;
            *had_preset == rule.preset.is_some()
                && (*before == processes || processes.iter().any(is_young))
        }
        Addresses::Unknown => false,
    };
    if is_unchanged {
        return (problems, last);
    }
    let unreachable = addresses::problem(rule).await;
    let addresses = if unreachable.is_some() {
        Addresses::Unknown
    } else {
        Addresses::Fine(processes, rule.preset.is_some())
    };
    problems.extend(unreachable);
    (problems, addresses)
}
