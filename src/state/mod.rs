//! The state directory, which survives a restart of podnudge: for each rule a small file (`state/record.rs`)
//! with the digest that its application is known to run, the rollout in progress, what failed, and the
//! restarts that the restart budget counts.
//!
//! Reads and writes only `STATE_DIR/RULE.json`, and reads the machine's boot id. A file is replaced by a rename, so a kill at any
//! moment leaves the old or the new one, complete. podnudge works without the directory: what cannot be
//! saved is kept, and saved as soon as the directory can be used again.

mod record;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, Mode, access, statvfs};
use rustix::io::Errno;

use crate::system::files::{self, FileError};
use crate::system::folder::{Folder, errno, write_and_sync};
use podnudge_core::clock::Now;
use podnudge_core::memory::Memory;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use record::Unusable;

/// The file of the key with which the content of Secrets is named.
const NAMING_KEY: &str = "naming.key";
/// What the temporary names begin with: of the file that is written to find out whether that works, and of a new key.
const WRITABLE: &str = ".writable-";
const NEW_KEY: &str = ".naming.key-";
/// The length of the naming key, in bytes.
pub(crate) const NAMING_KEY_LENGTH: usize = 32;

/// The largest state file, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Changes with each boot of the machine (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    boot: Option<String>,
    /// Why the directory cannot be used; `None` while it can. Held only for a moment.
    failure: Mutex<Option<Reason>>,
    /// Held during access to the file system, by the one thread that writes.
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    /// `None` until it was opened.
    folder: Option<Folder>,
    /// What could not be saved, by the names of the rules, and when it was to be saved.
    unsaved: BTreeMap<String, (Memory, Now)>,
}

impl StateDir {
    /// Opens the directory and checks that it is writable; creates it if it is missing. If that fails,
    /// nothing is remembered until `retry` succeeds.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let state = Self(Arc::new(Shared {
            path: path.to_owned(),
            boot: boot_id(),
            failure: Mutex::default(),
            files: Mutex::default(),
        }));
        state.retry();
        state
    }

    /// Why the directory cannot be used, if that is so.
    #[must_use]
    pub fn failure(&self) -> Option<Reason> {
        lock(&self.0.failure).clone()
    }

    /// Tries to use the directory again, and saves what could not be saved.
    pub fn retry(&self) {
        let mut files = lock(&self.0.files);
        let tried = files.open(&self.0.path).and_then(|folder| {
            // What a killed podnudge has left.
            for prefix in [WRITABLE, NEW_KEY] {
                _ = folder.remove_own_leftovers(prefix);
            }
            let probe = |mut file| write_and_sync(&mut file, b"podnudge");
            folder.temporary_file(WRITABLE, Mode::RUSR | Mode::WUSR, probe)?.remove();
            Ok(())
        });
        let tried = tried.and_then(|()| files.save_all(&self.0));
        *lock(&self.0.failure) = tried.err().map(|error| self.reason(error));
    }

    fn reason(&self, error: Errno) -> Reason {
        reason(&self.0.path, error)
    }

    /// Loads the state of a rule; `None` if it has no file yet. A file of a newer podnudge is kept under
    /// another name.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn load(&self, rule: &str, now: Now) -> Result<Option<Memory>, Reason> {
        let files = lock(&self.0.files);
        let Some(folder) = &files.folder else { return Ok(None) };
        let replaced = "it is replaced after the next applied change".to_owned();
        let (problem, hint) = match folder.read(&file(rule), LARGEST) {
            Ok(text) => match record::parse(&text, now, self.0.boot.as_deref()) {
                Ok(memory) => return Ok(Some(memory)),
                Err(Unusable::Invalid) => ("it holds no digest".to_owned(), replaced),
                Err(Unusable::Newer(version)) => {
                    let problem = format!("a newer podnudge wrote it (format {version})");
                    (problem, keep(folder, rule, &text))
                }
            },
            Err(FileError::System(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => (error.to_string(), replaced),
        };
        let path = shown::path(&self.0.path.join(file(rule)));
        let message = format!("cannot read the state file `{path}`: {problem}");
        Err(Reason::new(message).hint(hint))
    }

    /// The key with which the content of Secrets is named: that of an earlier podnudge, or else `new`, which is kept
    /// if it can be written.
    #[must_use]
    pub fn naming_key(&self, new: [u8; NAMING_KEY_LENGTH]) -> [u8; NAMING_KEY_LENGTH] {
        let files = lock(&self.0.files);
        let Some(folder) = &files.folder else { return new };
        let known = folder.read(NAMING_KEY, LARGEST).ok();
        known.and_then(|known| known.try_into().ok()).unwrap_or_else(|| {
            // Without it, a restart of podnudge gives new names.
            _ = folder.replace(NAMING_KEY, NEW_KEY, &new);
            new
        })
    }

    /// Saves the state of `rule`, or keeps it until `retry` succeeds.
    ///
    /// # Errors
    /// If the directory can no longer be used; the old file then remains.
    pub fn save(&self, rule: &str, memory: Memory, now: Now) -> Result<(), Reason> {
        let mut files = lock(&self.0.files);
        files.unsaved.insert(rule.to_owned(), (memory, now));
        let saved = files.save_all(&self.0).map_err(|error| self.reason(error));
        let before = std::mem::replace(&mut *lock(&self.0.failure), saved.clone().err());
        // That it still cannot be used was said before.
        if before.is_some() { Ok(()) } else { saved }
    }
}

