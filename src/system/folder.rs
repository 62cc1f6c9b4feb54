//! A directory that podnudge writes to: where it publishes, remembers, copies or installs files.
//!
//! Reads and writes only below that directory, through one descriptor that is opened once. A neighbour
//! that can write there, too, can neither redirect nor block podnudge: no link is followed, a new file
//! is always a new one, temporary names cannot be foreseen, and a read always ends.

mod remove;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, fchmod, fstat, fsync, mkdirat, openat,
    renameat, stat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::system::files::{self, FileError};

/// Opens a directory, and no link to one.
pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);
/// Waits neither for the writer of a named pipe nor for a device.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// The most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 50_000;
/// The length of the random end of a temporary name: 64 bits as hexadecimal digits.
const RANDOM_LENGTH: usize = 16;

/// A directory that podnudge writes to.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a directory.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        // The path is a setting, and may lead through links.
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(Self { fd: openat(CWD, path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a directory, and creates it if it is missing.
    pub(crate) fn open_or_create(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self::open(path)?)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads to this directory even if it was renamed, for podnudge itself only.
    pub(crate) fn path_by_descriptor(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Whether its path still leads to it.
    pub(crate) fn is_in_place(&self) -> bool {
        let (Ok(this), Ok(there)) = (fstat(&self.fd), stat(&self.path)) else { return false };
        (this.st_dev, this.st_ino) == (there.st_dev, there.st_ino)
    }

    /// Whether another one is the same directory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let (Ok(this), Ok(other)) = (fstat(&self.fd), fstat(&other.fd)) else { return false };
        (this.st_dev, this.st_ino) == (other.st_dev, other.st_ino)
    }

    /// Reads a file of at most `largest` bytes.
    pub(crate) fn read(&self, name: &str, largest: u64) -> Result<Vec<u8>, FileError> {
        files::read_to_end(self.open_file(name)?, largest)
    }

    /// Opens a file to be read.
    pub(crate) fn open_file(&self, name: &str) -> Result<File, FileError> {
        // Check before opening, because to open a pipe alone has effects on its writer.
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        files::check_kind(FileType::from_raw_mode(stat.st_mode))?;
        let fd = openat(&self.fd, name, READ, Mode::empty()).map_err(io::Error::from)?;
        let stat = fstat(&fd).map_err(io::Error::from)?;
        files::check_kind(FileType::from_raw_mode(stat.st_mode))?;
        Ok(File::from(fd))
    }

    /// Replaces a file by one with this content, by a rename: a kill at any moment leaves the old or the
    /// new one, complete. The name is podnudge's own: a directory there is removed.
    ///
    /// The owner may read and write it, and the group if it may write to the directory: another podnudge
    /// of the pod may have another uid, and the group that the directory hands down.
    pub(crate) fn replace(&self, name: &str, prefix: &str, content: &[u8]) -> Result<(), Errno> {
        let mode = self.mode(0o600)?;
        let new =
            self.temporary_file(prefix, mode, |mut file| write_and_sync(&mut file, content))?;
        let replaced = match new.rename(name) {
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                self.remove(name).and_then(|()| new.rename(name))
            }
            replaced => replaced,
        };
        replaced.inspect_err(|_| new.remove())?;
        self.sync()
    }

    /// Writes a new file with this mode, whatever the umask is, under a temporary name.
    pub(crate) fn temporary_file(
        &self,
        prefix: &str,
        mode: Mode,
        write: impl FnOnce(File) -> Result<(), Errno>,
    ) -> Result<Temporary<'_>, Errno> {
        let new = Temporary { folder: self, name: temporary_name(prefix)? };
        let file = new_file(self.as_fd(), OsStr::new(&new.name), Mode::RUSR | Mode::WUSR)?;
        let written = fchmod(&file, mode).and_then(|()| write(file));
        written.inspect_err(|_| new.remove())?;
        Ok(new)
    }

    /// Replaces a link, by a rename.
    pub(crate) fn replace_link(
        &self,
        name: &OsStr,
        prefix: &str,
        target: &OsStr,
    ) -> Result<(), Errno> {
        let temporary = temporary_name(prefix)?;
        symlinkat(target, &self.fd, &temporary)?;
        renameat(&self.fd, &temporary, &self.fd, name).inspect_err(|_| {
            // If this fails, the next start removes it.
            _ = self.remove(&temporary);
        })
    }

    /// The mode for a file of podnudge: the group may do what the owner may, if it may write to the
    /// directory.
    pub(crate) fn mode(&self, of_owner: RawMode) -> Result<Mode, Errno> {
        let is_shared = fstat(&self.fd)?.st_mode & Mode::WGRP.as_raw_mode() != 0;
        let of_group = if is_shared { (of_owner & 0o700) >> 3 } else { 0 };
        Ok(Mode::from_raw_mode(of_owner | of_group))
    }

    /// Removes an entry and everything below it, if it exists. What cannot be removed does not keep the rest.
    pub(crate) fn remove(&self, name: impl Arg) -> Result<(), Errno> {
        name.into_with_c_str(|name| remove::remove(self.fd.as_fd(), name))
    }

    /// Removes an entry of podnudge's own uid. Those of others are theirs, whatever their names are.
    pub(crate) fn remove_own(&self, name: impl Arg + Copy) -> Result<(), Errno> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if stat.st_uid == geteuid().as_raw() => self.remove(name),
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes what a podnudge of this uid that was killed has left under temporary names.
    pub(crate) fn remove_own_leftovers(&self, prefix: &str) -> Result<(), Errno> {
        each(self.leftovers(prefix)?, |name| self.remove_own(&name))
    }

    /// The temporary names that begin with `prefix`.
    pub(crate) fn leftovers(&self, prefix: &str) -> Result<Vec<OsString>, Errno> {
        let mut names = Vec::from_iter(self.names()?);
        names.retain(|name| {
            let end = name.as_bytes().strip_prefix(prefix.as_bytes()).unwrap_or_default();
            end.len() == RANDOM_LENGTH && end.iter().all(u8::is_ascii_hexdigit)
        });
        Ok(names)
    }

    /// The names of the entries.
    pub(crate) fn names(&self) -> Result<BTreeSet<OsString>, Errno> {
        names(self.fd.as_fd())
    }

    /// Syncs the entries to disk.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        fsync(&self.fd)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A new file with a temporary name.
#[derive(Debug)]
pub(crate) struct Temporary<'a> {
    folder: &'a Folder,
    name: String,
}

