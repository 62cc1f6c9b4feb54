//! Reads and writes the publish directory, step by step, in the layout of a kubelet volume.
//!
//! All access goes through the directory's descriptor and follows no links, since the application
//! may be able to write there, too.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, fchmod, fstat, fsync, openat, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::generation::Name;
use super::write::{self, NEW_FILE, Parts, Writer};
use crate::clock::UnixTime;
use crate::config::Publish;
use crate::reason::Reason;
use crate::shown;
use crate::volume::reader::changed;
use crate::volume::snapshot::Digest;

const DATA: &str = "..data";
/// The temporary name of the `..data` link, as in the kubelet.
const NEXT_DATA: &str = "..data_tmp";
/// The temporary name of a generation.
const STAGING: &str = "..new";
/// The temporary name of a key's link.
const NEXT_LINK: &str = "..link_tmp";
/// The temporary name of a small file.
const NEXT_FILE: &str = "..file_tmp";

/// The publish directory.
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens it. Creates it if it is missing below a mount point.
    pub(super) fn open(path: &Path) -> Result<Self, Reason> {
        let above = path.ancestors().find(|path| path.exists());
        if above.is_some_and(|above| above != path && above != Path::new("/")) {
            fs::create_dir_all(path).map_err(|error| error_reason(path, &error))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(rustix::fs::CWD, path, flags, Mode::empty());
        let fd = opened.map_err(|error| error_reason(path, &error.into()))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that it is writable.
    pub(super) fn check_writable(&self) -> Result<(), Reason> {
        let write = || {
            self.remove(NEXT_LINK)?;
            symlinkat("nowhere", &self.fd, NEXT_LINK)?;
            self.remove(NEXT_LINK)
        };
        write().map_err(|error| self.error_reason(error))
    }

    /// Removes the temporary files of an interrupted write.
    pub(super) fn remove_leftovers(&self) -> Result<(), Reason> {
        for left in [NEXT_DATA, STAGING, NEXT_LINK, NEXT_FILE] {
            self.remove(left).map_err(|error| self.error_reason(error))?;
        }
        Ok(())
    }

    /// The generation that the application reads, and when it was published.
    pub(super) fn current(&self) -> Result<Option<(Name, UnixTime)>, Reason> {
        let target = match readlinkat(&self.fd, DATA, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::INVAL) => return Err(self.foreign_entry(DATA)),
            Err(error) => return Err(self.error_reason(error)),
        };
        let Some(name) = target.to_str().ok().and_then(Name::parse) else { return Ok(None) };
        let link = statat(&self.fd, DATA, AtFlags::SYMLINK_NOFOLLOW);
        let since = link.map_err(|error| self.error_reason(error))?;
        Ok(Some((name, UnixTime(changed(&since)))))
    }

    /// All complete generations, the oldest first.
    pub(super) fn generations(&self) -> Result<Vec<Name>, Reason> {
        let names = names(self.fd.as_fd()).map_err(|error| self.error_reason(error))?;
        let generations = names.iter().filter_map(|name| Name::parse(name.to_str()?));
        let mut generations: Vec<Name> = generations.collect();
        generations.sort_unstable();
        Ok(generations)
    }

    /// Refuses to publish if an entry that podnudge did not make has the name of a key.
    pub(super) fn reject_foreign_entries(&self, parts: &Parts<'_>) -> Result<(), Reason> {
        let there = names(self.fd.as_fd()).map_err(|error| self.error_reason(error))?;
        for (folder, contents) in parts {
            for key in contents.keys() {
                let path = folder.join(OsStr::from_bytes(&key.0));
                let Some(top) = path.iter().next() else { continue };
                if there.contains(top) && !self.is_key_link(top) {
                    return Err(self.foreign_entry(&top.to_string_lossy()));
                }
            }
        }
        Ok(())
    }

    /// Whether an entry is podnudge's link for a key.
    fn is_key_link(&self, name: &OsStr) -> bool {
        let target = readlinkat(&self.fd, name, Vec::new());
        target.is_ok_and(|target| target.to_bytes() == link_target(name).as_bytes())
    }

    /// Writes a complete generation to disk, then gives it its name.
    pub(super) fn write(
        &self,
        name: &Name,
        parts: &Parts<'_>,
        publish: &Publish,
    ) -> Result<(), Errno> {
        let write = || {
            self.remove(STAGING)?;
            Writer { publish }.write(self.fd.as_fd(), STAGING, parts)?;
            renameat(&self.fd, STAGING, &self.fd, name.to_string())?;
            fsync(&self.fd)
        };
        write().inspect_err(|_| {
            // If this fails, the next write removes it.
            _ = self.remove(STAGING);
        })
    }

    /// Points `..data` to a generation, which the application reads from then on: the commit.
    pub(super) fn set_current(&self, to: &Name) -> Result<(), Reason> {
        let replace = || {
            self.replace_link(DATA, NEXT_DATA, to.to_string())?;
            fsync(&self.fd)
        };
        replace().map_err(|error| self.error_reason(error))
    }

    /// Creates a link for each name of the current generation, and removes those of other names.
    pub(super) fn update_links(&self) -> Result<(), Reason> {
        let link = || {
            let data = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let data = openat(&self.fd, DATA, data, Mode::empty())?;
            let wanted = names(data.as_fd())?;
            let there = names(self.fd.as_fd())?;
            for name in wanted.iter().filter(|name| !self.is_key_link(name)) {
                self.replace_link(name, NEXT_LINK, link_target(name))?;
            }
            for name in there.difference(&wanted).filter(|name| self.is_key_link(name)) {
                unlinkat(&self.fd, name, AtFlags::empty())?;
            }
            fsync(&self.fd)
        };
        link().map_err(|error| self.error_reason(error))
    }

    /// Removes all generations except the current one, the last good one, and the `keep` newest of
    /// the others. A generation that cannot be removed is removed the next time.
    pub(super) fn prune(&self, keep: u32, good: Option<Digest>) {
        let (Ok(current), Ok(generations)) = (self.current(), self.generations()) else { return };
        let current = current.map(|(name, _)| name);
        let good = generations.iter().rev().find(|name| Some(name.digest) == good).cloned();
        let others = generations
            .into_iter()
            .filter(|name| Some(name) != current.as_ref() && Some(name) != good.as_ref());
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        for name in others.rev().skip(keep) {
            _ = self.remove(&name.to_string());
        }
    }

    /// Removes a generation that did not become the current one.
    pub(super) fn discard(&self, name: &Name) {
        let is_current = |current: Option<(Name, _)>| current.is_some_and(|(is, _)| is == *name);
        if !self.current().is_ok_and(is_current) {
            _ = self.remove(&name.to_string());
        }
    }

    /// Replaces a small file. If the group may write to the directory, it may read and write the
    /// file: another podnudge of the pod may have another uid and the group that the directory
    /// hands down.
    pub(super) fn replace_file(&self, name: &str, content: &[u8]) -> Result<(), Reason> {
        let replace = || {
            self.remove(NEXT_FILE)?;
            let fd = openat(&self.fd, NEXT_FILE, NEW_FILE, Mode::RUSR | Mode::WUSR)?;
            if fstat(&self.fd)?.st_mode & Mode::WGRP.as_raw_mode() != 0 {
                fchmod(&fd, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP)?;
            }
            write::write_and_sync(fd, content)?;
            renameat(&self.fd, NEXT_FILE, &self.fd, name)?;
            fsync(&self.fd)
        };
        replace().map_err(|error| self.error_reason(error))
    }

    fn replace_link(
        &self,
        name: impl AsRef<OsStr>,
        temporary: &str,
        target: impl AsRef<OsStr>,
    ) -> Result<(), Errno> {
        self.remove(temporary)?;
        symlinkat(target.as_ref(), &self.fd, temporary)?;
        renameat(&self.fd, temporary, &self.fd, name.as_ref())
    }

    /// Removes an entry and everything below it, if it exists.
    fn remove(&self, name: &str) -> Result<(), Errno> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {
                fs::remove_dir_all(self.path.join(name)).map_err(|error| write::errno(&error))
            }
            Err(error) => Err(error),
        }
    }

    fn foreign_entry(&self, name: &str) -> Reason {
        let message = format!(
            "`{}` has an entry `{}` that podnudge did not create",
            self.path.display(),
            shown::text(name)
        );
        Reason::new(message)
            .hint("give podnudge an empty directory of its own, such as an emptyDir")
    }

    pub(super) fn error_reason(&self, error: Errno) -> Reason {
        error_reason(&self.path, &error.into())
    }
}

