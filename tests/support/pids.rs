//! A control group with a limit on processes and threads, as the kubelet makes one for a pod.

use std::fs;
use std::path::{Path, PathBuf};

use super::wait::wait_until;

/// The group. When it is dropped, its processes go on outside of it.
pub(crate) struct PidsLimit(PathBuf);

impl PidsLimit {
    /// Moves a process into a group in which no other process or thread can be started.
    pub(crate) fn new(pid: i32) -> Self {
        let v1 = Path::new("/sys/fs/cgroup/pids");
        let root = if v1.exists() { v1 } else { Path::new("/sys/fs/cgroup") };
        let group = root.join(format!("podnudge-test-pids-{}-{pid}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
        // Fewer than there are already: the kernel allows that, and starts no other.
        fs::write(group.join("pids.max"), "1").unwrap();
        Self(group)
    }

    /// Ends the limit.
    pub(crate) fn lift(&self) {
        fs::write(self.0.join("pids.max"), "max").unwrap();
    }
}

impl Drop for PidsLimit {
    fn drop(&mut self) {
        // After a failed test, podnudge is still there.
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            drop(fs::write(self.0.with_file_name("cgroup.procs"), pid));
        }
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}
