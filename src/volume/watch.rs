//! Hearing of changes: one inotify instance, a non-recursive watch on each directory that
//! matters. Alone names notify.
//!
//! Watches are on directories by their path, never on a file and never through `..data`: those
//! die with the first swap. Events become hints, a set of volumes that are worth a look; the set
//! is bounded however many events come.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Config, ErrorKind, Event, EventKind, INotifyWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::read::Directory;
use crate::core::event::{Reason, VolumeId};

/// The directory watches of all volumes.
#[derive(Debug)]
pub struct Watcher {
    inotify: INotifyWatcher,
    hints: Hints,
    /// Which directory is watched at a path.
    watched: BTreeMap<PathBuf, (u64, u64)>,
}

/// What the watch has told and nobody has taken yet.
#[derive(Debug, Clone, Default)]
pub struct Hints(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Who wants to hear of a directory, and of which entry in it (all, if `None`).
    interests: BTreeMap<PathBuf, BTreeMap<VolumeId, Option<Vec<u8>>>>,
    pending: Pending,
    /// Watched directories that were removed or renamed: their watches are dead.
    gone: BTreeSet<PathBuf>,
}

/// Volumes that are worth a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// Something was lost: look at everything.
    pub all: bool,
    /// Otherwise, these.
    pub volumes: BTreeSet<VolumeId>,
}

/// Whether [`Watcher::sync`] changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// Everything was watched already.
    Unchanged,
    /// A watch is new: look once more, for what happened before it was there.
    Changed,
}

impl Hints {
    /// Waits until there is a hint, and takes all there are.
    pub async fn next(&self) -> Pending {
        loop {
            let pending = std::mem::take(&mut self.state().pending);
            if pending != Pending::default() {
                return pending;
            }
            self.0.wake.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while holding the lock leaves nothing half done.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event on notify's thread.
    fn take(&self, event: notify::Result<Event>) {
        let mut state = self.state();
        match event {
            Ok(event) if event.need_rescan() => state.pending.all = true,
            Ok(event) if matters(event.kind) => {
                let dies = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(_));
                for path in &event.paths {
                    state.touch(path, dies);
                }
            }
            Ok(_) => return,
            Err(_) => state.pending.all = true,
        }
        if state.pending != Pending::default() {
            self.0.wake.notify_one();
        }
    }
}

/// Reads (our own, too) and changes of mode are nothing; a write counts when the file is closed.
fn matters(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Access(AccessKind::Close(AccessMode::Write))
    )
}

impl State {
    fn touch(&mut self, path: &Path, dies: bool) {
        if let Some(interested) = self.interests.get(path) {
            self.pending.volumes.extend(interested.keys());
            if dies {
                self.gone.insert(path.to_owned());
            }
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        if is_preparation(name) {
            return;
        }
        for (volume, entry) in self.interests.get(parent).into_iter().flatten() {
            let any = entry.as_ref().is_none_or(|entry| entry == name.as_bytes());
            if any || name == "..data" {
                self.pending.volumes.insert(*volume);
            }
        }
    }
}

/// What the kubelet does before and after the commit: making and removing timestamped
/// directories, and the link that is renamed. The commit itself is the rename to `..data`.
fn is_preparation(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"..") && name != "..data"
}

impl Watcher {
    /// Starts an inotify instance and its thread. Hints go to `hints`.
    ///
    /// # Errors
    /// If there is no inotify instance to be had; the reason names the limit.
    pub fn start(hints: Hints) -> Result<Self, Reason> {
        *hints.state() = State::default();
        let taker = hints.clone();
        let inotify = INotifyWatcher::new(move |event| taker.take(event), Config::default())
            .map_err(|error| reason(&error))?;
        Ok(Self { inotify, hints, watched: BTreeMap::new() })
    }

    /// Makes sure that exactly `directories` are watched for `volume`.
    ///
    /// # Errors
    /// If one of them cannot be watched; the reason names the limit. The others are.
    pub fn sync(&mut self, volume: VolumeId, directories: &[Directory]) -> Result<Synced, Reason> {
        self.forget(volume, directories);
        let mut synced = Ok(Synced::Unchanged);
        for directory in directories {
            let gone = {
                let mut state = self.hints.state();
                let interested = state.interests.entry(directory.path.clone()).or_default();
                interested.insert(volume, directory.entry.clone());
                state.gone.remove(&directory.path)
            };
            let known = self.watched.get(&directory.path);
            if known == Some(&directory.id) && !gone {
                continue;
            }
            if known.is_some() {
                self.unwatch(&directory.path);
            }
            match self.inotify.watch(&directory.path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(directory.path.clone(), directory.id);
                    synced = synced.map(|_| Synced::Changed);
                }
                // It is gone again: the next look will say what to watch instead.
                Err(error) if is_not_found(&error) => synced = synced.map(|_| Synced::Changed),
                Err(error) => synced = Err(reason(&error)),
            }
        }
        synced
    }

    /// Drops the watches that `volume` needs no longer.
    fn forget(&mut self, volume: VolumeId, needed: &[Directory]) {
        let mut unneeded = Vec::new();
        self.hints.state().interests.retain(|path, interested| {
            if !needed.iter().any(|directory| directory.path == *path) {
                interested.remove(&volume);
            }
            if interested.is_empty() {
                unneeded.push(path.clone());
            }
            !interested.is_empty()
        });
        for path in unneeded {
            self.unwatch(&path);
        }
    }

    fn unwatch(&mut self, path: &Path) {
        self.watched.remove(path);
        // It fails where the directory is gone, and the kernel has dropped the watch itself.
        drop(self.inotify.unwatch(path));
    }
}

fn is_not_found(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
        _ => false,
    }
}

/// Why inotify does not serve, and which limit to raise (inotify(7)).
fn reason(error: &notify::Error) -> Reason {
    let emfile = rustix::io::Errno::MFILE.raw_os_error();
    let enospc = rustix::io::Errno::NOSPC.raw_os_error();
    match &error.kind {
        ErrorKind::MaxFilesWatch => limit("max_user_watches", "watches"),
        ErrorKind::Io(error) if error.raw_os_error() == Some(enospc) => {
            limit("max_user_watches", "watches")
        }
        ErrorKind::Io(error) if error.raw_os_error() == Some(emfile) => {
            limit("max_user_instances", "instances")
        }
        ErrorKind::Io(error) => Reason::new(format!("inotify does not work here: {error}"))
            .hint("set watch = \"poll\" if this file system or sandbox has no inotify"),
        _ => Reason::new(format!("inotify does not work here: {error}")),
    }
}

/// The limits are per user id on the node, shared by all containers of that id.
fn limit(name: &str, what: &str) -> Reason {
    let value = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}"));
    let value = value.as_deref().map_or("unknown", str::trim);
    let uid = rustix::process::geteuid().as_raw();
    Reason::new(format!("no more inotify {what} for uid {uid}: fs.inotify.{name} is {value}"))
        .hint(format!(
            "raise the sysctl fs.inotify.{name} on the node, or give podnudge a runAsUser of its own: the limit counts per uid"
        ))
}
