//! A control group with a limit on memory, as the kubelet makes one for a container.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::program::command;
use super::wait::wait_until;

/// The group. It is removed when its processes have ended.
pub(crate) struct MemoryLimit(PathBuf);

impl MemoryLimit {
    pub(crate) fn new(bytes: u64) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = if v1.exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let group = root.join(format!("podnudge-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join(file), bytes.to_string()).unwrap();
        Self(group)
    }

    /// A program in the group.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut shell = command("sh");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        shell.args(["-c", script]).arg(self.0.join("cgroup.procs")).arg(program);
        shell
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}
