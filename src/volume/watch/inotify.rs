//! Watches directories by inotify: one instance, and a non-recursive watch on each relevant
//! directory. The only module that uses notify.
//!
//! It watches directories by their path, never a file and never through `..data`: such a watch is
//! lost at the first swap. Events become hints, a set of volumes to scan, so memory is bounded
//! however many events arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Config, ErrorKind, Event, EventKind, INotifyWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use crate::system::threads;
use crate::volume::scan::Directory;
use podnudge_core::collect;
use podnudge_core::event::VolumeId;
use podnudge_core::reason::Reason;

/// The directory watches of all volumes.
#[derive(Debug)]
pub struct Watcher {
    inotify: INotifyWatcher,
    hints: Hints,
    /// The directory that is watched at each path; each directory by one path only.
    watched: BTreeMap<PathBuf, (u64, u64)>,
}

/// The hints that the watch has given and the loop has not taken yet.
#[derive(Debug, Clone, Default)]
pub struct Hints(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The subscribed volumes of each directory, each with the entry that it needs.
    subscriptions: BTreeMap<PathBuf, Vec<(VolumeId, Entry)>>,
    pending: Pending,
    /// Whether the kernel has reported a change by another process.
    has_reported: bool,
    /// Watched directories that were removed or renamed, or may have been unmounted: their watches
    /// may be dead.
    gone: BTreeSet<PathBuf>,
}

/// A name in a directory; `None` for all.
type Entry = Option<Vec<u8>>;

/// Volumes that may have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// Events were lost: all volumes may have changed.
    pub all: bool,
    /// Otherwise these, each with the number of commits of the kubelet.
    pub volumes: Vec<(VolumeId, u32)>,
}

/// Whether [`Watcher::sync`] changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// Everything was watched already.
    Unchanged,
    /// A watch is new: an earlier change may have been missed.
    Changed,
}

impl Pending {
    fn touch(&mut self, volumes: impl IntoIterator<Item = VolumeId>) {
        for volume in volumes {
            self.add(volume, 0);
        }
    }

    fn add(&mut self, volume: VolumeId, commits: u32) {
        match self.volumes.iter_mut().find(|(known, _)| *known == volume) {
            Some((_, counted)) => *counted = counted.saturating_add(commits),
            None => self.volumes.push((volume, commits)),
        }
    }
}

impl Hints {
    /// Waits until there is a hint, and takes all of them.
    pub async fn next(&self) -> Pending {
        loop {
            let pending = std::mem::take(&mut self.state().pending);
            if pending != Pending::default() {
                return pending;
            }
            self.0.wake.notified().await;
        }
    }

    /// Whether inotify has ever reported a change of a volume. In a sandbox such as gVisor it does not report what other
    /// containers do (<https://github.com/google/gvisor/issues/11326>), and the kubelet is outside of it.
    pub(crate) fn have_come(&self) -> bool {
        self.state().has_reported
    }

    fn hint(&self, volumes: impl IntoIterator<Item = VolumeId>) {
        let mut state = self.state();
        state.pending.touch(volumes);
        self.wake(state);
    }

    /// Wakes the loop if there are hints. It takes the lock at once, so it is released before.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let has_hints = state.pending != Pending::default();
        drop(state);
        if has_hints {
            self.0.wake.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent even after a panic that held the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles an event, on notify's thread.
    fn on_event(&self, event: notify::Result<Event>) {
        let mut state = self.state();
        match event {
            Ok(event) if event.need_rescan() => state.pending.all = true,
            Ok(event) if is_relevant(event.kind) => {
                state.has_reported = true;
                let touch = match event.kind {
                    EventKind::Remove(_) | EventKind::Modify(_) => State::removed,
                    _ => State::written,
                };
                for path in &event.paths {
                    touch(&mut state, path);
                }
                let is_rename = event.kind == EventKind::Modify(ModifyKind::Name(RenameMode::To));
                if is_rename || matches!(event.kind, EventKind::Remove(_)) {
                    event.paths.iter().for_each(|path| state.replaced(path));
                }
            }
            Ok(_) => return,
            Err(_) => state.pending.all = true,
        }
        self.wake(state);
    }
}

/// Ignores reads, also podnudge's own, and changes of mode; a write counts when the file is closed.
fn is_relevant(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Access(AccessKind::Close(AccessMode::Write))
    )
}

impl State {
    /// Gives hints for a path that was removed or renamed.
    fn removed(&mut self, path: &Path) {
        // A removed directory also ends the watches below it.
        let below = self.subscriptions.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        for (place, subscribed) in below.take_while(|(place, _)| place.starts_with(path)) {
            self.pending.touch(subscribed.iter().map(|(volume, _)| *volume));
            self.gone.insert(place.clone());
        }
        self.entry_changed(path);
    }

