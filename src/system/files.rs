//! Reads the small files that settings name: the configuration, credentials, certificates, bodies,
//! pidfiles. Changes nothing.
//!
//! A read always ends: opening a named pipe would wait for its writer and reading a device may
//! never end, so both are refused, and the size is limited.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use podnudge_core::reason::Reason;

/// The size limit for secrets, certificate bundles and the configuration, in bytes: the limit of a
/// ConfigMap or a Secret.
pub(crate) const LARGEST: u64 = 1024 * 1024;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The path is not a regular file.
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    /// The file is larger than this many bytes.
    #[error("it is larger than {} KiB", .0 / 1024)]
    TooLarge(u64),
}

/// Reads a file of at most `largest` bytes.
///
/// # Errors
/// If the file does not exist, is not a regular file, or is larger.
pub(crate) fn read(path: &Path, largest: u64) -> Result<Vec<u8>, FileError> {
    read_dated(path, largest).map(|(bytes, _)| bytes)
}

/// Like [`read`]. Returns also the metadata of before the reading.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_dated(path: &Path, largest: u64) -> Result<(Vec<u8>, Metadata), FileError> {
    // Check before opening, because opening alone has effects on some devices.
    let metadata = path.metadata()?;
    check_kind(FileType::from_raw_mode(metadata.mode()))?;
    // If it has become a pipe since then, do not wait for the pipe's writer.
    let no_wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    Ok((read_to_end(file, largest)?, metadata))
}

/// Refuses everything that is not a regular file.
pub(crate) fn check_kind(kind: FileType) -> Result<(), FileError> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::NotAFile("a directory")),
        FileType::Symlink => Err(FileError::NotAFile("a symbolic link")),
        _ => Err(FileError::NotAFile("a device, pipe or socket")),
    }
}

/// Reads a file of at most `largest` bytes to its end.
pub(crate) fn read_to_end(file: File, largest: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(largest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(FileError::TooLarge(largest));
    }
    Ok(bytes)
}

/// Like [`read`], with a hint.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_with_hint(path: &Path, largest: u64) -> Result<Vec<u8>, Reason> {
    read(path, largest).map_err(|error| {
        let reason = Reason::new(format!("cannot read `{}`: {error}", path.display()));
        match error {
            FileError::System(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let uid = rustix::process::geteuid().as_raw();
                reason.hint(format!("podnudge runs as uid {uid}; set the volume's defaultMode, or fsGroup in the pod's securityContext"))
            }
            _ => reason,
        }
    })
}

/// Reads a password or token, without the line feed at the end of the file.
///
/// # Errors
/// As for [`read`], and if it is empty, has several lines, or is not text.
pub(crate) fn secret(path: &Path) -> Result<String, Reason> {
    let refused = |what: &str| {
        Reason::new(format!("`{}` {what}", path.display()))
            .hint("the file must contain only the token or password, and may end with a line feed")
    };
    let text = String::from_utf8(read_with_hint(path, LARGEST)?)
        .map_err(|_| refused("is not UTF-8 text"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(refused("is empty")),
        text if text.contains(char::is_control) => {
            Err(refused("has a line break or another control character in it"))
        }
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line_that_is_not_empty() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let file = folder.path().join("token");
        let read = |content: &[u8]| {
            std::fs::write(&file, content).expect("it can be written");
            secret(&file)
        };
        assert_eq!(read(b"s3cret with blanks\r\n"), Ok("s3cret with blanks".to_owned()));
        for (content, what) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"s3\ncret\n", "has a line break"),
            (b"s3\0cret", "has a line break or another control character"),
            (b"s3\xff", "is not UTF-8 text"),
        ] {
            let refused = read(content).expect_err("it is no secret");
            let start = format!("`{}` {what}", file.display());
            assert!(refused.message.starts_with(&start) && refused.hint.is_some(), "{refused}");
            assert!(!refused.to_string().contains("s3"), "{refused}");
        }
    }

    #[test]
    fn pipes_devices_directories_and_large_files_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe can be made");
        let refusal = |path: &Path| read(path, 8).expect_err("it is no small file").to_string();
        assert_eq!(refusal(&pipe), "it is a device, pipe or socket, not a file");
        assert_eq!(refusal(Path::new("/dev/zero")), "it is a device, pipe or socket, not a file");
        assert_eq!(refusal(folder.path()), "it is a directory, not a file");
        let file = folder.path().join("file");
        std::fs::write(&file, "12345678").expect("it can be written");
        assert_eq!(read(&file, 8).expect("it is small enough"), b"12345678");
        std::fs::write(&file, "123456789").expect("it can be written");
        assert_eq!(refusal(&file), "it is larger than 0 KiB");
    }
}
