//! The settings of a rule that publishes.

use std::path::PathBuf;

use podnudge_config::Publish;

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
