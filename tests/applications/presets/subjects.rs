//! The applications, each in a file of `subjects/` that is named after its preset: a configuration with a visible
//! version, and how to see it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::seen::Seen;

/// An application, and how to see which version of its configuration it runs.
///
/// In its texts, `{dir}` is the directory that it reads, `{run}` another one that all users can
/// write to, and `{version}` a number of four digits that is also a free port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    #[serde(default)]
    pub(crate) preset: String,
    /// The Debian package with its program.
    #[serde(default)]
    pub(crate) package: String,
    /// The name of its process.
    pub(super) process: String,
    pub(super) command: Vec<String>,
    /// The directory that it reads.
    #[serde(default = "mnt")]
    pub(super) dir: String,
    pub(super) key: String,
    pub(super) content: String,
    /// Files that are not part of the volume, in `{run}`.
    #[serde(default)]
    pub(super) others: BTreeMap<String, String>,
    /// Shell commands before its first start.
    #[serde(default)]
    pub(super) prepare: String,
    /// A line that makes the configuration invalid.
    #[serde(default = "nothing_here")]
    pub(super) fault: String,
    #[serde(default)]
    pub(super) seen: Seen,
    /// What shows the version there.
    #[serde(default = "version")]
    pub(super) mark: String,
    /// Programs that the preset's check names otherwise than Debian, or that are not in `PATH`.
    #[serde(default)]
    pub(super) programs: BTreeMap<String, String>,
}

fn mnt() -> String {
    "/mnt".to_owned()
}

fn nothing_here() -> String {
    "nothing here".to_owned()
}

fn version() -> String {
    "{version}".to_owned()
}

/// All of them.
pub(crate) fn subjects() -> impl Iterator<Item = &'static Subject> {
    static ALL: LazyLock<Vec<Subject>> = LazyLock::new(|| read("."));
    ALL.iter()
}

/// gunicorn with `--preload`, whose application reads its settings when it is loaded: once.
pub(super) static PRELOADED: LazyLock<Subject> = LazyLock::new(|| read("more").remove(0));

fn read(folder: &str) -> Vec<Subject> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/applications/presets/subjects");
    let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file()).map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let mut subject: Subject =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if subject.preset.is_empty() {
            path.file_stem().unwrap().to_str().unwrap().clone_into(&mut subject.preset);
        }
        subject
    });
    files.collect()
}
