//! Reads and writes the publish directory, step by step, in the layout of a kubelet volume.
//!
//! All access goes through one descriptor of the directory (`system/folder.rs`), since the application may be
//! able to write there, too.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{AtFlags, Mode, openat, readlinkat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::generation::Name;
use super::write::{Parts, Writer};
use crate::system::folder::{self, DIRECTORY, Folder, each, temporary_name};
use crate::volume::reader::changed;
use podnudge_config::Publish;
use podnudge_core::clock::UnixTime;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

const DATA: &str = "..data";
/// How temporary names begin.
const TEMPORARY: &str = "..podnudge-";
/// Temporary names that earlier versions of podnudge used.
const EARLIER_TEMPORARY: [&str; 4] = ["..data_tmp", "..new", "..link_tmp", "..file_tmp"];

/// The directories that are locked: all that podnudge does there goes through the descriptor that it
/// opened first, whatever becomes of the path.
static LOCKED: Mutex<Vec<Weak<Dir>>> = Mutex::new(Vec::new());

/// The publish directory.
#[derive(Debug)]
pub(super) struct Dir(Folder);

impl Dir {
    /// The directory at this path: the locked one, if there is one.
    pub(super) fn at(path: &Path) -> Result<Arc<Self>, Reason> {
        let locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut locked = locked.iter().filter_map(Weak::upgrade);
        let Some(dir) = locked.find(|dir| dir.path() == path) else {
            return Ok(Arc::new(Self::open(path)?));
        };
        if !dir.0.is_in_place() {
            let path = path.display();
            let message = format!("the publish directory `{path}` was replaced while podnudge ran");
            return Err(Reason::new(message).hint(
                "restart podnudge's container; only podnudge and the kubelet should be able to replace it",
            ));
        }
        Ok(dir)
    }

    /// Opens the directory. Creates it if it is missing, unless its nearest existing parent is `/`.
    fn open(path: &Path) -> Result<Self, Reason> {
        let above = path.ancestors().find(|path| path.exists());
        if above.is_some_and(|above| above != path && above != Path::new("/")) {
            fs::create_dir_all(path).map_err(|error| error_reason(path, &error))?;
        }
        let opened = Folder::open(path);
        Ok(Self(opened.map_err(|error| error_reason(path, &error.into()))?))
    }

    /// Remembers that it is locked, for as long as it is not dropped.
    pub(super) fn keep(self: &Arc<Self>) {
        let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        locked.retain(|dir| dir.strong_count() > 0);
        locked.push(Arc::downgrade(self));
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.0
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Checks that it is writable.
    pub(super) fn check_writable(&self) -> Result<(), Reason> {
        let write = || {
            let name = temporary_name(TEMPORARY)?;
            symlinkat("nowhere", &self.0, &name)?;
            self.0.remove(&name)
        };
        write().map_err(|error| self.error_reason(error))
    }

    /// Removes the temporary files of an interrupted write.
    pub(super) fn remove_leftovers(&self) -> Result<(), Reason> {
        let remove = || {
            let earlier = each(EARLIER_TEMPORARY, |name| self.0.remove(name));
            // Also those of another uid: podnudge gives files away.
            each(self.0.leftovers(TEMPORARY)?, |name| self.0.remove(&name)).and(earlier)
        };
        remove().map_err(|error| self.error_reason(error))
    }

    /// The generation that the application reads, and when it was published.
    pub(super) fn current(&self) -> Result<Option<(Name, UnixTime)>, Reason> {
        let target = match readlinkat(&self.0, DATA, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::INVAL) => return Err(self.foreign_entry(DATA)),
            Err(error) => return Err(self.error_reason(error)),
        };
        let Some(name) = target.to_str().ok().and_then(Name::parse) else { return Ok(None) };
        let link = statat(&self.0, DATA, AtFlags::SYMLINK_NOFOLLOW);
        let since = link.map_err(|error| self.error_reason(error))?;
        Ok(Some((name, UnixTime(changed(&since)))))
    }

    /// Whether the directory of a generation is there.
    pub(super) fn has(&self, name: &Name) -> bool {
        let there = statat(&self.0, name.to_string(), AtFlags::SYMLINK_NOFOLLOW);
        !matches!(there, Err(Errno::NOENT))
    }