    /// Gives hints for a path that was created or written.
    fn written(&mut self, path: &Path) {
        if let Some(subscribed) = self.subscriptions.get(path) {
            self.pending.touch(subscribed.iter().map(|(volume, _)| *volume));
        }
        self.entry_changed(path);
    }

    /// Something was renamed to this path, or it was removed. If it is `..data`, the rename is a
    /// commit; a removal counts as one, because a process that starts then finds no content. The
    /// kernel sends an event for each.
    fn replaced(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        if name == "..data" {
            for volume in self.subscribers(parent) {
                self.pending.add(volume, 1);
            }
        }
    }

    /// Gives a hint for the volumes that are subscribed to the directory of this path.
    fn entry_changed(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        if is_internal_name(name) {
            return;
        }
        for (volume, entry) in self.subscriptions.get(parent).into_iter().flatten() {
            let is_wanted = entry.as_ref().is_none_or(|entry| entry == name.as_bytes());
            if name == "..data" || is_wanted {
                self.pending.touch([*volume]);
            }
        }
    }

    /// Replaces the subscriptions of `volume`. Returns the paths without subscribers.
    fn subscribe(&mut self, volume: VolumeId, places: &[(PathBuf, &Directory)]) -> Vec<PathBuf> {
        for subscribed in self.subscriptions.values_mut() {
            subscribed.retain(|(other, _)| *other != volume);
        }
        for (path, directory) in places {
            let subscribed = self.subscriptions.entry(path.clone()).or_default();
            subscribed.push((volume, directory.entry.clone()));
        }
        let mut unused = Vec::new();
        self.subscriptions.retain(|path, subscribed| {
            if subscribed.is_empty() {
                unused.push(path.clone());
            }
            !subscribed.is_empty()
        });
        // Their watches end, whether they are dead or not.
        for path in &unused {
            self.gone.remove(path);
        }
        unused
    }

    /// The volumes that are subscribed to a path, without duplicates.
    fn subscribers(&self, path: &Path) -> Vec<VolumeId> {
        let subscribed = self.subscriptions.get(path).into_iter().flatten();
        collect::set(subscribed.map(|(volume, _)| *volume)).into_iter().collect()
    }
}

/// Whether the kubelet uses this name before or after a commit: the timestamped directories, and
/// the link that it renames. The commit itself is the rename to `..data`.
fn is_internal_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"..") && name != "..data"
}

impl Watcher {
    /// Starts an inotify instance and its thread, which adds to `hints`.
    ///
    /// # Errors
    /// If no inotify instance can be created, with the limit as the reason, or no thread.
    pub fn start(hints: Hints) -> Result<Self, Reason> {
        *hints.state() = State::default();
        let (receiver, marker) = (hints.clone(), Arc::new(()));
        let of_thread = Arc::clone(&marker);
        let on_event = move |event| {
            let _ = &of_thread;
            receiver.on_event(event);
        };
        // notify ignores it if its thread cannot be started: then nothing can be closed, and all else panics.
        threads::Thread::start().map_err(|_| threads::none_for_inotify())?;
        let inotify = INotifyWatcher::new(on_event, Config::default());
        let inotify = inotify.map_err(|error| inotify_reason(&error))?;
        if Arc::strong_count(&marker) == 1 {
            std::mem::forget(inotify);
            return Err(threads::none_for_inotify());
        }
        Ok(Self { inotify, hints, watched: BTreeMap::new() })
    }

    /// Takes no watch for alive: each is renewed at the next [`Watcher::sync`] that needs it.
    ///
    /// After a mount, another directory may be at the same path. It may even have the same device, inode
    /// and mount id, which the kernel assigns again, and notify reports neither `IN_UNMOUNT` nor
    /// `IN_IGNORED` (inotify(7)).
    pub fn distrust(&mut self) {
        self.hints.state().gone = self.watched.keys().cloned().collect();
    }

