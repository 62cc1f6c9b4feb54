//! Cgroups as the kubelet makes them, by which podnudge tells containers and pods apart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::program::command;
use super::wait::wait_until;

/// The names of the cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    Cgroupfs,
    Systemd,
}

/// The cgroups of a node, removed at the end.
pub(crate) struct Cgroups {
    pub(crate) top: PathBuf,
    driver: Driver,
}

impl Cgroups {
    pub(crate) fn new(driver: Driver) -> Self {
        // Tests that run at the same time must not remove each other's.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let unified = Path::new("/sys/fs/cgroup/unified");
        let root = if unified.exists() { unified } else { Path::new("/sys/fs/cgroup") };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let top = root.join(format!("podnudge-test-{}-{number}", std::process::id()));
        Self { top, driver }
    }

    pub(crate) fn container(&self, uid: &str, digit: &str) -> PathBuf {
        let id = digit.repeat(64);
        let path = match self.driver {
            Driver::Cgroupfs => format!("kubepods/burstable/pod{uid}/{id}"),
            Driver::Systemd => format!(
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
                uid.replace('-', "_")
            ),
        };
        let path = self.top.join(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// A program in a cgroup.
    pub(crate) fn command(&self, group: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
        assert!(group.starts_with(&self.top));
        let mut shell = command("sh");
        shell.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(group).arg(program);
        shell
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let is_removed = || {
            let mut places = vec![self.top.clone()];
            let mut found = Vec::new();
            while let Some(place) = places.pop() {
                let entries = fs::read_dir(&place).into_iter().flatten().flatten();
                places.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
                found.push(place);
            }
            for place in found.iter().rev() {
                drop(fs::remove_dir(place));
            }
            !self.top.exists()
        };
        wait_until("the cgroups are empty", is_removed);
    }
}