impl Temporary<'_> {
    /// Gives the file its name, in place of another file.
    pub(crate) fn rename(&self, name: &str) -> Result<(), Errno> {
        renameat(&self.folder.fd, &self.name, &self.folder.fd, name)
    }

    /// Removes the file. If this fails, the next start removes it.
    pub(crate) fn remove(&self) {
        _ = unlinkat(&self.folder.fd, &self.name, AtFlags::empty());
    }
}

/// Does this for each item, even after an error, and returns the first error.
pub(crate) fn each<T>(
    items: impl IntoIterator<Item = T>,
    act: impl FnMut(T) -> Result<(), Errno>,
) -> Result<(), Errno> {
    items.into_iter().map(act).fold(Ok(()), Result::and)
}

/// A name that no neighbour can foresee.
pub(crate) fn temporary_name(prefix: &str) -> Result<String, Errno> {
    let mut random = [0; RANDOM_LENGTH / 2];
    getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(format!("{prefix}{:0RANDOM_LENGTH$x}", u64::from_ne_bytes(random)))
}

/// The names of the entries of a directory, without `.` and `..`.
pub(crate) fn names(folder: BorrowedFd<'_>) -> Result<BTreeSet<OsString>, Errno> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(folder)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        names.insert(name);
        if names.len() > MAX_ENTRIES {
            return Err(Errno::FBIG);
        }
    }
    Ok(names)
}

