//! State that is shared by all code that finds or signals processes.
//!
//! Reads `/proc/self`, once, and for a log the mounts of a target.

use super::Identity;
use super::candidates;
use super::ends::Ends;
use super::last_targets::LastTargets;
use super::proc::read_process_file;
use super::restarts::Restarts;
use super::select::OwnProcess;
use super::takers::Takers;
use super::target_cache::TargetCache;
use crate::volume::mounts;
use podnudge_config::{self as config, Rule};
use podnudge_core::shown;

/// State that is shared by all code that finds or signals processes.
#[derive(Debug)]
pub(crate) struct Context {
    /// podnudge's own process and container.
    pub(super) own: OwnProcess,
    /// The name of the pod, if podnudge was told.
    pod: Option<String>,
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
    /// Reads podnudge's own identity; `pod` is the name of its pod, if it was told. It never changes, so once at start is enough.
    pub(crate) fn new(pod: Option<String>) -> Self {
        Self {
            own: candidates::own_process(),
            pod,
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

    /// The command that prints the log of a process: with the names of the pod and of its container, as far as they are
    /// known.
    pub(crate) fn log_command(&self, process: Option<Identity>) -> String {
        let table = process.and_then(|it| read_process_file(it.pid, "mountinfo").ok().flatten());
        let container = table.and_then(|table| mounts::container(&mounts::parse(&table)));
        let container = container.filter(|name| config::is_label(name));
        let container = container.unwrap_or_else(|| "CONTAINER".to_owned());
        let pod = self.pod.as_deref().unwrap_or("POD");
        format!("kubectl logs {} -c {container}", shown::text(pod))
    }

    /// Empties the target cache, so that the next search of each rule reads all processes.
    pub(crate) fn forget_targets(&self) {
        self.target_cache.forget_all();
    }
}