    /// Watches exactly `directories` for `volume`.
    ///
    /// # Errors
    /// If one of them cannot be watched; the reason names the limit. The others are watched.
    pub fn sync(&mut self, volume: VolumeId, directories: &[Directory]) -> Result<Synced, Reason> {
        let places: Vec<(PathBuf, &Directory)> =
            directories.iter().map(|directory| (self.watch_path(directory), directory)).collect();
        let unused = self.hints.state().subscribe(volume, &places);
        for path in unused {
            self.unwatch(&path);
        }
        let mut synced = Ok(Synced::Unchanged);
        for (path, directory) in &places {
            // Clears the mark that its watch may be dead.
            let gone = self.hints.state().gone.remove(path);
            if self.watched.get(path) != Some(&directory.id) {
                self.remove_conflicting(path, directory.id, volume);
            } else if gone {
                self.remove_watch(path, volume);
            } else {
                continue;
            }
            match self.inotify.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path.clone(), directory.id);
                    synced = synced.map(|_| Synced::Changed);
                }
                Err(error) if is_not_found(&error) => {
                    // It has disappeared again: the next scan finds out what to watch instead.
                    self.hints.hint([volume]);
                    synced = synced.map(|_| Synced::Changed);
                }
                Err(error) => synced = Err(inotify_reason(&error)),
            }
        }
        synced
    }

    /// The path by which a directory is watched: the existing watch's path if there is one, since
    /// the kernel keeps one watch per directory, however many paths lead there.
    fn watch_path(&self, directory: &Directory) -> PathBuf {
        let state = self.hints.state();
        let watches = |(path, id): &(&PathBuf, &(u64, u64))| {
            **id == directory.id && !state.gone.contains(*path)
        };
        if self.watched.get(&directory.path) == Some(&directory.id) {
            return directory.path.clone();
        }
        let place = self.watched.iter().find(watches).map(|(path, _)| path);
        place.unwrap_or(&directory.path).clone()
    }

    /// Removes the watches that a new one at `path` would share or replace. Their other volumes are
    /// scanned and watched again.
    fn remove_conflicting(&mut self, path: &Path, id: (u64, u64), volume: VolumeId) {
        let conflicts = |(place, watched): (&PathBuf, &(u64, u64))| {
            (place == path || *watched == id).then(|| place.clone())
        };
        let places: Vec<PathBuf> = self.watched.iter().filter_map(conflicts).collect();
        for place in places {
            self.remove_watch(&place, volume);
        }
    }

    /// Removes a watch that `volume` will renew. Its other volumes are scanned and watched again.
    fn remove_watch(&mut self, path: &Path, volume: VolumeId) {
        let subscribers = self.hints.state().subscribers(path);
        self.hints.hint(subscribers.into_iter().filter(|other| *other != volume));
        self.unwatch(path);
    }

    fn unwatch(&mut self, path: &Path) {
        self.watched.remove(path);
        // It fails if the directory was removed: then the kernel has removed the watch itself.
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

/// Why inotify cannot be used, and which limit to raise (inotify(7)).
fn inotify_reason(error: &notify::Error) -> Reason {
    let emfile = rustix::io::Errno::MFILE.raw_os_error();
    let enospc = rustix::io::Errno::NOSPC.raw_os_error();
    match &error.kind {
        ErrorKind::MaxFilesWatch => limit_reason("max_user_watches", "watches"),
        ErrorKind::Io(error) if error.raw_os_error() == Some(enospc) => {
            limit_reason("max_user_watches", "watches")
        }
        ErrorKind::Io(error) if error.raw_os_error() == Some(emfile) => {
            limit_reason("max_user_instances", "instances")
        }
        ErrorKind::Io(error) => Reason::new(format!("inotify does not work here: {error}"))
            .hint("set watch = \"poll\" if this file system or sandbox has no inotify"),
        _ => Reason::new(format!("inotify does not work here: {error}")),
    }
}

/// The limits are per user id on the node, shared by all containers of that id.
fn limit_reason(name: &str, what: &str) -> Reason {
    let value = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}"));
    let value = value.as_deref().map_or("unknown", str::trim);
    let uid = rustix::process::geteuid().as_raw();
    Reason::new(format!("no more inotify {what} for uid {uid}: fs.inotify.{name} is {value}"))
        .hint(format!(
            "raise the sysctl fs.inotify.{name} on the node, or give podnudge a runAsUser of its own: the limit counts per uid"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such as by a program that puts each version into a folder of its own, and removes the one before.
    #[test]
    fn folders_that_are_removed_are_forgotten() {
        let mut state = State::default();
        let volume = VolumeId(0);
        for n in 0..100 {
            let path = PathBuf::from(format!("/volume/{n}"));
            let folder = Directory { path: path.clone(), id: (1, n), entry: None };
            assert!(state.subscribe(volume, &[(path.clone(), &folder)]).len() <= 1);
            state.removed(&path);
            assert!(state.gone.len() == 1 && state.gone.contains(&path));
        }
        state.subscribe(volume, &[]);
        assert!(state.gone.is_empty());
    }
}
