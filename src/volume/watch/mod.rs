//! Watches the volumes: by inotify if possible, otherwise by polling, for each volume.
//!
//! Reads no content; changes only the watches of its inotify instance.

mod inotify;
mod mount_table;

use crate::volume::scan::Directory;
pub use inotify::{Hints, Pending, Synced, Watcher};
pub(crate) use mount_table::MountTable;
use podnudge_config::WatchMode;
use podnudge_core::event::{VolumeId, Watch};
use podnudge_core::reason::Reason;

/// How each volume is watched.
#[derive(Debug)]
pub(crate) struct Watching {
    mode: WatchMode,
    hints: Hints,
    watcher: Result<Watcher, Reason>,
    volumes: Vec<Volume>,
}

#[derive(Debug, Clone, Default)]
struct Volume {
    /// The directories to watch for it.
    directories: Vec<Directory>,
    /// How it is watched; `None` before the first scan.
    watch: Option<Watch>,
}

/// The result of [`Watching::sync`].
#[derive(Debug)]
pub(crate) struct Change {
    /// Whether a watch is new, so that a change before it may have been missed.
    pub(crate) is_new: bool,
    /// How the volume is watched from now on, if that has changed.
    pub(crate) watch: Option<Watch>,
}

impl Watching {
    pub(crate) fn new(mode: WatchMode, volumes: usize) -> Self {
        let hints = Hints::default();
        let watcher = match mode {
            WatchMode::Inotify => Watcher::start(hints.clone()),
            WatchMode::Poll => Err(Reason::new("watch is `poll`")),
        };
        Self { mode, hints, watcher, volumes: vec![Volume::default(); volumes] }
    }

    pub(crate) fn hints(&self) -> Hints {
        self.hints.clone()
    }

    /// Watches these directories for a volume, and no others.
    pub(crate) fn sync(&mut self, volume: VolumeId, directories: Vec<Directory>) -> Change {
        let Some(state) = self.volumes.get_mut(volume.0) else {
            return Change { is_new: false, watch: None };
        };
        state.directories = directories;
        let synced = match &mut self.watcher {
            Ok(watcher) => watcher.sync(volume, &state.directories),
            Err(reason) => Err(reason.clone()),
        };
        let is_new = synced == Ok(Synced::Changed);
        let watch = match synced {
            Ok(_) => Watch::Inotify,
            Err(_) if self.mode == WatchMode::Poll => Watch::Polled,
            Err(reason) => Watch::Polling(reason),
        };
        let changed = state.watch.as_ref() != Some(&watch);
        state.watch = Some(watch.clone());
        Change { is_new, watch: changed.then_some(watch) }
    }

    /// Handles a possible change of mounts: the next scan of a volume renews its watches.
    pub(crate) fn distrust(&mut self) {
        if let Ok(watcher) = &mut self.watcher {
            watcher.distrust();
        }
    }

    /// Retries inotify for a volume that is polled. Returns how it is watched from now on, if that
    /// has improved.
    pub(crate) fn retry_inotify(&mut self, volume: VolumeId) -> Option<Watch> {
        let state = self.volumes.get(volume.0)?;
        if self.mode == WatchMode::Poll || !matches!(state.watch, Some(Watch::Polling(_))) {
            return None;
        }
        let directories = state.directories.clone();
        if self.watcher.is_err() {
            self.watcher = Watcher::start(self.hints.clone());
        }
        let change = self.sync(volume, directories);
        change.watch.filter(|watch| *watch == Watch::Inotify)
    }
}
