//! `[rule.publish]`: where the application reads what has passed, instead of the volumes. Pure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Agent;
use super::problem::{Given, literal};
use super::table::Table;
use super::types::path;
use crate::reason::Reason;

/// A directory that podnudge owns and the application reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// Where it is.
    pub dir: PathBuf,
    /// The folder of each volume in it: none for a single volume, else the last part of its path.
    pub folders: Vec<PathBuf>,
    /// How many generations stay, besides the current one and the last good one.
    pub keep: u32,
    /// The permission bits of files; as in the volume if not given.
    pub mode: Option<u32>,
    /// The owner of files and folders; podnudge's own uid if not given.
    pub uid: Option<u32>,
    /// Their group; the directory's, or podnudge's own gid, if not given.
    pub gid: Option<u32>,
    /// Whether what does not work is taken back.
    pub rollback: bool,
}

/// `[rule.publish]`; the outer `None` only after a problem was reported.
#[expect(clippy::option_option, reason = "refused, not wanted, wanted: as everywhere here")]
pub(super) fn publish(
    rule: &mut Table<'_>,
    volumes: &[PathBuf],
    agent: &Agent,
    others: &mut Vec<Given<PathBuf>>,
) -> Option<Option<Publish>> {
    let Some(mut table) = rule.table("publish", "[rule.publish]", None) else {
        return Some(None);
    };
    let report = table.report;
    let dir = table.required("dir", "dir = \"/config\"", directory);
    let keep = table.number("keep", 0, 1000).unwrap_or(3);
    let mode = table.parsed("mode", mode).map(|given| given.value);
    let uid = table.number("uid", 0, u32::MAX - 1);
    let gid = table.number("gid", 0, u32::MAX - 1);
    let rollback = table.truth_or("rollback", true);
    table.finish();
    let given = dir?;
    if let Some(reason) = trouble(&given.value, volumes, agent) {
        report.problem(&given.at, reason);
        return None;
    }
    let touches = |other: &&Given<PathBuf>| overlap(&other.value, &given.value);
    if let Some(other) = others.iter().find(touches) {
        let message = format!("another rule publishes to {}", shown(&other.value));
        let hint =
            format!("see {}; give each rule a directory of its own", report.place(&other.at));
        report.problem(&given.at, Reason::new(message).hint(hint));
    }
    others.push(given.clone());
    let Some(folders) = folders(volumes) else {
        let reason = Reason::new("the names of the volumes' folders below `dir` would be equal");
        let hint = "the last parts of the watched paths must differ where there are several";
        report.problem(&given.at, reason.hint(hint));
        return None;
    };
    Some(Some(Publish { dir: given.value, folders, keep, mode, uid, gid, rollback }))
}

fn trouble(dir: &Path, volumes: &[PathBuf], agent: &Agent) -> Option<Reason> {
    if let Some(volume) = volumes.iter().find(|volume| overlap(volume, dir)) {
        let message = format!("`dir` and the watched {} lie within each other", shown(volume));
        return Some(
            Reason::new(message).hint("the application reads from `dir`: mount an emptyDir there"),
        );
    }
    let own = [("work-dir", Some(&agent.work_dir)), ("state-dir", agent.state_dir.as_ref())];
    let inside = own.iter().find(|(_, path)| path.is_some_and(|path| path.starts_with(dir)));
    inside.map(|(name, _)| {
        Reason::new(format!("`agent.{name}` lies within {}", shown(dir)))
            .hint("the application would see what podnudge keeps for itself")
    })
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn shown(path: &Path) -> String {
    literal(&path.to_string_lossy())
}

/// `None` if two of several volumes would share a folder.
fn folders(volumes: &[PathBuf]) -> Option<Vec<PathBuf>> {
    if let [_] = volumes {
        return Some(vec![PathBuf::new()]);
    }
    let names: Vec<&OsStr> = volumes.iter().filter_map(|path| path.file_name()).collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == names.len()).then(|| names.iter().map(PathBuf::from).collect())
}

fn directory(text: &str) -> Result<PathBuf, Reason> {
    let path = path(text)?;
    if path.parent().is_none() {
        return Err(Reason::new("podnudge cannot own `/`").hint("mount an emptyDir, and name it"));
    }
    Ok(path)
}

fn mode(text: &str) -> Result<u32, Reason> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or_else(|| {
        Reason::new(format!("{} is not a mode", literal(text)))
            .hint("write the permission bits in octal, such as `mode = \"0640\"`")
    })?;
    if mode & 0o400 == 0 {
        let message = format!("{} does not let the owner read", literal(text));
        return Err(Reason::new(message)
            .hint("podnudge reads back what it has published: add 0400, as in `mode = \"0440\"`"));
    }
    Ok(mode)
}
