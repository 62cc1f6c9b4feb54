//! Remembers the target that the last search of each rule found: for the status, and so that a search
//! that finds nothing can say that the target has exited.
//!
//! Reads `/proc/PID/stat`; changes nothing.

use std::sync::{Mutex, PoisonError};

use super::select::Refusal;
use super::{Identity, ProcessState, process_state};
use podnudge_config::Rule;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::status::{RuleStatus, TargetStatus};

/// A process and its name.
type Named = (Identity, String);

/// What is remembered of a rule's last target.
#[derive(Debug, Default, Clone)]
struct Last {
    /// The processes that the last search has found.
    processes: Vec<Named>,
    /// Why it has chosen these among several that match.
    because: Option<String>,
    /// The container of the target of the last action, if it has one.
    container: Option<String>,
}

/// The last target of each rule, and the rule's name.
#[derive(Debug, Default)]
pub(super) struct LastTargets(Mutex<Vec<(String, Last)>>);

impl LastTargets {
    /// Stores the processes that a search has found.
    pub(super) fn store(&self, rule: &Rule, found: impl Iterator<Item = (Identity, String)>) {
        let found = found.collect();
        self.with(rule, |last| last.processes = found);
    }

    /// Stores why a search has chosen its target among several. Returns whether that is new.
    pub(super) fn store_reason(&self, rule: &Rule, because: Option<&str>) -> bool {
        self.with(rule, |last| {
            let before = std::mem::replace(&mut last.because, because.map(ToOwned::to_owned));
            before != last.because
        })
    }

    /// Stores the container of the target of an action.
    pub(super) fn store_container(&self, rule: &Rule, container: &str) {
        let container = (!container.is_empty()).then(|| container.to_owned());
        self.with(rule, |last| last.container = container);
    }

    /// Why the last search has chosen its target among several.
    pub(super) fn reason(&self, rule: &Rule) -> Option<String> {
        self.of(rule).because
    }

    /// The container of the target of the last action.
    pub(super) fn container_acted_on(&self, rule: &Rule) -> Option<String> {
        self.of(rule).container
    }

    /// The processes of the last target that still run, at most [`RuleStatus::MOST_TARGETS`].
    pub(super) fn running(&self, rule: &Rule) -> Vec<TargetStatus> {
        let known = self.of(rule).processes.into_iter();
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
        Refusal::NotFound(exited(&self.of(rule).processes))
    }

    /// Whether the last target is known, and has ended.
    pub(super) fn have_exited(&self, rule: &Rule) -> bool {
        let known = self.of(rule).processes;
        let has_ended =
            |(identity, _): &Named| matches!(process_state(*identity), ProcessState::Ended(_));
        !known.is_empty() && known.iter().all(has_ended)
    }

    fn of(&self, rule: &Rule) -> Last {
        self.with(rule, |last| last.clone())
    }

    fn with<T>(&self, rule: &Rule, act: impl FnOnce(&mut Last) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, last)) = all.iter_mut().find(|(name, _)| *name == rule.name) {
            return act(last);
        }
        let mut last = Last::default();
        let done = act(&mut last);
        all.push((rule.name.clone(), last));
        done
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
