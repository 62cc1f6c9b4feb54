//! The state directory, which survives a restart of podnudge: for each rule a small file with the
//! digest that its application is known to run.
//!
//! Reads and writes only `STATE_DIR/RULE.json`. A file is replaced by a rename, so a kill at any
//! moment leaves the old or the new one, complete. podnudge works without the directory: what cannot be
//! saved is kept, and saved as soon as the directory can be used again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{Access, Mode, access, statvfs};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock::UnixTime;
use crate::core::event::Memory;
use crate::core::evidence::Evidence;
use crate::files::FileError;
use crate::folder::{Folder, errno, write_and_sync};
use crate::reason::Reason;
use crate::shown;

/// The largest state file, in bytes.
const LARGEST: u64 = 4096;

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Why the directory cannot be used; `None` while it can. Held only for a moment.
    failure: Mutex<Option<Reason>>,
    /// Held during access to the file system, by the one thread that writes.
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    /// `None` until it was opened.
    folder: Option<Folder>,
    /// What could not be saved, by the names of the rules.
    unsaved: BTreeMap<String, Memory>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// `None` while it is unknown what the application runs.
    digest: Option<String>,
    /// How podnudge knew that.
    #[serde(default)]
    evidence: Evidence,
    /// Seconds since the Unix epoch.
    at: f64,
}

impl StateDir {
    /// Opens the directory and checks that it is writable; creates it if it is missing. If that fails,
    /// nothing is remembered until `retry` succeeds.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let state = Self(Arc::new(Shared {
            path: path.to_owned(),
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
            let probe = |mut file| write_and_sync(&mut file, b"podnudge");
            folder.temporary_file(".writable-", Mode::RUSR | Mode::WUSR, probe)?.remove();
            Ok(())
        });
        let tried = tried.and_then(|()| files.save_all(&self.0.path));
        *lock(&self.0.failure) = tried.err().map(|error| self.reason(error));
    }

    fn reason(&self, error: Errno) -> Reason {
        reason(&self.0.path, error)
    }

    /// Loads the state of a rule; `None` if it has no file yet.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn load(&self, rule: &str) -> Result<Option<Memory>, Reason> {
        let files = lock(&self.0.files);
        let Some(folder) = &files.folder else { return Ok(None) };
        let problem = match folder.read(&file(rule), LARGEST) {
            Ok(text) => match parse(&text) {
                Some(memory) => return Ok(Some(memory)),
                None => "it holds no digest".to_owned(),
            },
            Err(FileError::System(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => error.to_string(),
        };
        let path = shown::path(&self.0.path.join(file(rule)));
        let message = format!("cannot read the state file `{path}`: {problem}");
        Err(Reason::new(message).hint("it is replaced after the next applied change"))
    }

    /// Saves what the application of `rule` runs, or keeps it until `retry` succeeds.
    ///
    /// # Errors
    /// If the directory can no longer be used; the old file then remains.
    pub fn save(&self, rule: &str, memory: &Memory) -> Result<(), Reason> {
        let mut files = lock(&self.0.files);
        files.unsaved.insert(rule.to_owned(), *memory);
        let saved = files.save_all(&self.0.path).map_err(|error| self.reason(error));
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

    fn save_all(&mut self, path: &Path) -> Result<(), Errno> {
        while let Some((rule, memory)) = self.unsaved.first_key_value() {
            let (rule, record) = (rule.clone(), record(memory));
            let folder = self.open(path)?;
            let prefix = prefix(&rule);
            // If what a killed podnudge has left cannot be removed, that does not matter.
            _ = folder.remove_own_leftovers(&prefix);
            folder.replace(&file(&rule), &prefix, &record)?;
            self.unsaved.remove(&rule);
        }
        Ok(())
    }
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

/// The text of a state file.
fn record(memory: &Memory) -> Vec<u8> {
    let digest = memory.running.map(|digest| digest.to_string());
    let (evidence, at) = (memory.evidence, memory.at.0.as_secs_f64());
    serde_json::to_vec(&Record { digest, evidence, at }).unwrap_or_default()
}

fn file(rule: &str) -> String {
    format!("{rule}.json")
}

/// How temporary names begin. Two podnudges with different rules may share the directory.
fn prefix(rule: &str) -> String {
    format!(".{rule}.json-")
}

fn parse(text: &[u8]) -> Option<Memory> {
    let record = serde_json::from_slice::<Record>(text).ok()?;
    let running = record.digest.map(|digest| digest.parse()).transpose().ok()?;
    let at = UnixTime(Duration::try_from_secs_f64(record.at).ok()?);
    Some(Memory { running, evidence: record.evidence, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_state_is_loaded_and_an_invalid_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let state = StateDir::open(&folder.path().join("state"));
        let digest = crate::volume::snapshot::Digest([7; 32]);
        let at = UnixTime(Duration::from_millis(1_700_000_000_250));
        let known = Memory { running: Some(digest), evidence: Evidence::Verified, at };
        let open = Memory { running: None, evidence: Evidence::None, at };
        state.save("web", &known).expect("it can be written");
        state.save("open", &open).expect("it can be written");
        std::fs::write(folder.path().join("state/api.json"), "{").expect("it can be written");
        assert_eq!(state.load("web"), Ok(Some(known)));
        assert_eq!(state.load("open"), Ok(Some(open)));
        assert_eq!(state.load("new"), Ok(None));
        assert!(state.load("api").unwrap_err().message.contains("api.json"));
    }
}
