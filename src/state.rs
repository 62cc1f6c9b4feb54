//! What survives a restart of podnudge: the digest that each rule applied last, one small file a
//! rule in the state directory.
//!
//! Reads and writes only `STATE_DIR/RULE.json`. A file is replaced by a rename, so that a kill at
//! any moment leaves the old or the new one, whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::event::{Reason, RuleId};
use crate::volume::snapshot::Digest;

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir(PathBuf);

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the state directory `{}`", path.display())]
pub struct StateDirError {
    path: PathBuf,
    source: io::Error,
}

impl StateDirError {
    /// What can be done about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let uid = rustix::process::geteuid().as_raw();
        format!("mount an emptyDir there that uid {uid} may write to, or leave state-dir out")
    }
}

#[derive(Serialize, Deserialize)]
struct Record {
    digest: String,
}

impl StateDir {
    /// Opens the directory and makes sure that it can be written to; makes it if it is missing.
    ///
    /// # Errors
    /// If it cannot be made or written to.
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        let failed = |source| StateDirError { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed)?;
        let probe = path.join(".writable");
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }

    /// The digests that are remembered, and what was wrong with files that do not tell. A rule
    /// without a file is new, and no problem.
    #[must_use]
    pub fn load<'a>(
        &self,
        rules: impl Iterator<Item = &'a str>,
    ) -> (BTreeMap<RuleId, Digest>, Vec<Reason>) {
        let (mut remembered, mut problems) = (BTreeMap::new(), Vec::new());
        for (n, rule) in rules.enumerate() {
            let file = self.file(rule);
            let problem = match fs::read_to_string(&file) {
                Ok(text) => match parse(&text) {
                    Some(digest) => {
                        remembered.insert(RuleId(n), digest);
                        continue;
                    }
                    None => "it holds no digest".to_owned(),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => error.to_string(),
            };
            problems.push(
                Reason::new(format!("cannot read the state file `{}`: {problem}", file.display()))
                    .hint("it is written anew with the next applied change"),
            );
        }
        (remembered, problems)
    }

    /// Remembers that `rule` applied `digest`.
    ///
    /// # Errors
    /// If the file cannot be written; the old one is then still there.
    pub fn save(&self, rule: &str, digest: &Digest) -> Result<(), Reason> {
        let file = self.file(rule);
        let new = file.with_extension("json.new");
        let write = || {
            let record = serde_json::to_vec(&Record { digest: digest.to_string() })?;
            let mut output = File::create(&new)?;
            output.write_all(&record)?;
            output.sync_data()?;
            fs::rename(&new, &file)
        };
        write().map_err(|error: io::Error| {
            Reason::new(format!("cannot write the state file `{}`: {error}", file.display()))
                .hint("after a restart podnudge may repeat the last action")
        })
    }

    fn file(&self, rule: &str) -> PathBuf {
        self.0.join(format!("{rule}.json"))
    }
}

fn parse(text: &str) -> Option<Digest> {
    serde_json::from_str::<Record>(text).ok()?.digest.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_garbage_is_said() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let state = StateDir::open(&folder.path().join("state")).expect("it can be made");
        let digest = Digest([7; 32]);
        state.save("web", &digest).expect("it can be written");
        fs::write(folder.path().join("state/api.json"), "{").expect("it can be written");
        let (remembered, problems) = state.load(["api", "web", "new"].into_iter());
        assert_eq!(remembered, BTreeMap::from([(RuleId(1), digest)]));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message.contains("api.json"));
    }
}
