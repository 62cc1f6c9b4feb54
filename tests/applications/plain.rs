//! The applications of the examples that only reload: each reads the volume at the path in its
//! example.

use std::path::Path;

use crate::support::{Agent, Scene};

pub(super) const CHANGES: usize = 100;

/// Starts podnudge with an example file, with only its long delays removed.
pub(super) fn by_example(scene: &Scene, example: &str, quick: &[&str]) -> Agent {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let arguments = ["--config", file.to_str().unwrap(), "--jitter", "0s", "--settle", "20ms"];
    Agent::start(scene.folder.path(), &[arguments.as_slice(), quick].concat())
}
