//! What is known of a watched path from its scans. Pure.

use std::path::{Path, PathBuf};

use super::reader::{Reading, Root};
use podnudge_core::clock::Moment;
use podnudge_core::event::RuleId;
use podnudge_core::snapshot::Generation;

/// A watched path, and what the scans have found there.
#[derive(Debug)]
pub(crate) struct KnownVolume {
    pub(crate) rule: RuleId,
    pub(crate) path: PathBuf,
    /// Whether the path was a mount at some scan.
    was_mounted: bool,
    /// Whether the kubelet wrote the volume, by the last scan. Such a volume is local and holds at most 1 MiB: reading it takes
    /// less time than handing it to another thread.
    pub(crate) is_kubelets: bool,
    /// Whether there were keys at the last scan, all in one directory.
    pub(crate) is_flat: bool,
    /// When a scan has read it last.
    pub(crate) read_at: Moment,
}

impl KnownVolume {
    pub(crate) fn new(rule: RuleId, path: &Path) -> Self {
        let path = path.to_owned();
        Self {
            rule,
            path,
            was_mounted: false,
            is_kubelets: false,
            is_flat: false,
            read_at: Moment::default(),
        }
    }

    /// A scan has read it.
    pub(crate) fn found(&mut self, reading: &Reading, now: Moment) {
        self.read_at = now;
        self.was_mounted |= reading.is_mounted == Some(true);
        let generation = reading.snapshot.as_ref().map(|snapshot| &snapshot.generation);
        self.is_kubelets = generation.is_some_and(Generation::is_link);
        self.is_flat = reading.is_flat;
    }

    /// What must be at its path.
    pub(crate) fn root(&self) -> Root {
        if self.was_mounted { Root::Mount } else { Root::Any }
    }
}
