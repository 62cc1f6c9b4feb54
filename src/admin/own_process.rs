//! Reads what the kernel says about podnudge's own process, for the standard metrics `process_*`
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).
//!
//! Reads `/proc/self` and `/proc/stat`; changes nothing. What cannot be read is left out.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::sync::OnceLock;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::process_metrics::OwnProcess;

/// Reads it now.
pub(super) fn read() -> OwnProcess {
    /// Read once: the boot time in `/proc/stat` moves with the wall clock.
    static START: OnceLock<Option<f64>> = OnceLock::new();
    let stat = fs::read("/proc/self/stat").unwrap_or_default();
    let stat = Stat::parse(&String::from_utf8_lossy(&stat));
    let started = || Some(boot_time()? + seconds(stat?.start_ticks));
    OwnProcess {
        start_time: *START.get_or_init(started),
        cpu_seconds: stat.map(|stat| seconds(stat.cpu_ticks)),
        resident_bytes: stat.map(|stat| stat.resident_pages.saturating_mul(page_size() as u64)),
        virtual_bytes: stat.map(|stat| stat.virtual_bytes),
        open_fds: open_fds(),
        max_fds: getrlimit(Resource::Nofile).current,
    }
}

/// The fields of `/proc/PID/stat` (proc(5)) that the metrics need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    /// User and system time.
    cpu_ticks: u64,
    /// Since the boot.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may contain anything. The third field is the first after it.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// The time of the boot, in seconds since the Unix epoch.
fn boot_time() -> Option<f64> {
    let stat = BufReader::new(File::open("/proc/stat").ok()?);
    let mut lines = stat.lines().map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// The number of open file descriptors, but for the one that this opens.
fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(entries.saturating_sub(1)).ok()
}

#[expect(clippy::cast_precision_loss, reason = "ticks of centuries fit 52 bits")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let line = "41 (a) S 9) S 7 41 41 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 12345 4096 7 1 2";
        let wanted =
            Stat { cpu_ticks: 42, start_ticks: 12345, virtual_bytes: 4096, resident_pages: 7 };
        assert_eq!(Stat::parse(line), Some(wanted));
        assert_eq!(Stat::parse("41 (a) S 7"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn everything_is_read_of_this_process() {
        let process = read();
        assert!(process.start_time.is_some_and(|at| at > 1.7e9), "{process:?}");
        assert!(process.cpu_seconds.is_some_and(|time| time >= 0.0), "{process:?}");
        assert!(process.resident_bytes < process.virtual_bytes, "{process:?}");
        assert!(process.open_fds.is_some_and(|fds| fds >= 3), "{process:?}");
        assert!(process.open_fds < process.max_fds, "{process:?}");
    }
}
