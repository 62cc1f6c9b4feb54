//! Reads `/proc` (proc(5)): which processes there are, and the `stat` of one. Skips processes that end during the
//! reading.

#[cfg(test)]
#[path = "../../../tests/fuzz/stat.rs"]
mod fuzz;

use std::fs::{self, File};
use std::io::{self, Read as _};

use rustix::io::Errno;

use podnudge_core::reason::Reason;

/// Reads a file of a process; `None` if the process does not exist or is hidden from podnudge.
///
/// # Errors
/// If the system is out of resources: that says nothing about the process.
pub fn read_process_file(pid: i32, file: &str) -> Result<Option<Vec<u8>>, Reason> {
    let path = format!("/proc/{pid}/{file}");
    // The kernel writes these as one piece, so a read that does not fill its buffer is the end.
    let is_one_piece = matches!(file, "stat" | "status" | "cgroup");
    match read_pieces(&path, is_one_piece) {
        Ok(text) => Ok(Some(text)),
        Err(error) => match Errno::from_io_error(&error) {
            // EINVAL: it is exiting, and has no mounts any more.
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM | Errno::INVAL) => {
                Ok(None)
            }
            _ => Err(Reason::new(format!("cannot read `{path}`: {error}"))),
        },
    }
}

/// The rest of a longer file is not read: a process decides about the length of its arguments.
const LARGEST_PROC_FILE: usize = 256 * 1024;

/// Reads a file of `/proc`. Its size is reported as 0, so `fs::read` would begin with 32 bytes and
/// need many system calls.
///
/// # Errors
/// If it cannot be read.
pub fn read_proc_file(path: &str) -> io::Result<Vec<u8>> {
    read_pieces(path, false)
}

fn read_pieces(path: &str, is_one_piece: bool) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = file.read(&mut piece)?;
        text.extend_from_slice(piece.get(..length).unwrap_or_default());
        let is_end = length == 0 || (is_one_piece && length < piece.len());
        if is_end || text.len() >= LARGEST_PROC_FILE {
            return Ok(text);
        }
    }
}

/// The fields of `/proc/PID/stat` that podnudge uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// The name that the kernel reports; anything that is not UTF-8 is replaced.
    pub comm: String,
    /// The pid of the parent; 0 if that is outside of the process namespace.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The session.
    pub session: i32,
    /// The start time: see [`Identity`](crate::Identity).
    pub start_ticks: u64,
    /// Whether the process runs.
    pub life: Life,
    /// Whether the process is a thread of the kernel, which runs no program.
    pub is_kernel_thread: bool,
    /// Whether the process was forked and has not called exec since, so that it has its parent's configuration.
    pub is_forked_without_exec: bool,
}

impl ProcessStat {
    /// Whether the process is a zombie, or already reaped.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.life == Life::Dead
    }
}

/// Whether a process runs, as its `stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The process runs, or waits.
    Running,
    /// The last thread ends: the process runs no code any more, and what it had open is being closed.
    Exiting,
    /// The process is a zombie, or already reaped.
    Dead,
}

/// Reads the stat of a process; `None` if there is no such process.
///
/// # Errors
/// If the system is out of resources: that says nothing about the process.
pub fn stat(pid: i32) -> Result<Option<ProcessStat>, Reason> {
    Ok(read_process_file(pid, "stat")?.and_then(|text| parse_stat(&text)))
}

/// The bit of `flags` (field 9) for a process whose main thread ends (`PF_EXITING` in linux/sched.h).
const EXITING: u64 = 0x4;

/// The bit of `flags` for a kernel thread (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The bit of `flags` for a process without an exec since its fork (`PF_FORKNOEXEC`).
const FORK_WITHOUT_EXEC: u64 = 0x40;

/// Parses `41 (a name) S 1 …`. The name may contain anything, so the fields are after the last `)`.
fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    // proc(5) numbers the fields from 1; the third is the first after the name.
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(9 - 7)?.parse().ok()?;
    let threads: u32 = fields.nth(20 - 10)?.parse().ok()?;
    let start_ticks = fields.nth(22 - 21)?.parse().ok()?;
    Some(ProcessStat {
        comm: String::from_utf8_lossy(text.get(open + 1..close)?).into_owned(),
        parent,
        group,
        session,
        start_ticks,
        // The main thread may end before the others, as when another thread calls exec.
        life: match (state, threads) {
            ("X" | "x", _) | ("Z", 0..=1) => Life::Dead,
            (_, 1) if flags & EXITING != 0 => Life::Exiting,
            _ => Life::Running,
        },
        is_kernel_thread: flags & KERNEL_THREAD != 0,
        is_forked_without_exec: flags & FORK_WITHOUT_EXEC != 0,
    })
}

/// Lists the pids of all processes.
///
/// # Errors
/// If `/proc` cannot be listed.
pub fn all_pids() -> Result<Vec<i32>, Reason> {
    let entries = fs::read_dir("/proc")
        .map_err(|error| Reason::new(format!("cannot list `/proc`: {error}")))?;
    let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(pid).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let line = b"41 (a) S 9 (b) S 7 41 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        let stat = parse_stat(line).expect("it is a stat line");
        assert_eq!(stat.comm, "a) S 9 (b");
        assert_eq!((stat.parent, stat.group, stat.session), (7, 41, 40));
        assert_eq!((stat.start_ticks, stat.life), (12345, Life::Running));
    }

    #[test]
    fn an_exited_main_thread_is_not_the_end_of_its_process() {
        let line = |state: &str, threads: u32| {
            format!(
                "41 (a) {state} 7 41 41 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 1 1"
            )
        };
        let read = |text: String| parse_stat(text.as_bytes()).expect("a stat line").life;
        assert_eq!(
            [("Z", 2), ("S", 1)].map(|(state, threads)| read(line(state, threads))),
            [Life::Running; 2]
        );
        let dead = [("Z", 1), ("Z", 0), ("X", 1)];
        assert_eq!(dead.map(|(state, threads)| read(line(state, threads))), [Life::Dead; 3]);
    }

    #[test]
    fn a_process_whose_last_thread_ends_is_exiting_before_it_is_dead() {
        let life = |flags: u32, threads: u32| {
            let text =
                format!("41 (a) R 7 41 41 0 -1 {flags} 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 0 0");
            parse_stat(text.as_bytes()).expect("a stat line").life
        };
        assert_eq!(life(0x0040_0004, 1), Life::Exiting);
        let running = [life(0x0040_0004, 2), life(0x0040_0004, 0), life(0x0040_0000, 1)];
        assert_eq!(running, [Life::Running; 3]);
    }
}
