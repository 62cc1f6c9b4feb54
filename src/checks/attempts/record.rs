//! The file that remembers the checks of a rule, for the next podnudge.
//!
//! Reads and writes only `..podnudge-checks.RULE.json`, in the first directory of these that takes it, each
//! time anew: `agent.state-dir`, the rule's publish directory, `agent.work-dir`. It survives a restart of the
//! container if that is a volume.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Access, AtFlags, accessat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::system::files::FileError;
use crate::system::folder::{self, Folder};
use podnudge_config::{Agent, Check, Rule};
use podnudge_core::event::Interrupted;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// The most digests in a file; the oldest are forgotten.
const MOST: usize = 16;
/// The largest file, in bytes.
const LARGEST: u64 = 4096;

/// What earlier podnudges have left.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The content that has not passed its checks.
    pub(crate) known: Vec<Interrupted>,
    /// Whether there may be more of it, in a file that cannot be read.
    pub(crate) is_unreadable: bool,
}

impl Left {
    /// Adds what is known from another directory. The larger count holds.
    fn merge(&mut self, others: Vec<Interrupted>) {
        for other in others {
            match self.known.iter_mut().find(|known| known.digest == other.digest) {
                Some(known) => known.times = known.times.max(other.times),
                None => self.known.push(other),
            }
        }
    }
}

/// The file, wherever it is.
#[derive(Debug)]
pub(super) struct Record {
    /// The name of the rule.
    rule: String,
    /// Where the file may be. Empty if no directory can be written.
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    folder: Folder,
    name: String,
    /// Whether a file may be there.
    is_used: AtomicBool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    digest: Digest,
    times: u32,
}

impl Record {
    /// Opens the file of a rule, and reads what is in it. There is none for a rule that has no check, and
    /// will have none.
    pub(super) fn open(rule: &Rule, agent: &Agent) -> (Self, Left) {
        let publish = rule.settings.publish.as_ref().map(|publish| publish.dir.as_path());
        let folders = [agent.state_dir.as_deref(), publish, Some(&agent.work_dir)];
        let name = format!("..podnudge-checks.{}.json", rule.name);
        let (mut places, mut left) = (Vec::new(), Left::default());
        let is_needed = rule.checks.iter().any(Check::may_end_podnudge);
        let is_used = is_needed || rule.may_use_check_of_preset();
        for path in folders.into_iter().flatten().filter(|_| is_used) {
            match writable(path, &name) {
                // Two settings may name the same directory.
                Ok(Some(folder))
                    if !places.iter().any(|place: &Place| place.folder.is_same(&folder)) =>
                {
                    let (name, is_used) = (name.clone(), AtomicBool::new(false));
                    places.push(Place { folder, name, is_used });
                }
                Ok(_) => {}
                Err(error) => {
                    left.is_unreadable = true;
                    unreadable(&rule.name, path, error);
                }
            }
        }
        if places.is_empty() && is_needed {
            let hint = "set state-dir to an emptyDir: without it, podnudge repeats a check that ends it, and takes unchecked content for what the application runs";
            warn!(
                event = "checks-not-remembered",
                rule = rule.name,
                hint,
                "no directory can be written"
            );
        }
        for place in &places {
            // If what a killed podnudge has left cannot be removed, that does not matter.
            _ = place.folder.remove_own_leftovers(&place.prefix());
            match place.load() {
                Ok(there) => left.merge(there),
                Err(error) => {
                    left.is_unreadable = true;
                    unreadable(&rule.name, place.folder.path(), error);
                }
            }
        }
        (Self { rule: rule.name.clone(), places }, left)
    }

    /// Writes the file to the first directory that takes it, and then removes it from the others.
    pub(super) fn save(&self, known: &[Interrupted]) {
        let known = known.get(known.len().saturating_sub(MOST)..).unwrap_or_default();
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
            let consequence = "a check that ends podnudge is repeated";
            unusable(&self.rule, "written", place.folder.path(), error, consequence);
        }
    }
}

/// Opens a directory in which files can be made. `None` if the file cannot be in it either.
fn writable(path: &Path, name: &str) -> Result<Option<Folder>, Errno> {
    let folder = match Folder::open(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        folder => folder?,
    };
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match accessat(&folder, c".", access, AtFlags::empty()) {
        Ok(()) => Ok(Some(folder)),
        Err(error) => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            _ => Err(error),
        },
    }
}

fn unreadable(rule: &str, folder: &Path, error: impl Display) {
    let consequence = "the content of the volumes counts as unchecked";
    unusable(rule, "read", folder, error, consequence);
}

fn unusable(rule: &str, what: &str, folder: &Path, error: impl Display, consequence: &str) {
    let folder = shown::path(folder);
    let reason = format!("the record of its checks in `{folder}` cannot be {what}: {error}");
    warn!(event = "checks-not-remembered", rule, reason, "{consequence}");
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