    /// All complete generations, the oldest first.
    pub(super) fn generations(&self) -> Result<Vec<Name>, Reason> {
        let names = names(self.fd()).map_err(|error| self.error_reason(error))?;
        let generations = names.iter().filter_map(|name| Name::parse(name.to_str()?));
        let mut generations: Vec<Name> = generations.collect();
        generations.sort_unstable();
        Ok(generations)
    }

    /// Refuses to publish if an entry that podnudge did not make has the name of a key.
    pub(super) fn reject_foreign_entries(&self, parts: &Parts<'_>) -> Result<(), Reason> {
        let there = names(self.fd()).map_err(|error| self.error_reason(error))?;
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
        let target = readlinkat(&self.0, name, Vec::new());
        target.is_ok_and(|target| target.to_bytes() == link_target(name).as_bytes())
    }

    /// Writes a complete generation to disk, then gives it its name.
    pub(super) fn write(
        &self,
        name: &Name,
        parts: &Parts<'_>,
        publish: &Publish,
    ) -> Result<(), Errno> {
        let staging = temporary_name(TEMPORARY)?;
        let write = || {
            Writer { publish }.write(self.fd(), &staging, parts)?;
            renameat(&self.0, &staging, &self.0, name.to_string())?;
            self.0.sync()
        };
        write().inspect_err(|_| {
            // If this fails, the next start removes it.
            _ = self.0.remove(&staging);
        })
    }

    /// Points `..data` to a generation, which the application reads from then on: the commit.
    pub(super) fn set_current(&self, to: &Name) -> Result<(), Reason> {
        let replace = || {
            self.0.replace_link(DATA.as_ref(), TEMPORARY, to.to_string().as_ref())?;
            self.0.sync()
        };
        replace().map_err(|error| self.error_reason(error))
    }

    /// Creates a link for each name of the current generation, and removes those of other names.
    pub(super) fn update_links(&self) -> Result<(), Reason> {
        self.link(|_| true)
    }

    /// Creates the links that are missing. What somebody has put in their places stays.
    pub(super) fn add_links(&self) -> Result<(), Reason> {
        let there = names(self.fd()).map_err(|error| self.error_reason(error))?;
        self.link(|name| !there.contains(name))
    }

    fn link(&self, may_replace: impl Fn(&OsStr) -> bool) -> Result<(), Reason> {
        let Some((current, _)) = self.current()? else { return Ok(()) };
        let link = || {
            let data = openat(&self.0, current.to_string(), DIRECTORY, Mode::empty())?;
            let wanted = names(data.as_fd())?;
            let there = names(self.fd())?;
            let mut has_changed = false;
            let is_missing = |name: &&OsString| !self.is_key_link(name) && may_replace(name);
            for name in wanted.iter().filter(is_missing) {
                self.0.replace_link(name, TEMPORARY, &link_target(name))?;
                has_changed = true;
            }
            for name in there.difference(&wanted).filter(|name| self.is_key_link(name)) {
                unlinkat(&self.0, name, AtFlags::empty())?;
                has_changed = true;
            }
            if has_changed { self.0.sync() } else { Ok(()) }
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
            _ = self.0.remove(name.to_string());
        }
    }

    /// Removes a generation that did not become the current one.
    pub(super) fn discard(&self, name: &Name) {
        let is_current = |current: Option<(Name, _)>| current.is_some_and(|(is, _)| is == *name);
        if !self.current().is_ok_and(is_current) {
            _ = self.0.remove(name.to_string());
        }
    }

    /// Replaces a small file.
    pub(super) fn replace_file(&self, name: &str, content: &[u8]) -> Result<(), Reason> {
        let replaced = self.0.replace(name, TEMPORARY, content);
        replaced.map_err(|error| self.error_reason(error))
    }

    fn foreign_entry(&self, name: &str) -> Reason {
        let message = format!(
            "`{}` has an entry `{}` that podnudge did not create",
            self.path().display(),
            shown::text(name)
        );
        Reason::new(message)
            .hint("give podnudge an empty directory of its own, such as an emptyDir")
    }

    pub(super) fn error_reason(&self, error: Errno) -> Reason {
        error_reason(self.path(), &error.into())
    }
}

/// The names in a directory, without the kubelet's hidden names, but with podnudge's own complete
/// generations.
fn names(fd: BorrowedFd<'_>) -> Result<BTreeSet<OsString>, Errno> {
    let mut names = folder::names(fd)?;
    names.retain(|name| {
        !name.as_bytes().starts_with(b"..")
            || name.to_str().is_some_and(|name| Name::parse(name).is_some())
    });
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
