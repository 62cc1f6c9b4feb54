//! Locks a publish directory: two podnudges would roll back each other's content, and remove the
//! generations that the other needs for a rollback.
//!
//! The lock belongs to a file that can be opened for writing only (mode 0200): whoever may merely read
//! the directory, or has mounted it read-only, can neither take nor share it. It is a lock of an open
//! file description (`F_OFD_SETLK`, fcntl(2)), so a kernel releases it when podnudge ends in any way, and
//! tells others its range; that names the holder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{self, off_t};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;
use tracing::warn;

use super::directory::Dir;
use crate::system::folder::{Folder, new_file};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// Hidden from the application like the kubelet's own names.
const FILE: &str = "..podnudge.lock";
/// How often to open the file anew, if a neighbour replaces it meanwhile.
const MAX_ATTEMPTS: usize = 5;
const EXISTING: OFlags =
    OFlags::WRONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// Whoever may read the file can share its lock.
const READABLE: u32 = 0o444;
/// The bits of a process id (`PID_MAX_LIMIT` in the kernel's threads.h).
const PID_BITS: u32 = 22;

/// The exclusive lock of a publish directory. It is held until it is dropped or podnudge ends in any
/// way. Programs that podnudge starts do not inherit its descriptor.
pub struct Lock {
    /// All that podnudge does with the directory goes through this descriptor.
    _dir: Arc<Dir>,
    /// The lock belongs to this descriptor; `None` if the file system does not support locks.
    _file: Option<File>,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A podnudge, if it can be seen: `41 (podnudge)`.
    Podnudge(Option<String>),
    /// Another program, if the kernel names it.
    Other(Option<String>),
}

impl Lock {
    /// Locks the directory, or says who holds the lock.
    pub(super) fn acquire(dir: Arc<Dir>) -> Result<Result<Self, Holder>, Reason> {
        let failed = |error| dir.error_reason(error);
        for _ in 0..MAX_ATTEMPTS {
            let file = open(dir.folder()).map_err(failed)?;
            match try_lock(&file) {
                Ok(()) if is_in_place(dir.folder(), &file).map_err(failed)? => {
                    dir.keep();
                    return Ok(Ok(Self { _dir: dir, _file: Some(file) }));
                }
                // It was replaced meanwhile, so this lock keeps nobody out.
                Ok(()) => {}
                Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Ok(Err(holder(&file))),
                Err(error) => {
                    warn!(
                        event = "not-locked",
                        path = shown::path(dir.path()),
                        %error,
                        hint = "make sure that no other podnudge publishes there",
                        "the file system does not support locks"
                    );
                    dir.keep();
                    return Ok(Ok(Self { _dir: dir, _file: None }));
                }
            }
        }
        let dir = shown::path_literal(dir.path());
        Err(Reason::new(format!(
            "cannot lock {dir}: the file `{FILE}` there is replaced again and again"
        )))
    }
}

/// Opens the file for writing, and creates it if it is missing. Removes whatever else has its name.
fn open(dir: &Folder) -> Result<File, Errno> {
    for _ in 0..MAX_ATTEMPTS {
        let stat = match statat(dir, FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => match new_file(dir.as_fd(), OsStr::new(FILE), Mode::WUSR) {
                Ok(file) => {
                    fchmod(&file, dir.mode(0o200)?)?;
                    return Ok(file);
                }
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            dir.remove(FILE)?;
            continue;
        }
        match openat(dir, FILE, EXISTING, Mode::empty()) {
            Ok(fd) if FileType::from_raw_mode(fstat(&fd)?.st_mode).is_file() => {
                if stat.st_uid == geteuid().as_raw() && stat.st_mode & READABLE != 0 {
                    fchmod(&fd, dir.mode(0o200)?)?;
                }
                return Ok(File::from(fd));
            }
            Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {}
            // podnudge's own, of any uid, is empty and not readable.
            Err(Errno::ACCESS) if stat.st_size > 0 || stat.st_mode & READABLE != 0 => {
                dir.remove(FILE)?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::AGAIN)
}

fn try_lock(file: &File) -> nix::Result<()> {
    let lock = range(length(std::process::id(), own_namespace()));
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
}

/// Whether the file still has its name.
fn is_in_place(dir: &Folder, file: &File) -> Result<bool, Errno> {
    let own = fstat(file)?;
    match statat(dir, FILE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A lock of the first bytes. All locks contain the first byte, so each excludes all others.
fn range(length: off_t) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(libc::F_WRLCK).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: length,
        l_pid: 0,
    }
}

/// The length of a lock says who holds it: a process, and the namespace in which it has this id.
fn length(pid: u32, namespace: u32) -> off_t {
    i64::from(namespace) << PID_BITS | i64::from(pid)
}

/// The inverse of `length`; `None` if no podnudge has taken a lock of this length.
fn process(length: off_t) -> Option<(u32, u32)> {
    let pid = length & ((1 << PID_BITS) - 1);
    let namespace = u32::try_from(length >> PID_BITS).ok().filter(|namespace| *namespace != 0)?;
    Some((u32::try_from(pid).ok()?, namespace))
}

/// The number of podnudge's own pid namespace.
fn own_namespace() -> u32 {
    let found = fs::metadata("/proc/self/ns/pid").ok();
    found.and_then(|found| u32::try_from(found.ino()).ok()).unwrap_or(1)
}

fn holder(file: &File) -> Holder {
    let mut lock = range(0);
    if fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).is_err() {
        return Holder::Other(None);
    }
    // The kernel names the process of a lock of the older kind only.
    match u32::try_from(lock.l_pid) {
        Ok(pid) if pid != 0 => Holder::Other(Some(named(pid))),
        _ => match process(lock.l_len).filter(|_| lock.l_start == 0) {
            Some((pid, namespace)) if namespace == own_namespace() => {
                Holder::Podnudge(Some(named(pid)))
            }
            Some(_) => Holder::Podnudge(None),
            None => Holder::Other(None),
        },
    }
}

/// A process with its name, as for a target.
fn named(pid: u32) -> String {
    let mut name = String::new();
    let opened = File::open(format!("/proc/{pid}/comm"));
    match opened.and_then(|file| file.take(64).read_to_string(&mut name)) {
        Ok(_) => format!("{pid} ({})", shown::text(name.trim_end())),
        Err(error) if error.kind() == ErrorKind::NotFound => format!("{pid} (has ended)"),
        Err(_) => pid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_lock_names_its_holder() {
        for (pid, namespace) in [(1, 4_026_531_836), (4_194_303, u32::MAX), (7, 1)] {
            assert_eq!(process(length(pid, namespace)), Some((pid, namespace)));
        }
        // The whole file, and the first byte.
        assert_eq!((process(0), process(1)), (None, None));
    }
}
