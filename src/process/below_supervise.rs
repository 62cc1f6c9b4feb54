//! Finds out whether a process runs below `podnudge supervise`, which restarts it on request.
//!
//! Reads `/proc`, only what every uid may read; changes nothing.

use nix::sys::signal::Signal;

use super::Identity;
use super::find::TargetProcess;
use super::proc::{self, MOST_LEVELS, contains};
use super::texts::parse_mask;
use podnudge_config::SignalAction;
use podnudge_supervise::marks::{REQUEST, is_supervisor};

/// A process that is to be restarted, and its supervisor if it has one.
#[derive(Debug)]
pub(crate) struct Supervised {
    /// The process that ends: the command of the supervisor, or the target itself.
    pub(crate) process: TargetProcess,
    /// The process of `podnudge supervise`.
    supervisor: Option<TargetProcess>,
}

impl Supervised {
    /// For each of these processes; only once for those below the same command.
    pub(crate) fn of_all<'a>(targets: impl IntoIterator<Item = &'a TargetProcess>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for one in targets.into_iter().map(Self::of) {
            if all.iter().all(|other| other.process.identity != one.process.identity) {
                all.push(one);
            }
        }
        all
    }

    /// Looks for a supervisor above the process.
    pub(crate) fn of(target: &TargetProcess) -> Self {
        let mut process = target.clone();
        for _ in 0..MOST_LEVELS {
            let stat = proc::stat(process.identity.pid).ok().flatten();
            // Another process may have the pid by now.
            let stat = stat.filter(|stat| stat.start_ticks == process.identity.start_ticks);
            let parent = stat.map(|stat| stat.parent);
            let Some(parent) = parent.and_then(read) else { break };
            if is_supervisor(&parent.comm) && takes_requests(parent.identity.pid) {
                return Self { process, supervisor: Some(parent) };
            }
            process = parent;
        }
        Self { process: target.clone(), supervisor: None }
    }

    /// The process that is signalled for a restart, and the signal.
    pub(crate) fn signalled(&self) -> (&TargetProcess, SignalAction) {
        let signal = |name| SignalAction { name, allow_unhandled: true };
        match &self.supervisor {
            Some(supervisor) => (supervisor, signal(REQUEST)),
            None => (&self.process, signal(Signal::SIGTERM)),
        }
    }

    /// Whether `podnudge supervise` starts it again.
    pub(crate) fn is_below_supervisor(&self) -> bool {
        self.supervisor.is_some()
    }

    /// For messages: `41 (nginx) below 7 (podnudge-init)`.
    pub(crate) fn names(all: &[Self]) -> String {
        let name = |one: &Self| match &one.supervisor {
            Some(supervisor) => format!("{} below {}", one.process.name, supervisor.name),
            None => one.process.name.clone(),
        };
        all.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// A process by its pid, if it runs.
fn read(pid: i32) -> Option<TargetProcess> {
    let stat = proc::stat(pid).ok().flatten().filter(|stat| pid > 0 && !stat.is_dead())?;
    let identity = Identity { pid, start_ticks: stat.start_ticks };
    Some(TargetProcess::alone(identity, stat.parent, stat.comm))
}

/// Whether the request cannot harm this process: the supervisor blocks it, and reads it from a signalfd. Any
/// process can have its name.
fn takes_requests(pid: i32) -> bool {
    let status = proc::status(pid).ok().flatten().unwrap_or_default();
    parse_mask(&status, "SigBlk:").is_some_and(|mask| contains(mask, REQUEST))
}