impl Files {
    fn open(&mut self, path: &Path) -> Result<&Folder, Errno> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => Folder::open_or_create(path).map_err(|error| errno(&error))?,
        };
        let folder = self.folder.insert(folder);
        // Another directory at its path may lead anywhere.
        if folder.is_in_place() { Ok(folder) } else { Err(Errno::STALE) }
    }

    fn save_all(&mut self, shared: &Shared) -> Result<(), Errno> {
        while let Some((rule, (memory, now))) = self.unsaved.first_key_value() {
            let text = record::text(memory, *now, shared.boot.as_deref());
            let rule = rule.clone();
            let folder = self.open(&shared.path)?;
            let prefix = prefix(&rule);
            // If what a killed podnudge has left cannot be removed, that does not matter.
            _ = folder.remove_own_leftovers(&prefix);
            folder.replace(&file(&rule), &prefix, &text)?;
            self.unsaved.remove(&rule);
        }
        Ok(())
    }
}

/// Keeps the file of a newer podnudge. Returns the hint.
fn keep(folder: &Folder, rule: &str, text: &[u8]) -> String {
    let name = format!("{rule}.newer.json");
    let kept = match folder.replace(&name, &prefix(rule), text) {
        Ok(()) => format!("it is kept as `{name}`"),
        Err(error) => format!("it cannot be kept as `{name}`: {error}"),
    };
    format!(
        "{kept}; podnudge goes on as without a state file: rename it back before you run the newer podnudge again, if nothing has changed since"
    )
}

fn boot_id() -> Option<String> {
    let id = files::read(Path::new(BOOT_ID), 64).ok()?;
    Some(String::from_utf8(id).ok()?.trim().to_owned())
}

/// Looks for why a state directory cannot be used. Changes nothing.
#[must_use]
pub fn examine(path: &Path) -> Option<Reason> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    let look = || {
        if !existing.is_dir() {
            return Err(Errno::NOTDIR);
        }
        access(existing, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)?;
        let space = statvfs(existing)?;
        let is_full = space.f_blocks > 0 && space.f_bavail == 0;
        let has_no_inodes = space.f_files > 0 && space.f_favail == 0;
        if is_full || has_no_inodes { Err(Errno::NOSPC) } else { Ok(()) }
    };
    look().err().map(|error| reason(path, error))
}

fn reason(path: &Path, error: Errno) -> Reason {
    let path = shown::path_literal(path);
    let (error, hint) = match error {
        Errno::NOSPC | Errno::DQUOT => (
            error.to_string(),
            "free space or inodes on the node, or raise the emptyDir's sizeLimit".to_owned(),
        ),
        Errno::NOTDIR | Errno::EXIST => {
            (Errno::NOTDIR.to_string(), "state-dir must name a directory".to_owned())
        }
        Errno::STALE => (
            "it was replaced while podnudge ran".to_owned(),
            "restart podnudge's container".to_owned(),
        ),
        error => {
            let uid = rustix::process::geteuid().as_raw();
            let hint =
                format!("mount an emptyDir there that uid {uid} can write to, or remove state-dir");
            (error.to_string(), hint)
        }
    };
    let message = format!(
        "podnudge cannot use the state directory {path} and forgets at its end what the application runs: {error}"
    );
    Reason::new(message).hint(hint)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends podnudge.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(rule: &str) -> String {
    format!("{rule}.json")
}

/// How temporary names begin. Two podnudges with different rules may share the directory.
fn prefix(rule: &str) -> String {
    format!(".{rule}.json-")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use podnudge_core::clock::{Moment, UnixTime};
    use podnudge_core::evidence::Evidence;
    use podnudge_core::memory::Known;
    use podnudge_core::snapshot::Digest;

    fn now() -> Now {
        let wall = UnixTime(Duration::from_secs(1_700_000_000));
        Now { mono: Moment(Duration::from_secs(1000)), wall }
    }

    #[test]
    fn saved_state_is_loaded_and_an_invalid_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let state = StateDir::open(&folder.path().join("state"));
        let at = UnixTime(Duration::from_millis(1_700_000_000_250));
        let running = Some(Digest([7; 32]));
        let known = Known { running, evidence: Evidence::Verified, at };
        let known = Memory { known, restarts: vec![now().mono], ..Memory::default() };
        let open = Known { running: None, evidence: Evidence::None, at };
        let open = Memory { known: open, ..Memory::default() };
        state.save("web", known.clone(), now()).expect("it can be written");
        state.save("open", open.clone(), now()).expect("it can be written");
        fs::write(folder.path().join("state/api.json"), "{").expect("it can be written");
        assert_eq!(state.load("web", now()), Ok(Some(known)));
        assert_eq!(state.load("open", now()), Ok(Some(open)));
        assert_eq!(state.load("new", now()), Ok(None));
        assert!(state.load("api", now()).unwrap_err().message.contains("api.json"));
    }

    #[test]
    fn the_file_of_a_newer_podnudge_is_kept() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let state = StateDir::open(folder.path());
        let newer = "{\"version\":9,\"all\":\"new\"}";
        fs::write(folder.path().join("web.json"), newer).expect("it can be written");
        let refusal = state.load("web", now()).unwrap_err().to_string();
        assert!(refusal.contains("format 9") && refusal.contains("web.newer.json"), "{refusal}");
        state.save("web", Memory::default(), now()).expect("it can be written");
        let kept = fs::read_to_string(folder.path().join("web.newer.json"));
        assert_eq!(kept.expect("it can be read"), newer);
        assert_eq!(state.load("web", now()), Ok(Some(Memory::default())));
    }
}
