//! A control group with a limit on memory, as the kubelet makes one for a container.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
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

/// What the processes of a group take, in KiB: their memory, what the kernel holds for them, and the pages
/// of the files that they were the first to read or write.
impl MemoryLimit {
    fn number(&self, v1: &str, v2: &str) -> u64 {
        let text =
            fs::read_to_string(self.0.join(v1)).or_else(|_| fs::read_to_string(self.0.join(v2)));
        text.unwrap().trim().parse().unwrap()
    }

    /// The pids of its processes.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.0.join("cgroup.procs")).unwrap();
        text.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    pub(crate) fn usage(&self) -> u64 {
        self.number("memory.usage_in_bytes", "memory.current") / 1024
    }

    /// Begins to measure the peak.
    pub(crate) fn measure(&self) -> Peak {
        let (v1, v2) = (self.0.join("memory.max_usage_in_bytes"), self.0.join("memory.peak"));
        let path = if v1.exists() { v1 } else { v2 };
        let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        // Version 2 resets what is read from this descriptor, since Linux 6.12.
        file.write_all(b"0").unwrap();
        Peak(file)
    }

    /// How many processes of the group the kernel has ended.
    pub(crate) fn ended(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.oom_control"));
        let text = text.or_else(|_| fs::read_to_string(self.0.join("memory.events"))).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.unwrap().trim().parse().unwrap()
    }
}

/// The peak of a group since the measuring began.
pub(crate) struct Peak(File);

impl Peak {
    /// In KiB.
    pub(crate) fn read(&mut self) -> u64 {
        let mut text = String::new();
        self.0.rewind().unwrap();
        self.0.read_to_string(&mut text).unwrap();
        text.trim().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}
