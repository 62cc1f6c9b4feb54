//! State that is shared by all code that finds or signals processes.
//!
//! Reads `/proc/self`, once.

use super::ends::Ends;
use super::last_targets::LastTargets;
use super::restarts::Restarts;
use super::select::OwnProcess;
use super::table;
use super::takers::Takers;
use super::target_cache::TargetCache;
use crate::config::Rule;

/// State that is shared by all code that finds or signals processes.
#[derive(Debug)]
pub(crate) struct Context {
    /// podnudge's own process and container.
    pub(super) own: OwnProcess,
    /// The processes that podnudge itself has terminated.
    pub(crate) restarts: Restarts,
    /// The programs that end on a signal.
    pub(crate) ends: Ends,
    /// The processes that took a signal.
    pub(super) takers: Takers,
    /// The target of each rule, as found by the last search.
    pub(super) target_cache: TargetCache,
    /// The target that the last search of each rule found.
    pub(super) last_targets: LastTargets,
}

impl Context {
    /// Reads podnudge's own identity. It never changes, so once at start is enough.
    pub(crate) fn new() -> Self {
        Self {
            own: table::own_process(),
            restarts: Restarts::default(),
            ends: Ends::default(),
            takers: Takers::default(),
            target_cache: TargetCache::default(),
            last_targets: LastTargets::default(),
        }
    }

    /// Whether podnudge sees processes of other containers: the pod shares its process namespace.
    pub(crate) fn sees_other_containers(&self) -> bool {
        self.own.pid_1_is_foreign
    }

    /// Whether podnudge sees the processes of the node: `hostPID: true`.
    pub(crate) fn sees_node(&self) -> bool {
        self.own.pod_on_node.is_some()
    }

    /// Whether the rule's target was seen, and has ended since.
    pub(crate) fn target_has_exited(&self, rule: &Rule) -> bool {
        self.last_targets.have_exited(rule)
    }

    /// Empties the target cache, so that the next search of each rule reads all processes.
    pub(crate) fn forget_targets(&self) {
        self.target_cache.forget_all();
    }
}
