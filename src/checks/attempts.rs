//! Remembers the content that is checked and has not passed: a small file, for the next podnudge. If a check
//! ends podnudge (the kernel, for want of memory, or a bug), its content is counted there; the core decides
//! what becomes of it (`core/checks.rs`).
//!
//! Reads and writes only `..podnudge-checks.RULE.json`, in the first directory of these that takes it, each
//! time anew: `agent.state-dir`, the rule's publish directory, `agent.work-dir`. It survives a restart of the
//! container if that is a volume.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::config::{Agent, Rule};
use crate::core::event::{Checked, Interrupted};
use crate::files::FileError;
use crate::folder::{self, Folder};
use crate::reason::Reason;
use crate::shown;
use crate::volume::snapshot::Digest;

/// The most digests in a file; the oldest are forgotten.
const MOST: usize = 16;
/// The largest file, in bytes.
const LARGEST: u64 = 4096;

/// The content of a rule whose checks have begun and not passed.
#[derive(Debug, Clone)]
pub(crate) struct Attempts(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The name of the rule.
    rule: String,
    /// Where the file may be. Empty if no directory can be written.
    places: Vec<Place>,
    /// Set when podnudge is asked to stop: from then on, no check counts.
    is_closed: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Place {
    folder: Folder,
    name: String,
    /// Whether a file may be there.
    is_used: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    /// The content that was checked before and has not passed.
    known: Vec<Interrupted>,
    /// The checks of this podnudge.
    running: Vec<Digest>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    digest: Digest,
    times: u32,
}

/// A check that has begun. When this is dropped, newer content has aborted it, and it does not count.
#[derive(Debug)]
pub(crate) struct Attempt {
    attempts: Attempts,
    digest: Digest,
}

impl Attempt {
    /// The check has ended, and podnudge has survived it.
    pub(super) fn ended(self, checked: &Checked) {
        // Otherwise, other content was on disk.
        if *checked != Checked::Moved {
            let mut entries = self.attempts.lock();
            entries.known.retain(|known| known.digest != self.digest);
            if *checked != Checked::Passed {
                entries.known.push(Interrupted { digest: self.digest, times: 0 });
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // Once podnudge was asked to stop, what is running stays there, but is not counted.
        if self.attempts.0.is_closed.load(Ordering::SeqCst) {
            return;
        }
        self.attempts.update(|entries| {
            let running = entries.running.iter().position(|digest| *digest == self.digest);
            running.map(|place| entries.running.swap_remove(place));
        });
    }
}

impl Attempts {
    /// Opens the file of a rule. Returns what earlier podnudges have left there, too.
    pub(crate) fn open(rule: &Rule, agent: &Agent) -> (Self, Vec<Interrupted>) {
        let publish = rule.settings.publish.as_ref().map(|publish| publish.dir.as_path());
        let folders = [agent.state_dir.as_deref(), publish, Some(&agent.work_dir)];
        let folders = folders.into_iter().flatten().filter(|_| !rule.checks.is_empty());
        let name = format!("..podnudge-checks.{}.json", rule.name);
        let mut places = Vec::new();
        for folder in folders.filter_map(writable) {
            // Two settings may name the same directory.
            if !places.iter().any(|place: &Place| place.folder.is_same(&folder)) {
                let (name, is_used) = (name.clone(), AtomicBool::new(false));
                places.push(Place { folder, name, is_used });
            }
        }
        if places.is_empty() && !rule.checks.is_empty() {
            let hint = "set state-dir to an emptyDir: without it, podnudge repeats a check that ends it, and takes unchecked content for what the application runs";
            warn!(
                event = "checks-not-remembered",
                rule = rule.name,
                hint,
                "no directory can be written"
            );
        }
        let mut known = Vec::new();
        for place in &places {
            // If what a killed podnudge has left cannot be removed, that does not matter.
            _ = place.folder.remove_own_leftovers(&place.prefix());
            match place.load() {
                Ok(there) => merge(&mut known, there),
                Err(error) => unusable(&rule.name, "read", place, error),
            }
        }
        let entries = Entries { known: known.clone(), running: Vec::new() };
        let (is_closed, entries) = (AtomicBool::new(false), Mutex::new(entries));
        let rule = rule.name.clone();
        (Self(Arc::new(Shared { rule, places, is_closed, entries })), known)
    }

    /// Records that a check of this content begins.
    pub(crate) fn begin(&self, digest: Digest) -> Attempt {
        self.update(|entries| {
            entries.known.retain(|known| known.times > 0 || known.digest == digest);
            entries.running.push(digest);
        });
        Attempt { attempts: self.clone(), digest }
    }

    /// podnudge was asked to stop: the checks that are running do not count. Does not wait.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        match self.0.entries.try_lock() {
            Ok(entries) => self.write(&entries),
            Err(TryLockError::Poisoned(entries)) => self.write(&entries.into_inner()),
            // Who holds it looks at `is_closed` afterwards.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn update(&self, change: impl FnOnce(&mut Entries)) {
        let mut entries = self.lock();
        change(&mut entries);
        let was_closed = self.0.is_closed.load(Ordering::SeqCst);
        self.write(&entries);
        drop(entries);
        if !was_closed && self.0.is_closed.load(Ordering::SeqCst) {
            self.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, entries: &Entries) {
        let mut known = entries.known.clone();
        let is_closed = self.0.is_closed.load(Ordering::SeqCst);
        for digest in &entries.running {
            let times = Interrupted::times(&known, *digest);
            let times = if is_closed { times } else { times.saturating_add(1) };
            known.retain(|known| known.digest != *digest);
            known.push(Interrupted { digest: *digest, times });
        }
        let surplus = known.len().saturating_sub(MOST);
        known.drain(..surplus);
        self.0.save(&known);
    }
}

impl Shared {
    /// Writes the file to the first directory that takes it, and then removes it from the others.
    fn save(&self, known: &[Interrupted]) {
        let (mut failed, mut error) = (Vec::new(), None);
        let mut others = self.places.iter();
        let is_saved = known.is_empty()
            || others.by_ref().any(|place| match place.save(known) {
                Ok(()) => true,
                Err(new) => {
                    failed.push(place);
                    error.get_or_insert((place, new));
                    false
                }
            });
        if is_saved {
            // Where it could not be written, an older one may be, too.
            let left = failed.into_iter().chain(others);
            let errors = left.filter_map(|place| Some((place, place.clear().err()?)));
            error = errors.collect::<Vec<_>>().into_iter().next();
        }
        if let Some((place, error)) = error {
            unusable(&self.rule, "written", place, error);
        }
    }
}

/// Adds what is known from another directory. The larger count holds.
fn merge(known: &mut Vec<Interrupted>, others: Vec<Interrupted>) {
    for other in others {
        match known.iter_mut().find(|known| known.digest == other.digest) {
            Some(known) => known.times = known.times.max(other.times),
            None => known.push(other),
        }
    }
}

/// Opens a directory in which files can be made.
fn writable(path: &Path) -> Option<Folder> {
    let folder = Folder::open(path).ok()?;
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(&folder, c".", access, AtFlags::empty()).ok()?;
    Some(folder)
}

fn unusable(rule: &str, what: &str, place: &Place, error: impl Display) {
    let folder = shown::path(place.folder.path());
    let message = format!("the record of its checks in `{folder}` cannot be {what}: {error}");
    let reason = Reason::new(message);
    warn!(
        event = "checks-not-remembered",
        rule,
        reason = reason.message,
        "a check that ends podnudge is repeated"
    );
}

impl Place {
    fn load(&self) -> Result<Vec<Interrupted>, FileError> {
        let text = match self.folder.read(&self.name, LARGEST) {
            Err(FileError::System(error)) if error.kind() == ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            text => text,
        };
        self.is_used.store(true, Ordering::SeqCst);
        let text = text?;
        let lines: Vec<Line> = serde_json::from_slice(&text)
            .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not podnudge's"))?;
        let known = |Line { digest, times }: Line| Interrupted { digest, times };
        Ok(lines.into_iter().take(MOST).map(known).collect())
    }

    /// Removes the file, if there may be one.
    fn clear(&self) -> Result<(), Errno> {
        if self.is_used.load(Ordering::SeqCst) {
            self.folder.remove(&self.name)?;
            self.is_used.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    fn save(&self, known: &[Interrupted]) -> Result<(), Errno> {
        let line = |known: &Interrupted| Line { digest: known.digest, times: known.times };
        let lines: Vec<Line> = known.iter().map(line).collect();
        let content = serde_json::to_vec(&lines).unwrap_or_default();
        // Not synced: it has to survive podnudge, not the node.
        let write = |mut file| folder::write(&mut file, &content);
        let new = self.folder.temporary_file(&self.prefix(), self.folder.mode(0o600)?, write)?;
        new.rename(&self.name).inspect_err(|_| new.remove())?;
        self.is_used.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// How the temporary names of its file begin.
    fn prefix(&self) -> String {
        format!("{}-", self.name)
    }
}
