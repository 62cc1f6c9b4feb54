//! The state directory, which survives a restart of podnudge: for each rule a small file with the
//! digest that its application is known to run.
//!
//! Reads and writes only `STATE_DIR/RULE.json`. A file is replaced by a rename, so a kill at any
//! moment leaves the old or the new one, complete.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use crate::clock::UnixTime;
use crate::core::event::Memory;
use crate::core::evidence::Evidence;
use crate::files::{FileError, LARGEST};
use crate::folder::Folder;
use crate::reason::Reason;
use crate::shown;

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir(Arc<Folder>);

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the state directory `{}`", path.display())]
pub struct StateDirError {
    path: PathBuf,
    source: io::Error,
}

impl StateDirError {
    /// How the operator can fix it.
    #[must_use]
    pub fn hint(&self) -> String {
        let uid = rustix::process::geteuid().as_raw();
        format!("mount an emptyDir there that uid {uid} can write to, or remove state-dir")
    }
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
    /// Opens the directory and checks that it is writable; creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be created or written to.
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        let failed = |source| StateDirError { path: path.to_owned(), source };
        let folder = Folder::open_or_create(path).map_err(failed)?;
        let probe = folder.temporary_file(".writable-", Mode::RUSR | Mode::WUSR, |_| Ok(()));
        probe.map_err(|error| failed(error.into()))?.remove();
        Ok(Self(Arc::new(folder)))
    }

    /// Loads the state of a rule; `None` if it has no file yet.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn load(&self, rule: &str) -> Result<Option<Memory>, Reason> {
        let problem = match self.0.read(&file(rule), LARGEST) {
            Ok(text) => match parse(&text) {
                Some(memory) => return Ok(Some(memory)),
                None => "it holds no digest".to_owned(),
            },
            Err(FileError::System(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => error.to_string(),
        };
        let path = shown::path(&self.0.path().join(file(rule)));
        let message = format!("cannot read the state file `{path}`: {problem}");
        Err(Reason::new(message).hint("it is replaced after the next applied change"))
    }

    /// Saves what the application of `rule` runs.
    ///
    /// # Errors
    /// If the file cannot be written; the old one then remains.
    pub fn save(&self, rule: &str, memory: &Memory) -> Result<(), Reason> {
        let digest = memory.running.map(|digest| digest.to_string());
        let (evidence, at) = (memory.evidence, memory.at.0.as_secs_f64());
        let record = serde_json::to_vec(&Record { digest, evidence, at }).unwrap_or_default();
        let (file, prefix) = (file(rule), prefix(rule));
        self.0.replace(&file, &prefix, &record).map_err(|error| {
            let path = shown::path(&self.0.path().join(file));
            Reason::new(format!("cannot write the state file `{path}`: {error}"))
                .hint("after a restart podnudge may repeat the last action")
        })
    }
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
        let state = StateDir::open(&folder.path().join("state")).expect("it can be made");
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