/// Creates a new file in a directory.
pub(crate) fn new_file(at: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> Result<File, Errno> {
    Ok(File::from(openat(at, name, NEW_FILE, mode)?))
}

/// Opens a directory, and creates it if it is missing; only podnudge may enter a new one.
pub(crate) fn enter(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match mkdirat(at, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => openat(at, name, DIRECTORY, Mode::empty()),
        Err(error) => Err(error),
    }
}

/// Opens the directory at a path below another one, and creates what is missing.
pub(crate) fn enter_all(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let mut fd = root.try_clone_to_owned().map_err(|error| errno(&error))?;
    for name in path {
        fd = enter(fd.as_fd(), name)?;
    }
    Ok(fd)
}

/// Creates a new directory that only podnudge may enter.
pub(crate) fn new_folder(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    mkdirat(at, name, Mode::RWXU)?;
    openat(at, name, DIRECTORY, Mode::empty())
}

/// Writes all bytes.
pub(crate) fn write(file: &mut File, content: &[u8]) -> Result<(), Errno> {
    file.write_all(content).map_err(|error| errno(&error))
}

/// Writes all bytes and syncs them to disk.
pub(crate) fn write_and_sync(file: &mut File, content: &[u8]) -> Result<(), Errno> {
    write(file, content)?;
    file.sync_all().map_err(|error| errno(&error))
}

pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use nix::sys::stat::Mode as NixMode;
    use nix::unistd::mkfifo;

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let made = tempfile::tempdir().expect("a folder can be made");
        let folder = Folder::open(made.path()).expect("it can be opened");
        (made, folder)
    }

    #[test]
    fn a_read_follows_no_link_and_waits_for_nothing() {
        let (made, folder) = folder();
        fs::write(made.path().join("file"), "12345678").expect("it can be written");
        symlink("file", made.path().join("link")).expect("a link can be made");
        mkfifo(&made.path().join("pipe"), NixMode::S_IRWXU).expect("a pipe can be made");
        fs::create_dir(made.path().join("folder")).expect("a folder can be made");
        let refusal = |name| folder.read(name, 8).expect_err("it is no small file").to_string();
        assert_eq!(refusal("link"), "it is a symbolic link, not a file");
        assert_eq!(refusal("pipe"), "it is a device, pipe or socket, not a file");
        assert_eq!(refusal("folder"), "it is a directory, not a file");
        assert_eq!(folder.read("file", 8).expect("it is small enough"), b"12345678");
        assert!(folder.read("file", 7).is_err());
    }

    #[test]
    fn a_replaced_name_leads_nowhere_else_whatever_was_planted_there() {
        let (made, folder) = folder();
        let (outside, name) = (made.path().join("outside"), made.path().join("name"));
        fs::write(&outside, "mine").expect("it can be written");
        let plant: [&dyn Fn(); 4] = [
            &|| symlink(&outside, &name).expect("a link can be made"),
            &|| mkfifo(&name, NixMode::S_IRWXU).expect("a pipe can be made"),
            &|| fs::create_dir_all(name.join("below")).expect("folders can be made"),
            &|| fs::hard_link(&outside, &name).expect("a link can be made"),
        ];
        for plant in plant {
            plant();
            folder.replace("name", ".name-", b"new").expect("it can be replaced");
            assert_eq!(folder.read("name", 9).expect("it can be read"), b"new");
            assert_eq!(fs::read(&outside).expect("it can be read"), b"mine");
            fs::remove_file(&name).expect("it is a file");
        }
        assert_eq!(folder.leftovers(".name-").expect("it can be listed"), [""; 0]);
    }

    #[test]
    fn links_are_removed_and_not_followed_and_deep_trees_are_removed() {
        let (made, folder) = folder();
        fs::create_dir_all(made.path().join("kept/below")).expect("folders can be made");
        fs::create_dir_all(made.path().join("name/below")).expect("folders can be made");
        symlink("../../kept", made.path().join("name/below/link")).expect("a link can be made");
        folder.remove("name").expect("it can be removed");
        folder.remove("name").expect("nothing is there");
        assert!(made.path().join("kept/below").exists() && !made.path().join("name").exists());
        // Deep trees, and directories that a program has closed.
        for mode in [0o000, 0o755] {
            fs::create_dir_all(made.path().join("a/".repeat(1000))).expect("folders can be made");
            fs::write(made.path().join("a/a/a/file"), "").expect("it can be written");
            symlink("../../kept", made.path().join("a/a/link")).expect("a link can be made");
            for closed in ["a/a/a", "a/a", "a"].map(|name| made.path().join(name)) {
                fs::set_permissions(closed, fs::Permissions::from_mode(mode)).expect("it is ours");
            }
            folder.remove("a").expect("it can be removed");
            assert!(made.path().join("kept/below").exists() && !made.path().join("a").exists());
        }
    }

    #[test]
    fn leftovers_are_known_by_their_random_end() {
        let (made, folder) = folder();
        let name = temporary_name(".web-").expect("there are random numbers");
        assert_ne!(temporary_name(".web-"), Ok(name.clone()));
        for file in [name.as_str(), ".web-mine", ".web-b-0123456789abcdef"] {
            fs::write(made.path().join(file), "").expect("it can be written");
        }
        assert_eq!(folder.leftovers(".web-"), Ok(vec![name.clone().into()]));
        folder.remove_own_leftovers(".web-").expect("it can be removed");
        assert_eq!(folder.names().map(|names| names.len()), Ok(2));
    }
}
