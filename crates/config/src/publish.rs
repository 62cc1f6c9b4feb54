//! `[rule.publish]`: a directory for content that has passed the checks. Pure.

use std::ffi::OsStr;
use std::path::Path;

use podnudge_core::collect;

use super::agent::Agent;
use super::prelude::*;

settings! {
    /// A directory that the application reads instead of the volumes. podnudge owns it.
    #[derive(PartialEq, Eq)]
    pub struct Publish = "[rule.publish]"; {
        /// Publish content that passed the checks to this directory, just before the action.
        dir: PathBuf = required("dir = \"/config\"", path_by(directory)).option("publish", "DIR", PublishDirectory);
        /// How many generations to keep besides the current one and the last good one.
        keep: u32 = default("3", number(0, 1000));
        /// The permission bits of files, in octal.
        mode: Option<u32> = optional("as in the volume", permissions());
        /// The owner of files and directories.
        uid: Option<u32> = optional("podnudge's own", number(0, u32::MAX - 1));
        /// The group of files and directories.
        gid: Option<u32> = optional("the directory's, or podnudge's own", number(0, u32::MAX - 1));
        /// Roll back to the last good generation if the application does not run the new one.
        rollback: bool = default("true", boolean());
        /// The folder of each volume in it: none for a single volume, else the last part of its path.
        folders: Vec<PathBuf> = computed();
    }
}

const fn permissions() -> Type<u32> {
    parsed("permission bits", mode, |mode| format!("{mode:04o}"))
}

impl Publish {
    /// The directory of each volume's keys in the current generation.
    #[must_use]
    pub fn volumes(&self) -> Vec<PathBuf> {
        let current = self.dir.join("..data");
        self.folders.iter().map(|folder| current.join(folder)).collect()
    }

    /// Why a request must not have this key of a volume as its body: the application would load it from the
    /// volume, even if podnudge has rolled it back.
    pub(super) fn unpublished(&self, body: &Path, volume: usize, key: &Path) -> Reason {
        let folder = self.folders.get(volume).map_or(Path::new(""), PathBuf::as_path);
        let published = self.dir.join(folder).join(key);
        let message = format!(
            "{} is in a watched path, and its content is not published yet when it is sent",
            path_literal(body)
        );
        let published = published.display().to_string();
        let hint = format!("send what is published: `body-file = {published:?}`");
        Reason::new(message).hint(hint)
    }

    /// Checks the directory against the watched paths and podnudge's own settings.
    pub(super) fn validate_with(&mut self, place: &Place<'_>, volumes: &[PathBuf], agent: &Agent) {
        if let Some(reason) = conflict(&self.dir, volumes, agent) {
            place.problem(Value("dir"), reason);
        }
        if let Some(folders) = folders(volumes) {
            self.folders = folders;
        } else {
            let reason = "the names of the volumes' folders below `dir` would be equal";
            let hint = "the last parts of the watched paths must differ where there are several";
            place.problem(Value("dir"), Reason::new(reason).hint(hint));
        }
    }
}

/// Each rule publishes to a directory of its own.
pub(super) fn validate_directories<'a>(rules: impl Iterator<Item = (Place<'a>, &'a Path)>) {
    let mut others: Vec<(Place<'_>, &Path)> = Vec::new();
    for (place, dir) in rules {
        if let Some((other, there)) = others.iter().find(|(_, there)| overlap(there, dir)) {
            let message = format!("another rule publishes to {}", path_literal(there));
            let at = other.at(Value("dir"));
            let hint =
                format!("see {}; give each rule a directory of its own", place.report.place(&at));
            place.problem(Value("dir"), Reason::new(message).hint(hint));
        }
        others.push((place, dir));
    }
}

fn conflict(dir: &Path, volumes: &[PathBuf], agent: &Agent) -> Option<Reason> {
    if let Some(volume) = volumes.iter().find(|volume| overlap(volume, dir)) {
        let message = format!("`dir` overlaps the watched path {}", path_literal(volume));
        return Some(
            Reason::new(message).hint("the application reads from `dir`: mount an emptyDir there"),
        );
    }
    let own = [("work-dir", Some(&agent.work_dir)), ("state-dir", agent.state_dir.as_ref())];
    let inside = own.iter().find(|(_, path)| path.is_some_and(|path| path.starts_with(dir)));
    inside.map(|(name, _)| {
        Reason::new(format!("`agent.{name}` lies within {}", path_literal(dir)))
            .hint("the application would see podnudge's own files")
    })
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The folder of each volume; `None` if two would share one.
fn folders(volumes: &[PathBuf]) -> Option<Vec<PathBuf>> {
    if let [_] = volumes {
        return Some(vec![PathBuf::new()]);
    }
    let names: Vec<&OsStr> = volumes.iter().filter_map(|path| path.file_name()).collect();
    (collect::set(&names).len() == names.len()).then(|| names.iter().map(PathBuf::from).collect())
}

fn directory(text: &str) -> Result<PathBuf, Reason> {
    let path = parsers::path(text)?;
    if path.parent().is_none() {
        return Err(Reason::new("podnudge cannot own `/`").hint("mount an emptyDir, and name it"));
    }
    Ok(path)
}

fn mode(text: &str) -> Result<u32, Reason> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or_else(|| {
        is_not(text, "a mode").hint("write the permission bits in octal, such as `mode = \"0640\"`")
    })?;
    if mode & 0o400 == 0 {
        let message = format!("{} does not let the owner read", literal(text));
        return Err(Reason::new(message)
            .hint("podnudge reads back what it has published: add 0400, as in `mode = \"0440\"`"));
    }
    Ok(mode)
}
