//! Performs `Inspect`: finds out how long a rule's target has been running.
//!
//! Reads `/proc` on the loop's thread: a pod has few processes, and a switch to another thread
//! would take longer than the reading.

use super::Identity;
use super::config_read::earliest_config_read;
use super::context::Context;
use super::find::{TargetProcess, find, process_table};
use super::select::Refusal;
use super::starter::{is_foreign_supervisor, programs_below};
use podnudge_config::Rule;
use podnudge_core::event::Inspection;

/// Finds out how long the rule's target has been running.
pub(crate) fn inspect(context: &Context, rule: &Rule) -> Inspection {
    match find(context, rule) {
        Ok(chosen) => {
            let readers: Vec<Identity> =
                chosen.iter().flat_map(|target| readers(context, rule, target)).collect();
            let first = readers.iter().map(|reader| earliest_config_read(*reader)).min();
            let last = readers.iter().map(|reader| reader.started()).max();
            match (first, last) {
                (Some(first), Some(last)) => Inspection::Running { first, last },
                _ if chosen.is_empty() => Inspection::Unknown,
                _ => Inspection::Absent,
            }
        }
        Err(Refusal::NotFound(_)) if rule.names_process() => Inspection::Absent,
        Err(Refusal::ProcUnreadable(_)) => Inspection::Blind,
        Err(_) => Inspection::Unknown,
    }
}

/// The processes that read the configuration: the target, or the programs of a supervisor, which reads none.
fn readers(context: &Context, rule: &Rule, target: &TargetProcess) -> Vec<Identity> {
    if !is_foreign_supervisor(&target.comm, target.identity.pid) {
        return vec![target.identity];
    }
    let table = process_table(context, rule);
    let root = table.processes.iter().find(|process| process.identity == target.identity);
    let programs = root.map(|root| programs_below(root, &table)).unwrap_or_default();
    programs.iter().map(|program| program.identity).collect()
}
