//! The applications of the examples that only reload: each reads the volume at the path in its
//! example.

use std::fs;
use std::path::Path;
use std::process::Child;

use crate::support::agent::Agent;
use crate::support::kubelet::Kubelet;
use crate::support::program::command;

pub(super) const CHANGES: usize = 100;

/// Mounts a directory in a mount namespace of its own, and runs a program there: `SOURCE DIR PROGRAM…`.
/// So podnudge and the application mount the volume, as containers do, and nothing else does.
pub(super) const MOUNTED: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-ec",
    "mkdir -p \"$1\"; mount --bind \"$0\" \"$1\"; shift; exec \"$@\"",
];

/// A process that is killed at the end of its test.
pub(crate) struct Application(pub(super) Child);

impl Application {
    pub(crate) fn start(program: &str, arguments: &[&str], log: &Path) -> Self {
        let output = fs::File::create(log).unwrap();
        let child = command(program)
            .args(arguments)
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be run: {error}; run ./test"));
        Self(child)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// An empty tmpfs at this path, in this mount namespace only.
pub(crate) fn volume(at: &str) -> Kubelet {
    fs::create_dir_all(at).unwrap();
    let mounted = command("mount").args(["-t", "tmpfs", "tmpfs", at]).status().unwrap();
    assert!(mounted.success());
    Kubelet::new(at)
}

/// Starts podnudge with an example file, with only its long delays removed.
pub(super) fn by_example(folder: &Path, example: &str, quick: &[&str]) -> Agent {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let arguments = ["--config", file.to_str().unwrap(), "--jitter", "0s", "--settle", "20ms"];
    Agent::start(folder, &[arguments.as_slice(), quick].concat())
}
