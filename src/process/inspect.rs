//! Performs `Inspect`: finds out how long a rule's target has been running.
//!
//! Reads `/proc` on the loop's thread: a pod has few processes, and a switch to another thread
//! would take longer than the reading.

use super::config_read::earliest_config_read;
use super::context::Context;
use super::find::find;
use super::select::Refusal;
use crate::config::Rule;
use crate::core::event::Inspection;

/// Finds out how long the rule's target has been running.
pub(crate) fn inspect(context: &Context, rule: &Rule) -> Inspection {
    match find(context, rule) {
        Ok(chosen) => {
            let first = chosen.iter().map(|target| earliest_config_read(target.identity)).min();
            let last = chosen.iter().map(|target| target.identity.started()).max();
            match (first, last) {
                (Some(first), Some(last)) => Inspection::Running { first, last },
                _ => Inspection::Unknown,
            }
        }
        Err(Refusal::NotFound(_)) if rule.names_process() => Inspection::Absent,
        Err(Refusal::ProcUnreadable(_)) => Inspection::Blind,
        Err(_) => Inspection::Unknown,
    }
}
