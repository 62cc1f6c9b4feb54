//! Remembers the target that the last search of each rule found: for the status, and so that a search
//! that finds nothing can say that the target has exited.
//!
//! Reads `/proc/PID/stat`; changes nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::select::Refusal;
use super::{Identity, ProcessState, process_state};
use crate::config::Rule;
use crate::core::status::{RuleStatus, TargetStatus};
use crate::reason::Reason;
use crate::shown;

/// A process and its name.
type Named = (Identity, String);

/// Each rule's name and its last target.
#[derive(Debug, Default)]
pub(super) struct LastTargets(Mutex<Vec<(String, Vec<Named>)>>);

impl LastTargets {
    /// Stores the processes that a search has found.
    pub(super) fn store(&self, rule: &Rule, found: impl Iterator<Item = (Identity, String)>) {
        let found = found.collect();
        let mut all = self.all();
        match all.iter_mut().find(|(name, _)| *name == rule.name) {
            Some((_, known)) => *known = found,
            None => all.push((rule.name.clone(), found)),
        }
    }

    /// The processes of the last target that still run, at most [`RuleStatus::MOST_TARGETS`].
    pub(super) fn running(&self, rule: &Rule) -> Vec<TargetStatus> {
        let known = self.of(rule).into_iter();
        let running =
            known.filter(|(identity, _)| process_state(*identity) == ProcessState::Running);
        let status =
            |(identity, comm): Named| TargetStatus { pid: identity.pid, name: shown::text(&comm) };
        running.take(RuleStatus::MOST_TARGETS).map(status).collect()
    }

    /// The refusal of a search, or if nothing was found and the last target has ended, that it has.
    pub(super) fn explain(&self, rule: &Rule, refusal: Refusal) -> Refusal {
        // Without its last process, a container may look like a process namespace that is not shared.
        if !matches!(refusal, Refusal::NotFound(_) | Refusal::NamespaceNotShared) {
            return refusal;
        }
        if !self.have_exited(rule) {
            return refusal;
        }
        Refusal::NotFound(exited(&self.of(rule)))
    }

    /// Whether the last target is known, and has ended.
    pub(super) fn have_exited(&self, rule: &Rule) -> bool {
        let known = self.of(rule);
        let has_ended =
            |(identity, _): &Named| matches!(process_state(*identity), ProcessState::Ended(_));
        !known.is_empty() && known.iter().all(has_ended)
    }

    fn of(&self, rule: &Rule) -> Vec<Named> {
        let all = self.all();
        let known = all.iter().find(|(name, _)| *name == rule.name);
        known.map(|(_, known)| known.clone()).unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, Vec<(String, Vec<Named>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exited(processes: &[Named]) -> Reason {
    let name = |(identity, comm): &Named| format!("{} (pid {})", shown::text(comm), identity.pid);
    let names: Vec<String> = processes.iter().take(RuleStatus::MOST_TARGETS).map(name).collect();
    let names = names.join(", ");
    let reason = match processes {
        [_] => Reason::new(format!("target {names} exited and has not come back")),
        _ => Reason::new(format!("targets {names} exited and have not come back")),
    };
    reason.hint("see its container's log")
}
