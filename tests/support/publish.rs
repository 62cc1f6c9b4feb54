//! The settings of a rule that publishes, and what it has recorded.

use std::fs;
use std::path::{Path, PathBuf};

use podnudge_config::Publish;
use serde_json::Value;

/// Publishes one volume to this directory, keeps three generations and rolls back.
pub(crate) fn publish_to(dir: PathBuf) -> Publish {
    Publish {
        dir,
        folders: vec![PathBuf::new()],
        keep: 3,
        mode: None,
        uid: None,
        gid: None,
        rollback: true,
    }
}

/// Whether the record of a publish directory has a value or entries under this name.
pub(crate) fn recorded(dir: &Path, name: &str) -> bool {
    let record = fs::read(dir.join("..podnudge.json")).unwrap_or_default();
    let record: Value = serde_json::from_slice(&record).unwrap_or_default();
    match &record[name] {
        Value::Array(list) => !list.is_empty(),
        other => !other.is_null(),
    }
}
