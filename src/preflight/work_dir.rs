//! The work directory: whether somebody else may change the private copy that programs check.
//!
//! In an emptyDir every user may write, so that alone is no problem in a pod: it is one if another
//! container, or another user in podnudge's container, reaches it. The name of a copy cannot be foreseen,
//! and only podnudge's uid may enter it; but whoever may rename entries can put another copy in its place. A
//! process of podnudge's uid in podnudge's container can do so wherever the directory is, and is no problem
//! of the directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

use crate::process::{Reach, TargetProcess, Way, reach};
use crate::volume::mounts;
use podnudge_config::{Condition, Rule};
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

const ROOT: u32 = 0;

/// The owner, group and mode of a directory.
struct Permissions {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Permissions {
    fn of(dir: &Path) -> Option<Self> {
        let found = fs::metadata(dir).ok().filter(fs::Metadata::is_dir)?;
        Some(Self { uid: found.uid(), gid: found.gid(), mode: found.mode() })
    }

    /// Whether everybody may rename what is in it, and not only owners (the sticky bit).
    fn is_open_to_all(&self) -> bool {
        self.mode & 0o1002 == 0o002
    }

    /// Whether a process that is not root and has another uid than podnudge may rename what is in it.
    fn is_open_to(&self, process: &Reach) -> bool {
        let by_group = self.mode & 0o1020 == 0o020 && process.groups.contains(&self.gid);
        process.uid == self.uid || by_group || self.is_open_to_all()
    }
}

/// Somebody else may change what the programs of the rule check.
pub(super) fn shared(rule: &Rule, targets: &[TargetProcess], work_dir: &Path) -> Option<Problem> {
    let is_program = |condition: &Condition| matches!(condition, Condition::Exec(_));
    if !rule.checks.iter().any(|check| is_program(&check.condition)) {
        return None;
    }
    // If it is missing, the check says so.
    let dir = Permissions::of(work_dir)?;
    let own = geteuid().as_raw();
    let (who, hint) = if ![own, ROOT].contains(&dir.uid) {
        (
            format!("uid {} can change: it owns the directory", dir.uid),
            "give podnudge an emptyDir of its own, and set `work-dir` in [agent] to its path",
        )
    } else if dir.is_open_to_all() && !mounts::is_in_pod() {
        (
            "every user can change: all may write to the directory, and it has no sticky bit"
                .to_owned(),
            "set `work-dir` in [agent] to a directory to which only podnudge's uid may write",
        )
    } else {
        targets.iter().find_map(|target| {
            let process = reach(target.identity, work_dir)?;
            let name = &target.name;
            match process.way {
                Way::OtherContainer
                    if [own, ROOT].contains(&process.uid) || dir.is_open_to(&process) =>
                {
                    Some((
                        format!("process {name} can change: its container mounts the directory, too"),
                        "mount an emptyDir of its own into podnudge's container only, and set `work-dir` in [agent] to its path",
                    ))
                }
                Way::SameContainer
                    if ![own, ROOT].contains(&process.uid) && dir.is_open_to(&process) =>
                {
                    Some((
                        format!("process {name} of uid {} can change: it may write to the directory", process.uid),
                        "set `work-dir` in [agent] to a directory to which only podnudge's uid may write",
                    ))
                }
                Way::OtherContainer | Way::SameContainer => None,
            }
        })?
    };
    let path = shown::path_literal(work_dir);
    let message = format!(
        "the programs of the checks read a copy below the work directory {path}, which {who}"
    );
    Some(Problem::new(ProblemKind::WorkDirShared, Reason::new(message).hint(hint)))
}