/// The names in a directory, without the kubelet's hidden names, but with podnudge's own complete
/// generations.
fn names(fd: BorrowedFd<'_>) -> Result<BTreeSet<OsString>, Errno> {
    let mut names = BTreeSet::new();
    for entry in rustix::fs::Dir::read_from(fd)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        let is_hidden = name == "." || name.as_bytes().starts_with(b"..");
        if !is_hidden || name.to_str().is_some_and(|name| Name::parse(name).is_some()) {
            names.insert(name);
        }
    }
    Ok(names)
}

/// The target of a key's link.
fn link_target(name: &OsStr) -> OsString {
    Path::new(DATA).join(name).into_os_string()
}

fn error_reason(path: &Path, error: &std::io::Error) -> Reason {
    use std::io::ErrorKind;
    let reason = Reason::new(format!("cannot publish to `{}`: {error}", path.display()));
    let uid = rustix::process::geteuid().as_raw();
    match error.kind() {
        ErrorKind::NotFound => {
            reason.hint("mount an emptyDir there, in podnudge's container and in the application's")
        }
        ErrorKind::PermissionDenied => reason.hint(format!(
            "uid {uid} must be able to write there: set fsGroup in the pod's securityContext; to change the owner of files (`uid`) it needs the capabilities CHOWN, FOWNER and DAC_OVERRIDE"
        )),
        ErrorKind::ReadOnlyFilesystem => {
            reason.hint("remove `readOnly` from podnudge's volumeMount; the application's may keep it")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => reason.hint(
            "the emptyDir is full: raise its sizeLimit, lower `keep`, or free space on the node; the published content is unchanged",
        ),
        _ => reason,
    }
}
