//! Writes the file of `[rule.expand]`: a file of the volumes, decompressed and with environment variables in
//! it.
//!
//! Reads the volumes; replaces one file by a rename.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{Mode, fsync};

use crate::system::folder::Folder;
use crate::volume::contents::{ContentsError, Volume, read_file};
use crate::volume::expand::{ExpandError, Source};
use podnudge_config::{Expand, Rule};
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// How the names of a rule's temporary files begin, as volumes' hidden names do. Another rule may write into the same
/// directory at the same time.
fn temporary(rule: &Rule) -> String {
    format!("..podnudge.expand.{}.", rule.name)
}

/// Writes the file, if the volumes still have this digest.
///
/// # Errors
/// If the content cannot be expanded or the file cannot be written.
pub(crate) fn write(rule: &Rule, expand: &Expand, digest: Digest) -> Result<(), Reason> {
    let volumes = rule.settings.watch.iter().map(PathBuf::as_path);
    let volumes =
        read_file(volumes, &rule.keys, digest, &expand.file).map_err(ContentsError::reason)?;
    let named = volumes.iter().flat_map(|Volume { folder, contents }| {
        contents.iter().map(move |(key, content)| (folder.join(OsStr::from_bytes(&key.0)), content))
    });
    let files = named.map(|(path, content)| (path, content.bytes.as_slice()));
    let source = Source::of_volumes(expand, files)?;
    replace(expand, &source, &temporary(rule)).map_err(|error| match error {
        ExpandError::Content(reason) => reason,
        ExpandError::Output(error) => reason(expand, &error),
    })
}

fn replace(expand: &Expand, source: &Source<'_>, temporary: &str) -> Result<(), ExpandError> {
    let failed = |error: rustix::io::Errno| ExpandError::Output(error.into());
    let (Some(parent), Some(name)) = (expand.to.parent(), expand.to.file_name()) else {
        return Err(failed(rustix::io::Errno::INVAL));
    };
    let (folder, name) = (Folder::open(parent).map_err(failed)?, name.to_string_lossy());
    if let Ok(file) = folder.open_file(&name)
        && is_same(source, file)?
    {
        return Ok(());
    }
    // Of a podnudge that was killed.
    folder.remove_own_leftovers(temporary).map_err(failed)?;
    // The application may run as any user.
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let mut written = Ok(());
    let new = folder.temporary_file(temporary, mode, |file| {
        let mut output = BufWriter::new(&file);
        written = source.write_to(&mut output);
        drop(output);
        if written.is_ok() { fsync(&file) } else { Err(rustix::io::Errno::CANCELED) }
    });
    written?;
    let new = new.map_err(failed)?;
    new.rename(&name).inspect_err(|_| new.remove()).map_err(failed)?;
    folder.sync().map_err(failed)
}

/// Whether this file holds the content, expanded.
fn is_same(source: &Source<'_>, file: File) -> Result<bool, ExpandError> {
    let mut comparison = Comparison(BufReader::new(file));
    match source.write_to(&mut comparison) {
        Ok(()) => Ok(comparison.is_at_end()),
        // It differs, or cannot be read.
        Err(ExpandError::Output(_)) => Ok(false),
        Err(error @ ExpandError::Content(_)) => Err(error),
    }
}

/// Takes what a file holds, and fails at the first difference.
struct Comparison(BufReader<File>);

impl Comparison {
    fn is_at_end(&mut self) -> bool {
        self.0.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

impl Write for Comparison {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let there = self.0.fill_buf()?;
        let length = there.len().min(piece.len());
        if length == 0 && !piece.is_empty() || there.get(..length) != piece.get(..length) {
            return Err(io::Error::other("another content"));
        }
        self.0.consume(length);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
