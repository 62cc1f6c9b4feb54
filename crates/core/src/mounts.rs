//! When to scan the volumes after the mount table has changed: at once if that is rare, and less and
//! less often while it goes on.
//!
//! inotify does not report that something was mounted, and a volume that is mounted anew often has the device, inode
//! and mount id of the old one. So the event loop waits for changes of the mount table (`volume/watch/mount_table.rs`),
//! and each scan for one renews all watches (`Command::RenewWatches`). Where the kernel does not report them, each
//! resync has the watches renewed at the next scan. `Agent::scanned` (`run/volumes.rs`) remembers at which paths
//! something was mounted: the directory below such a mount is not the volume, which is then missing.

use std::time::Duration;

use super::backoff;
use crate::clock::Moment;

/// The wait after a first change: a volume is often unmounted and mounted anew in one go.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(5);
/// How long the mount table must not have changed for a change to count as a first one.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct MountChanges {
    due: Option<Moment>,
    /// The last scan for a change.
    scanned: Option<Moment>,
    /// The number of scans without a quiet time between them.
    in_a_row: u32,
}

impl MountChanges {
    /// Handles a change of the mount table.
    pub(super) fn changed(&mut self, now: Moment) {
        if self.due.is_some() {
            return;
        }
        if self.scanned.is_none_or(|scanned| now >= scanned.after(QUIET)) {
            self.in_a_row = 0;
        }
        self.due = Some(now.after(backoff::doubled(FIRST, self.in_a_row, LONGEST)));
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Whether a scan is due. Takes it as done.
    pub(super) fn take_due(&mut self, now: Moment) -> bool {
        let is_due = self.due.take_if(|due| now >= *due).is_some();
        if is_due {
            self.scanned = Some(now);
        }
        is_due
    }

    /// When a scan is due.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Moment {
        Moment(Duration::from_millis(n))
    }

    #[test]
    fn one_change_is_scanned_once_and_at_once() {
        let mut mounts = MountChanges::default();
        assert_eq!(mounts.next_wakeup(), None);
        mounts.changed(ms(1000));
        mounts.changed(ms(1010));
        assert_eq!(mounts.next_wakeup(), Some(ms(1020)));
        assert!(!mounts.take_due(ms(1019)));
        assert!(mounts.take_due(ms(1020)));
        assert!(!mounts.take_due(ms(1020)));
        assert_eq!(mounts.next_wakeup(), None);
    }

    #[test]
    fn a_busy_mount_table_is_scanned_every_five_seconds() {
        let mut mounts = MountChanges::default();
        let mut scans = Vec::new();
        for now in 0..60_000 {
            mounts.changed(ms(now));
            if mounts.take_due(ms(now)) {
                scans.push(now);
            }
        }
        assert!(scans.starts_with(&[20, 61, 142, 303]), "{scans:?}");
        assert_eq!(scans.iter().filter(|at| **at >= 30_000).count(), 6, "{scans:?}");
        // After a quiet time, a change is scanned at once again.
        mounts.take_due(ms(70_000));
        mounts.changed(ms(80_000));
        assert_eq!(mounts.next_wakeup(), Some(ms(80_020)));
    }
}
