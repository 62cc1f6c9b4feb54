//! Writes the file of `[rule.expand]`: a file of the volumes, decompressed and with environment variables in
//! it.
//!
//! Reads the volumes; replaces one file by a rename.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::Mode;

use crate::config::{Expand, Rule};
use crate::expand;
use crate::folder::{self, Folder};
use crate::reason::Reason;
use crate::shown;
use crate::volume::contents::{ContentsError, Volume, read_file};
use crate::volume::snapshot::Digest;

/// How the names of temporary files begin, as volumes' hidden names do.
const TEMPORARY: &str = "..podnudge.expand.";

/// Writes the file, if the volumes still have this digest.
///
/// # Errors
/// If the content cannot be expanded or the file cannot be written.
pub(crate) fn write(rule: &Rule, expand: &Expand, digest: Digest) -> Result<(), Reason> {
    let volumes = rule.settings.watch.iter().map(PathBuf::as_path);
    let volumes =
        read_file(volumes, &rule.keys, digest, &expand.file).map_err(|error| match error {
            ContentsError::Moved => Reason::new("the volumes changed while they were being read"),
            ContentsError::TooLarge(reason) | ContentsError::Failed(reason) => reason,
        })?;
    let named = volumes.iter().flat_map(|Volume { folder, contents }| {
        contents.iter().map(move |(key, content)| (folder.join(OsStr::from_bytes(&key.0)), content))
    });
    let files = named.map(|(path, content)| (path, content.bytes.as_slice()));
    let content = expand::of_volumes(expand, files)?;
    replace(expand, &content).map_err(|error| reason(expand, &error.into()))
}

fn replace(expand: &Expand, content: &[u8]) -> Result<(), rustix::io::Errno> {
    let (Some(parent), Some(name)) = (expand.to.parent(), expand.to.file_name()) else {
        return Err(rustix::io::Errno::INVAL);
    };
    let folder = Folder::open(parent)?;
    let is_there = folder.read(&name.to_string_lossy(), content.len() as u64 + 1);
    if is_there.is_ok_and(|there| there == content) {
        return Ok(());
    }
    // Of a podnudge that was killed.
    folder.remove_own_leftovers(TEMPORARY)?;
    // The application may run as any user.
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let write = |mut file| folder::write_and_sync(&mut file, content);
    let new = folder.temporary_file(TEMPORARY, mode, write)?;
    new.rename(&name.to_string_lossy()).inspect_err(|_| new.remove())?;
    folder.sync()
}

fn reason(expand: &Expand, error: &std::io::Error) -> Reason {
    use std::io::ErrorKind;
    let reason = Reason::new(format!("cannot write `{}`: {error}", shown::path(&expand.to)));
    match error.kind() {
        ErrorKind::NotFound => reason.hint(
            "mount an emptyDir there, in podnudge's container and in the application's",
        ),
        ErrorKind::PermissionDenied => reason.hint(format!(
            "uid {} must be able to write to its directory: set fsGroup in the pod's securityContext",
            rustix::process::geteuid().as_raw()
        )),
        ErrorKind::ReadOnlyFilesystem => {
            reason.hint("remove `readOnly` from podnudge's volumeMount; the application's may keep it")
        }
        _ => reason,
    }
}
