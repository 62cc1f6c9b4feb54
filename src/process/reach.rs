//! What another process may do to a directory of podnudge, by its mounts, uid and groups.
//!
//! Reads `/proc/PID/{mountinfo,status}`, which every uid may; changes nothing.

use std::fs;
use std::path::Path;

use super::{Identity, proc};
use crate::volume::mounts::{self, Mount};

/// How a process reaches a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The effective uid of the process.
    pub(crate) uid: u32,
    /// The group and the supplementary groups of the process.
    pub(crate) groups: Vec<u32>,
    pub(crate) way: Way,
}

/// Through which mount a process reaches a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The process runs in podnudge's own container, with the same mounts.
    SameContainer,
    /// The process's container mounts the same volume, writable.
    OtherContainer,
}

/// How a process reaches this directory; `None` if it does not, only reads it, or if that is unknown.
pub(crate) fn reach(identity: Identity, dir: &Path) -> Option<Reach> {
    let real = dir.canonicalize().ok()?;
    let own = mounts::parse(&fs::read("/proc/self/mountinfo").ok()?);
    let own = mounts::containing(&real, &own)?;
    let place = own.root.join(real.strip_prefix(&own.mount_point).ok()?);
    let all = mounts::parse(&proc::read_process_file(identity.pid, "mountinfo").ok()??);
    let shows = |mount: &&Mount| {
        mount.device == own.device && place.starts_with(&mount.root) && !mount.is_read_only
    };
    // Each mount namespace has mounts of its own.
    let way = if all.iter().any(|mount| mount.id == own.id) {
        Way::SameContainer
    } else {
        all.iter().find(shows).map(|_| Way::OtherContainer)?
    };
    let status = proc::status(identity.pid).ok()??;
    let numbers = |field: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let words = line.unwrap_or_default().split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    // The real, the effective, the saved and the file system's id.
    let uid = *numbers("Uid:").get(1)?;
    let groups = numbers("Gid:").get(1).copied().into_iter().chain(numbers("Groups:")).collect();
    Some(Reach { uid, groups, way })
}
